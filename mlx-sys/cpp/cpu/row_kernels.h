// The small operations between products, one pass each. A row's result depends on that row alone.
#pragma once

#include <cstdint>

#include <algorithm>

#include "cpu/attention_kernel.h"
#include "cpu/norm.h"
#include "cpu/pool.h"

namespace troupe {

// Rows of floats, `stride` apart.
struct Rows {
  const float* data;
  int64_t stride;

  const float* at(int64_t row) const { return data + row * stride; }
};

// Spreads `count` rows that cost about `each` elements over the pool: part(first, last).
template <typename F>
void in_parts(int64_t count, int64_t each, F&& part) {
  // Elements that one thread works through alone: less is not worth a wake-up.
  constexpr int64_t kPart = 1 << 14;
  int64_t step = std::max<int64_t>(1, kPart / std::max<int64_t>(each, 1));
  parallel_for(static_cast<size_t>((count + step - 1) / step), [&](size_t i) {
    int64_t first = static_cast<int64_t>(i) * step;
    part(first, std::min(first + step, count));
  });
}

// Each of `rows` rows of `n`, normalised. out is dense.
void norm_rows(const Norm& norm, int64_t rows, int n, Rows x, float* out);

// out = gate / (1 + e^-gate) * up for each of `rows` rows of `n`. out is dense.
void silu_times(int64_t rows, int n, Rows gate, Rows up, float* out);

// The same with gelu in its tanh form (Hendrycks, Gimpel 2016) in the place of silu.
void gelu_times(int64_t rows, int n, Rows gate, Rows up, float* out);

// Rotates the pairs (i, i + half) of every head by the angles of its token, and copies what lies past them.
// cos and sin have a row of `half` for each token; out is dense [tokens, heads, dim].
struct Rotation {
  int tokens, heads, dim, half;
  Heads x;
  Rows cos;
  Rows sin;
  float* out;
};
void rotate(const Rotation& r);

}  // namespace troupe
