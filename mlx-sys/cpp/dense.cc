// Dense matrices in the kernels' own form, and products with them as one node each.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>
#include <string>

#include "cpu/dense.h"
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

DenseShape shape_of(const DenseLayout& layout) {
  auto number = number_of(to_dtype(layout.dtype));
  if (!number) throw std::invalid_argument("[dense] a matrix is f32, f16 or bf16");
  return {layout.rows, layout.columns, *number};
}

}  // namespace

bool has_dense_panels(uint8_t dtype) { return on_cpu() && number_of(to_dtype(dtype)).has_value(); }

Ptr pack_dense(const array& rows) {
  auto number = number_of(rows.dtype());
  if (!number || rows.ndim() != 2) throw std::invalid_argument("[dense] a matrix is f32, f16 or bf16 and has two axes");
  DenseShape shape{rows.shape(0), rows.shape(1), *number};
  auto dense = mx::contiguous(rows);
  dense.eval();
  auto out = panel_memory(dense_bytes(shape));
  dense_pack(shape, dense.data<uint8_t>(), out.data<uint8_t>());
  return ptr(std::move(out));
}

Ptr dense_matmul(const array& x, const array& data, const DenseLayout& layout) {
  auto shape = shape_of(layout);
  if (x.ndim() == 0 || x.shape(-1) != shape.k) {
    throw std::invalid_argument("[dense_matmul] the last axis of x is not " + std::to_string(shape.k));
  }
  auto out = x.shape();
  out.back() = shape.n;
  auto input = mx::astype(x, mx::float32);
  return ptr(cpu_node("dense_matmul", std::move(out), {input, data}, [shape](Arrays& in, array& out) {
    if (out.size() == 0) return;
    DenseRows rows(in[0]);
    auto view = rows.view();
    int m = static_cast<int>(out.size() / shape.n);
    dense_product({shape, in[1].data<uint8_t>()}, {m, view.data, view.stride}, out.data<float>(), shape.n);
  }));
}

Ptr dense_rows(const array& ids, const array& data, const DenseLayout& layout) {
  auto shape = shape_of(layout);
  return ptr(rows_node("dense_rows", ids, data, {shape.n, shape.k}, [shape](const array& data, int id, float* out) {
    dense_row({shape, data.data<uint8_t>()}, id, out);
  }));
}

}  // namespace troupe
