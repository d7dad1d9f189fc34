// Quantised matrices in a form of our own: made from MLX's, and read by rows.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>
#include <string>

#include "cpu/packed.h"
#include "cpu_node.h"
#include "matrix.h"
#include "panels.h"

namespace troupe {
namespace mx = mlx::core;

std::optional<Number> number_of(mx::Dtype dtype) {
  if (dtype == mx::float32) return Number::f32;
  if (dtype == mx::float16) return Number::f16;
  if (dtype == mx::bfloat16) return Number::bf16;
  return std::nullopt;
}

PackedShape packed_shape(const PackedLayout& layout) {
  auto number = number_of(to_dtype(layout.scales));
  if (!number) throw std::invalid_argument("[packed] scales are f32, f16 or bf16");
  return {layout.rows, layout.columns, layout.group_size, layout.bits, *number};
}

ActivationType activation_type(Activations activations) {
  switch (activations) {
    case Activations::Int8: return ActivationType::int8;
    case Activations::Int16: return ActivationType::int16;
    case Activations::F32: return ActivationType::f32;
  }
  throw std::logic_error("unknown type of activations");
}

PackedMatrix packed_matrix(const array& data, const PackedShape& shape) { return {shape, data.data<uint8_t>()}; }

namespace {

array evaluated(const array& a) {
  auto dense = mx::contiguous(a);
  dense.eval();
  return dense;
}

void expect_shape(const array& a, mx::Shape wanted, mx::Dtype dtype) {
  if (a.shape() != wanted || a.dtype() != dtype) {
    throw std::invalid_argument("[packed] the arrays do not fit the packing");
  }
}

}  // namespace

bool can_pack(const PackedLayout& layout) {
  return on_cpu() && number_of(to_dtype(layout.scales)) && can_pack(packed_shape(layout));
}

Ptr pack_affine(const array& packed, const array& scales, const array& biases, const PackedLayout& layout) {
  auto shape = packed_shape(layout);
  if (!can_pack(shape)) throw std::invalid_argument("[packed] no kernel takes this packing");
  expect_shape(packed, {shape.n, shape.k / 32 * shape.bits}, mx::uint32);
  expect_shape(scales, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  expect_shape(biases, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  auto elements = evaluated(packed), s = evaluated(scales), b = evaluated(biases);

  auto out = panel_memory(packed_bytes(shape));
  pack({shape, elements.data<uint8_t>(), s.data<uint8_t>(), b.data<uint8_t>()}, out.data<uint8_t>());
  return ptr(std::move(out));
}

Ptr packed_rows(const array& ids, const array& data, const PackedLayout& layout) {
  auto shape = packed_shape(layout);
  return ptr(rows_node("packed_rows", ids, data, {shape.n, shape.k}, [shape](const array& data, int id, float* out) {
    packed_row(packed_matrix(data, shape), id, out);
  }));
}

}  // namespace troupe
