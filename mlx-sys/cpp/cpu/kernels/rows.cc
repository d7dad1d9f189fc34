// Row kernels: one pass each, sums in sixteen lanes.
#include "cpu/kernels/simd.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {

void rms_norm(int n, const float* x, const float* weight, float eps, float* out) {
  V16 squares = splat(0.0f);
  for (int i = 0; i < n; i += kLanes) {
    V16 v = load_part(x + i, n - i);
    squares = add_product(squares, v, v);
  }
  V16 factor = splat(1.0f / sqrtf(sum(squares) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) {
    V16 scaled = load_part(x + i, n - i) * factor;
    store_part(out + i, weight ? scaled * load_part(weight + i, n - i) : scaled, n - i);
  }
}

void layer_norm(int n, const float* x, const float* weight, const float* bias, float eps, float* out) {
  V16 total = splat(0.0f), squares = splat(0.0f);
  for (int i = 0; i < n; i += kLanes) total = total + load_part(x + i, n - i);
  float mean = sum(total) / static_cast<float>(n);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V16 v = load(x + i) - splat(mean);
    squares = add_product(squares, v, v);
  }
  float rest = 0;
  for (; i < n; ++i) rest += (x[i] - mean) * (x[i] - mean);
  float factor = 1.0f / sqrtf((sum(squares) + rest) / static_cast<float>(n) + eps);
  for (i = 0; i < n; i += kLanes) {
    V16 scaled = (load_part(x + i, n - i) - splat(mean)) * splat(factor);
    if (weight) scaled = scaled * load_part(weight + i, n - i);
    store_part(out + i, bias ? scaled + load_part(bias + i, n - i) : scaled, n - i);
  }
}

// x * sigmoid(y)
TROUPE_INLINE V16 times_sigmoid(V16 x, V16 y) { return x / (splat(1.0f) + exp(splat(0.0f) - y)); }

void silu_times(int n, const float* gate, const float* up, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    V16 g = load_part(gate + i, n - i);
    store_part(out + i, times_sigmoid(g, g) * load_part(up + i, n - i), n - i);
  }
}

// (1 + tanh(y)) / 2 is sigmoid(2y).
void gelu_times(int n, const float* gate, const float* up, float* out) {
  const V16 root = splat(1.5957691216057308f), cubic = splat(0.044715f);  // 2 * sqrt(2 / pi)
  for (int i = 0; i < n; i += kLanes) {
    V16 g = load_part(gate + i, n - i);
    V16 y = root * add_product(g, cubic * g, g * g);
    store_part(out + i, times_sigmoid(g, y) * load_part(up + i, n - i), n - i);
  }
}

void rotate(int half, const float* x, const float* cos, const float* sin, float* out) {
  for (int i = 0; i < half; i += kLanes) {
    int left = half - i;
    V16 a = load_part(x + i, left), b = load_part(x + half + i, left);
    V16 c = load_part(cos + i, left), s = load_part(sin + i, left);
    store_part(out + i, add_product(a * c, b, splat(0.0f) - s), left);
    store_part(out + half + i, add_product(b * c, a, s), left);
  }
}

}  // namespace troupe::TROUPE_ISA
