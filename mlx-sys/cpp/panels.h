// What matrices in the kernels' own forms share: their memory, and the reading of rows.
#pragma once

#include <functional>

#include "mlx/mlx.h"

namespace troupe {

// Bytes for panels, aligned to kVector, as an array of them. Weights are read from one end to the other every step,
// and large pages spare the translation of their addresses; since most matrices are smaller than such a page, many
// share a block, which is given back when all of them are gone and another block has been begun.
mlx::core::array panel_memory(size_t bytes);

struct MatrixSize {
  int rows, columns;
};

// Writes row `id` of the matrix in `data`.
using ReadRow = std::function<void(const mlx::core::array& data, int id, float* out)>;

// A node of the rows `ids` of a matrix: f32 [..., columns]. An id that the matrix does not have is an error of the
// evaluation, std::out_of_range with `name`.
mlx::core::array rows_node(const char* name, const mlx::core::array& ids, const mlx::core::array& data, MatrixSize size,
                           ReadRow read);

}  // namespace troupe
