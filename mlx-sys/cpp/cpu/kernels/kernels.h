// The inner loops of our CPU work. Their sources are compiled once for each instruction set; `kernels()` is the best
// set that this machine runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/dense.h"
#include "cpu/kernels/packed.h"

namespace troupe {

constexpr int kLanes = 16;      // floats that are summed beside each other, on every machine
constexpr int kTile = 64;       // keys worked on together, starting at a multiple of it
constexpr int kStep = 8;        // columns of a product come in multiples of it, but for the last
constexpr int kRowBlock = 96;   // rows of a product that stay in the second cache while weights pass

// c [m, n] = alpha * a [m, k] * w [n, k]ᵀ + beta * c, all row-major with rows lda, ldw, ldc floats apart; c is not
// read when beta is 0. An element is one sum in an order that depends on k alone: row i of the result is the same,
// bit for bit, whatever m is and whatever the other rows hold. The elements of w become f32 before they are used.
struct Linear {
  int m, n, k;
  float alpha, beta;
  const float* a;
  int64_t lda;
  const void* w;
  Number number;  // what an element of w is
  int64_t ldw;
  float* c;
  int64_t ldc;
};

struct PagedScores {
  float scale;
  int window;     // 0: none
  float softcap;  // 0: none
};

// Where the keys and values of kTile positions lie. Positions past the end point to zeros.
struct Tile {
  const float* keys[kTile];
  const float* values[kTile];
};

// A query's running result.
struct QueryState {
  const float* query;  // rounded up with zeros to whole vectors, like out
  float* out;
  float sum[kLanes];
  float max;
  int first;  // the first key that it sees
  int end;    // one past the last
};

struct Kernels {
  // Columns first..last of the product.
  void (*linear)(const Linear& product, int first, int last);
  // Row `row` of activations as integers, from x [k].
  void (*quantize_row)(const float* x, int row, const IntegerRows& out);
  // out [m, n] = x [m, k] * w [n, k]ᵀ for the rows of w in `panels`. Rows are invariant as in Linear.
  void (*packed_integer)(const PackedMatrix& w, const IntegerRows& x, const Panels& panels, const Output& out);
  void (*packed_f32)(const PackedMatrix& w, const FloatRows& x, const Panels& panels, const Output& out);
  // The same with a dense matrix; an element is one sum in the order of the columns.
  void (*dense)(const DensePanels& w, const FloatRows& x, const Panels& panels, const Output& out);
  // Takes the keys of one tile, which starts at position `start`, into the results of `count` queries.
  void (*attend)(const PagedScores& how, int dim, const Tile& tile, int start, int count, QueryState* states);
  // The sum of a query's weights.
  float (*total)(const QueryState& state);
  // One row each: see row_kernels.h.
  void (*rms_norm)(int n, const float* x, const float* weight, float eps, float* out);
  void (*layer_norm)(int n, const float* x, const float* weight, const float* bias, float eps, float* out);
  void (*silu_times)(int n, const float* gate, const float* up, float* out);
  void (*gelu_times)(int n, const float* gate, const float* up, float* out);
  void (*rotate)(int half, const float* x, const float* cos, const float* sin, float* out);
};

__attribute__((visibility("default"))) const Kernels& kernels();

}  // namespace troupe
