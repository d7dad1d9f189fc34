#include "cpu/row_kernels.h"

#include <algorithm>
#include <cmath>

#include "cpu/pool.h"
#include "cpu/simd.h"

namespace troupe {
namespace {

// Elements that one thread works through alone: less is not worth a wake-up.
constexpr int64_t kPart = 1 << 14;

TROUPE_INLINE V16 load_upto(const float* p, int64_t left) {
  return left >= kLanes ? load(p) : load_part(p, static_cast<int>(left));
}

TROUPE_INLINE void store_upto(float* p, V16 v, int64_t left) {
  std::memcpy(p, &v, static_cast<size_t>(std::min<int64_t>(left, kLanes)) * sizeof(float));
}

TROUPE_CLONES void norm_row(int n, const float* x, const float* weight, float eps, float* out) {
  V16 squares = splat(0.0f);
  for (int i = 0; i < n; i += kLanes) {
    V16 v = load_upto(x + i, n - i);
    squares += v * v;
  }
  V16 factor = splat(1.0f / std::sqrt(sum(squares) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) {
    V16 scaled = load_upto(x + i, n - i) * factor;
    store_upto(out + i, weight ? scaled * load_upto(weight + i, n - i) : scaled, n - i);
  }
}

TROUPE_CLONES void silu_part(int64_t size, const float* gate, const float* up, float* out) {
  for (int64_t i = 0; i < size; i += kLanes) {
    V16 g = load_upto(gate + i, size - i);
    V16 silu = g / (splat(1.0f) + exp(-g));
    store_upto(out + i, silu * load_upto(up + i, size - i), size - i);
  }
}

TROUPE_CLONES void rotate_head(int half, const float* x, const float* cos, const float* sin, float* out) {
  for (int i = 0; i < half; i += kLanes) {
    int left = half - i;
    V16 a = load_upto(x + i, left), b = load_upto(x + half + i, left);
    V16 c = load_upto(cos + i, left), s = load_upto(sin + i, left);
    V16 bs = b * s, as = a * s;
    store_upto(out + i, a * c - bs, left);
    store_upto(out + half + i, b * c + as, left);
  }
}

template <typename F>
void in_parts(int64_t count, int64_t each, F&& part) {
  int64_t step = std::max<int64_t>(1, kPart / std::max<int64_t>(each, 1));
  parallel_for(static_cast<size_t>((count + step - 1) / step), [&](size_t i) {
    int64_t first = static_cast<int64_t>(i) * step;
    part(first, std::min(first + step, count));
  });
}

}  // namespace

void rms_norm_rows(int64_t rows, int n, const float* x, const float* weight, float eps, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) norm_row(n, x + r * n, weight, eps, out + r * n);
  });
}

void silu_times(int64_t size, const float* gate, const float* up, float* out) {
  in_parts(size, 1, [&](int64_t first, int64_t last) {
    silu_part(last - first, gate + first, up + first, out + first);
  });
}

void rotate(const Rotation& r) {
  in_parts(r.tokens, static_cast<int64_t>(r.heads) * r.dim, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      for (int h = 0; h < r.heads; ++h) {
        const float* x = r.x.at(t, h);
        float* out = r.out + (t * r.heads + h) * r.dim;
        rotate_head(r.half, x, r.cos + t * r.half, r.sin + t * r.half, out);
        std::copy(x + 2 * r.half, x + r.dim, out + 2 * r.half);
      }
    }
  });
}

}  // namespace troupe
