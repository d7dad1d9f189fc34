#include "cpu/projection.h"

#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/linear.h"

namespace troupe {
namespace {

// Memory of a call, kept for the next one of the same thread.
float* scratch(std::vector<float>& memory, int64_t rows, int64_t width) {
  auto size = static_cast<size_t>(rows * width);
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

void add_to_rows(int rows, int n, const Rows& from, float* out) {
  in_parts(rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* row = from.at(r);
      for (int i = 0; i < n; ++i) out[r * n + i] += row[i];
    }
  });
}

void apply_gate(Gate gate, int rows, int n, const float* wide, float* out) {
  Rows first{wide, 2 * static_cast<int64_t>(n)}, second{wide + n, 2 * static_cast<int64_t>(n)};
  if (gate == Gate::silu) return silu_times(rows, n, first, second, out);
  gelu_times(rows, n, first, second, out);
}

// `product` fills rows of `n` at the place that it is given.
template <typename Product>
void finish(int rows, int n, const Epilogue& epilogue, float* out, Product&& product) {
  static thread_local std::vector<float> memory;
  bool gated = epilogue.gate != Gate::none;
  float* wide = gated ? scratch(memory, rows, n) : out;
  product(wide);
  if (epilogue.bias) add_to_rows(rows, n, {epilogue.bias, 0}, wide);
  int left = gated ? n / 2 : n;
  if (gated) apply_gate(epilogue.gate, rows, left, wide, out);
  if (epilogue.residual.data) add_to_rows(rows, left, epilogue.residual, out);
}

FloatRows normalized(const Norm& norm, const FloatRows& x, int k) {
  static thread_local std::vector<float> memory;
  if (norm.kind == NormKind::none) return x;
  float* rows = scratch(memory, x.m, k);
  norm_rows(norm, x.m, k, {x.data, x.stride}, rows);
  return {x.m, rows, k};
}

}  // namespace

void project(const DenseMatrix& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out) {
  FloatRows rows = normalized(norm, x, w.k);
  finish(x.m, w.n, epilogue, out, [&](float* to) {
    linear({x.m, w.n, w.k, 1.0f, 0.0f, rows.data, rows.stride, w.data, w.number, w.k, to, w.n});
  });
}

void project(const DensePanels& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out) {
  const auto& shape = w.shape;
  FloatRows rows = normalized(norm, x, shape.k);
  finish(x.m, shape.n, epilogue, out, [&](float* to) { dense_product(w, rows, to, shape.n); });
}

void project(const QuantizedMatrix& w, const Norm& norm, const FloatRows& x, const Epilogue& epilogue, float* out) {
  const auto& shape = w.panels.shape;
  finish(x.m, shape.n, epilogue, out, [&](float* to) {
    if (w.activations == ActivationType::f32) return packed_product(w.panels, normalized(norm, x, shape.k), to);
    packed_integer_product(w.panels, w.activations, norm, x, to);
  });
}

}  // namespace troupe
