// Where the elements of a repacked dense matrix lie. A panel is kDensePanel rows of the matrix, side by side: for each
// column, the element of every row. A column of halves is a cache line, and a matrix is one sequential stream.
#pragma once

#include "cpu/kernels/packed.h"

namespace troupe {

constexpr int kDensePanel = 32;  // rows of the matrix that lie side by side

struct DenseShape {
  int n, k;  // rows and columns
  Number number;
};

struct DensePanels {
  DenseShape shape;
  const uint8_t* data;  // aligned to kVector; rows that fill up the last panel are zeros
};

TROUPE_INLINE size_t dense_panel_bytes(const DenseShape& s) {
  return static_cast<size_t>(s.k) * kDensePanel * number_bytes(s.number);
}
TROUPE_INLINE int dense_panel_count(const DenseShape& s) { return s.n / kDensePanel + (s.n % kDensePanel != 0); }

}  // namespace troupe
