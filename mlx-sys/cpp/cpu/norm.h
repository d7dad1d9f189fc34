// Normalisation of one row at a time.
#pragma once

#include "cpu/kernels/kernels.h"

namespace troupe {

enum class NormKind : uint8_t { none, rms, layer };

struct Norm {
  NormKind kind = NormKind::none;
  const float* weight = nullptr;  // null: one
  const float* bias = nullptr;    // null: zero; of layer norms only
  float eps = 0;
};

// Row x [n] to out; not for NormKind::none.
inline void normalize_row(const Norm& norm, int n, const float* x, float* out) {
  if (norm.kind == NormKind::rms) return kernels().rms_norm(n, x, norm.weight, norm.eps, out);
  kernels().layer_norm(n, x, norm.weight, norm.bias, norm.eps, out);
}

}  // namespace troupe
