// Quantised matrices repacked for the kernels, and their products on our threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/norm.h"

namespace troupe {

#define TROUPE_EXPORT __attribute__((visibility("default")))

// What is done with activations before they meet the matrix.
enum class ActivationType : uint8_t {
  int8,   // rounded to 8 bits, with a scale for every kChunk columns
  int16,  // the same with 16
  f32,    // nothing
};

// A quantised matrix as MLX stores it: for each row a stream of `bits`-bit elements, lowest bit first, and for each
// `group` of them a scale and a bias. An element is scale * q + bias.
struct AffineMatrix {
  PackedShape shape;
  const uint8_t* elements;  // rows of k * bits / 8 bytes
  const uint8_t* scales;    // [n, k / group]
  const uint8_t* biases;    // the same
};

// True for a shape that the kernels take.
TROUPE_EXPORT bool can_pack(const PackedShape& shape);

// Bytes of the panels of such a matrix.
TROUPE_EXPORT size_t packed_bytes(const PackedShape& shape);

// Fills `panels`, which is aligned to kVector.
TROUPE_EXPORT void pack(const AffineMatrix& from, uint8_t* panels);

// out [m, n] = x [m, k] * w [n, k]ᵀ. A row of out depends on that row of x alone, bit for bit.
TROUPE_EXPORT void packed_product(const PackedMatrix& w, const FloatRows& x, float* out);

// The same of norm(x), with integers in the place of activations: `type` is one of theirs. A row with a NaN or an
// infinity gives a row of NaN.
TROUPE_EXPORT void packed_integer_product(const PackedMatrix& w, ActivationType type, const Norm& norm,
                                          const FloatRows& x, float* out);

// Row `row` of the matrix, as floats.
TROUPE_EXPORT void packed_row(const PackedMatrix& w, int64_t row, float* out);

}  // namespace troupe
