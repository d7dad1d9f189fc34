// Dense matrices in a form of our own: made from rows, and read by rows.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>

#include "cpu/dense.h"
#include "cpu_node.h"
#include "matrix.h"
#include "panels.h"

namespace troupe {
namespace mx = mlx::core;

DenseShape dense_shape(const DenseLayout& layout) {
  auto number = number_of(to_dtype(layout.dtype));
  if (!number) throw std::invalid_argument("[dense] a matrix is f32, f16 or bf16");
  return {layout.rows, layout.columns, *number};
}

DensePanels dense_panels(const array& data, const DenseShape& shape) { return {shape, data.data<uint8_t>()}; }

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

Ptr dense_rows(const array& ids, const array& data, const DenseLayout& layout) {
  auto shape = dense_shape(layout);
  return ptr(rows_node("dense_rows", ids, data, {shape.n, shape.k}, [shape](const array& data, int id, float* out) {
    dense_row(dense_panels(data, shape), id, out);
  }));
}

}  // namespace troupe
