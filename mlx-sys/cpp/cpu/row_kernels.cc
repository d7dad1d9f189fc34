#include "cpu/row_kernels.h"

#include <algorithm>
#include <vector>

#include "cpu/kernels/kernels.h"

namespace troupe {
void norm_rows(const Norm& norm, int64_t rows, int n, Rows x, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) normalize_row(norm, n, x.at(r), out + r * n);
  });
}

void silu_times(int64_t rows, int n, Rows gate, Rows up, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().silu_times(n, gate.at(r), up.at(r), out + r * n);
  });
}

void gelu_times(int64_t rows, int n, Rows gate, Rows up, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().gelu_times(n, gate.at(r), up.at(r), out + r * n);
  });
}

void rotate(const Rotation& r) {
  int64_t width = static_cast<int64_t>(r.heads) * r.dim;
  in_parts(r.tokens, width, [&](int64_t first, int64_t last) {
    std::vector<float> head(r.dim);
    for (int64_t i = first * r.heads; i < last * r.heads; ++i) {
      int64_t token = i / r.heads;
      const float* x = r.x.at(token, i % r.heads);
      if (r.x.stride != 1) {
        for (int d = 0; d < r.dim; ++d) head[d] = x[d * r.x.stride];
        x = head.data();
      }
      float* out = r.out + i * r.dim;
      kernels().rotate(r.half, x, r.cos.at(token), r.sin.at(token), out);
      std::copy(x + 2 * r.half, x + r.dim, out + 2 * r.half);
    }
  });
}

}  // namespace troupe
