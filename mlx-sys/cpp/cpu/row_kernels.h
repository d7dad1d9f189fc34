// The small operations between products, one pass each. A row's result depends on that row alone.
#pragma once

#include <cstdint>

namespace troupe {

// [tokens, heads, dim] with any strides, in floats.
struct Heads {
  const float* data;
  int64_t token_stride;
  int64_t head_stride;
  int64_t stride;

  const float* at(int64_t token, int64_t head) const { return data + token * token_stride + head * head_stride; }
};

// Rows of floats, `stride` apart.
struct Rows {
  const float* data;
  int64_t stride;

  const float* at(int64_t row) const { return data + row * stride; }
};

// out = x / sqrt(mean(x²) + eps) * weight for each of `rows` rows of `n`; a null weight is one. out is dense.
void rms_norm_rows(int64_t rows, int n, Rows x, const float* weight, float eps, float* out);

// out = gate / (1 + e^-gate) * up for each of `rows` rows of `n`. out is dense.
void silu_times(int64_t rows, int n, Rows gate, Rows up, float* out);

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
