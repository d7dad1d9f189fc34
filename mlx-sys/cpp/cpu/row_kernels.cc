#include "cpu/row_kernels.h"

#include <algorithm>
#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/pool.h"

namespace troupe {
namespace {

// Elements that one thread works through alone: less is not worth a wake-up.
constexpr int64_t kPart = 1 << 14;

template <typename F>
void in_parts(int64_t count, int64_t each, F&& part) {
  int64_t step = std::max<int64_t>(1, kPart / std::max<int64_t>(each, 1));
  parallel_for(static_cast<size_t>((count + step - 1) / step), [&](size_t i) {
    int64_t first = static_cast<int64_t>(i) * step;
    part(first, std::min(first + step, count));
  });
}

}  // namespace

void rms_norm_rows(int64_t rows, int n, Rows x, const float* weight, float eps, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().rms_norm(n, x.at(r), weight, eps, out + r * n);
  });
}

void silu_times(int64_t rows, int n, Rows gate, Rows up, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) kernels().silu_times(n, gate.at(r), up.at(r), out + r * n);
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
