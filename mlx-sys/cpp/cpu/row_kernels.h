// The small operations between products, one pass each. A row's result depends on that row alone.
#pragma once

#include <cstdint>

#include "cpu/attention_kernel.h"

namespace troupe {

// out = x / sqrt(mean(x²) + eps) * weight for each of `rows` rows of `n`; a null weight is one.
void rms_norm_rows(int64_t rows, int n, const float* x, const float* weight, float eps, float* out);

// out = gate / (1 + e^-gate) * up.
void silu_times(int64_t size, const float* gate, const float* up, float* out);

// Rotates the pairs (i, i + half) of every head by the angles of its token, and copies what lies past them.
// cos and sin are [tokens, half]; out is [tokens, heads, dim].
struct Rotation {
  int tokens, heads, dim, half;
  Heads x;
  const float* cos;
  const float* sin;
  float* out;
};
void rotate(const Rotation& r);

}  // namespace troupe
