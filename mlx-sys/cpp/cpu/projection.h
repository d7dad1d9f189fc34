// A linear layer with what stands around it, in one call: normalised rows in, gated or added to a residual on the way
// out. A row of the result depends on that row of the inputs alone, bit for bit.
#pragma once

#include <cstdint>

#include "cpu/dense.h"
#include "cpu/packed.h"
#include "cpu/row_kernels.h"

namespace troupe {

enum class Gate : uint8_t {
  none,
  silu,       // silu(first half of the outputs) * second half
  gelu_tanh,  // the same with gelu in its tanh form
};

// What is done with a product of `n` outputs before it is stored: first the bias, then the gate, then the residual.
struct Epilogue {
  const float* bias = nullptr;  // [n]
  Gate gate = Gate::none;       // leaves n / 2 outputs
  Rows residual{};              // rows as wide as what is left; null data: none
};

// w is [n, k], dense rows in their own type.
struct DenseMatrix {
  int n, k;
  const void* data;
  Number number;
};

struct QuantizedMatrix {
  PackedMatrix panels;
  ActivationType activations;
};

// out [m, n or n / 2] = epilogue(norm(x) * wᵀ).
void project(const DensePanels& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out);
void project(const DenseMatrix& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out);
void project(const QuantizedMatrix& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out);

}  // namespace troupe
