// Products with weights in a form of our own, or in halves, as one node each.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>
#include <string>

#include "cpu/linear.h"
#include "cpu/packed.h"
#include "cpu_node.h"
#include "dense_rows.h"
#include "panels.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

std::optional<Number> number_of(mx::Dtype dtype) {
  if (dtype == mx::float32) return Number::f32;
  if (dtype == mx::float16) return Number::f16;
  if (dtype == mx::bfloat16) return Number::bf16;
  return std::nullopt;
}

PackedShape shape_of(const PackedLayout& layout) {
  auto number = number_of(to_dtype(layout.scales));
  if (!number) throw std::invalid_argument("[packed] scales are f32, f16 or bf16");
  return {layout.rows, layout.columns, layout.group_size, layout.bits, *number};
}

ActivationType type_of(Activations activations) {
  switch (activations) {
    case Activations::Int8: return ActivationType::int8;
    case Activations::Int16: return ActivationType::int16;
    case Activations::F32: return ActivationType::f32;
  }
  throw std::logic_error("unknown type of activations");
}

PackedMatrix matrix_of(const array& data, const PackedShape& shape) {
  return {shape, data.data<uint8_t>()};
}

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

mx::Shape with_last(const array& x, int last) {
  auto shape = x.shape();
  shape.back() = last;
  return shape;
}

void expect_columns(const char* what, const array& x, int columns) {
  if (x.ndim() == 0 || x.shape(-1) != columns) {
    throw std::invalid_argument(std::string(what) + " the last axis of x is not " + std::to_string(columns));
  }
}

int rows_of(const array& out) { return out.shape(-1) == 0 ? 0 : static_cast<int>(out.size() / out.shape(-1)); }

}  // namespace

bool can_pack(const PackedLayout& layout) {
  return on_cpu() && number_of(to_dtype(layout.scales)) && can_pack(shape_of(layout));
}

Ptr pack_affine(const array& packed, const array& scales, const array& biases, const PackedLayout& layout) {
  auto shape = shape_of(layout);
  if (!can_pack(shape)) throw std::invalid_argument("[packed] no kernel takes this packing");
  expect_shape(packed, {shape.n, shape.k / 32 * shape.bits}, mx::uint32);
  expect_shape(scales, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  expect_shape(biases, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  auto elements = evaluated(packed), s = evaluated(scales), b = evaluated(biases);

  auto out = panel_memory(packed_bytes(shape));
  pack({shape, elements.data<uint8_t>(), s.data<uint8_t>(), b.data<uint8_t>()}, out.data<uint8_t>());
  return ptr(std::move(out));
}

Ptr packed_matmul(const array& x, const array& data, const PackedLayout& layout, Activations activations) {
  auto shape = shape_of(layout);
  expect_columns("[packed_matmul]", x, shape.k);
  auto type = type_of(activations);
  auto input = mx::astype(x, mx::float32);
  auto out = with_last(x, shape.n);
  return ptr(cpu_node("packed_matmul", std::move(out), {input, data}, [shape, type](Arrays& in, array& out) {
    DenseRows rows(in[0]);
    auto view = rows.view();
    packed_product(matrix_of(in[1], shape), type, {rows_of(out), view.data, view.stride}, out.data<float>());
  }));
}

Ptr packed_rows(const array& ids, const array& data, const PackedLayout& layout) {
  auto shape = shape_of(layout);
  return ptr(rows_node("packed_rows", ids, data, {shape.n, shape.k}, [shape](const array& data, int id, float* out) {
    packed_row(matrix_of(data, shape), id, out);
  }));
}

bool has_linear(const array& x, const array& w) {
  return on_cpu() && x.dtype() == mx::float32 && x.ndim() > 0 && w.ndim() == 2 && number_of(w.dtype());
}

Ptr linear(const array& x, const array& w) {
  if (!has_linear(x, w)) return ptr(mx::matmul(x, mx::swapaxes(w, -1, -2)));
  expect_columns("[linear]", x, w.shape(1));
  auto number = *number_of(w.dtype());
  auto shape = with_last(x, w.shape(0));
  auto dense = w.is_available() && w.flags().row_contiguous ? w : mx::contiguous(w);
  return ptr(cpu_node("linear", std::move(shape), {x, dense}, [number](Arrays& in, array& out) {
    DenseRows rows(in[0]);
    auto view = rows.view();
    int n = in[1].shape(0), k = in[1].shape(1);
    const void* weights = in[1].data<uint8_t>();
    linear({rows_of(out), n, k, 1.0f, 0.0f, view.data, view.stride, weights, number, k, out.data<float>(), n});
  }));
}

}  // namespace troupe
