// Dense matrices repacked for the kernels, and their products on our threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"

namespace troupe {

#define TROUPE_EXPORT __attribute__((visibility("default")))

// Bytes of the panels of such a matrix.
TROUPE_EXPORT size_t dense_bytes(const DenseShape& shape);

// Fills `panels`, which is aligned to kVector, from rows that follow one another.
TROUPE_EXPORT void dense_pack(const DenseShape& shape, const uint8_t* rows, uint8_t* panels);

// out [m, n] = x [m, k] * w [n, k]ᵀ, the rows of out `stride` floats apart. An element is one sum in the order of the
// columns, so a row of out depends on that row of x alone, bit for bit.
TROUPE_EXPORT void dense_product(const DensePanels& w, const FloatRows& x, float* out, int64_t stride);

// Row `row` of the matrix, as floats.
TROUPE_EXPORT void dense_row(const DensePanels& w, int64_t row, float* out);

}  // namespace troupe
