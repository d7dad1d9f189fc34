// The inner loops of our CPU work. Their sources are compiled once for each instruction set; `kernels()` is the best
// set that this machine runs, unless another was chosen by hand (dispatch.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/attention.h"
#include "cpu/kernels/dense.h"
#include "cpu/kernels/packed.h"
#include "cpu/kernels/vocabulary.h"

namespace troupe {

constexpr int kLanes = 16;      // floats that are summed beside each other, on every machine
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
  // The softmax of one segment for each query; merge takes it into another's.
  void (*attend)(const PagedScores& how, const KvSegment& kv, const Queries& queries);
  void (*merge)(int dim, const Softmax& part, Softmax& whole);
  // One head's x [dim] as it is stored, and a group of a segment as dense floats, its scales left out.
  void (*write_kv)(const float* x, const KvPlace& place);
  void (*widen_kv)(const KvSegment& in, int group, float* keys, float* values);
  // Queries from which on a segment is better made floats once than converted by each block of queries.
  int widen_from;
  // One row each: see row_kernels.h.
  void (*rms_norm)(int n, const float* x, const float* weight, float eps, float* out);
  void (*layer_norm)(int n, const float* x, const float* weight, const float* bias, float eps, float* out);
  void (*silu_times)(int n, const float* gate, const float* up, float* out);
  void (*gelu_times)(int n, const float* gate, const float* up, float* out);
  void (*rotate)(int half, const float* x, const float* cos, const float* sin, float* out);
  // Of at most kLogits logits: the largest of each lane's, kLanes in all.
  void (*lane_maxima)(int n, const float* x, float* maxima);
  // The weights; their sum over the logits that are at least `least`; the same for kBounds such bounds.
  void (*weights)(int n, const float* x, const Weighting& how, float* out);
  float (*mass)(int n, const float* x, const Weighting& how, float least);
  void (*masses)(int n, const float* x, const Weighting& how, const float* least, float* out);
  // Where the logits of a range stand, in order, and how many they are.
  int (*places_of)(int n, const float* x, const Range& range, int32_t* places);
  void (*penalise)(int n, const float* x, const Penalty& how, float* out);
  // What bounds them: see limits.h.
  uint64_t (*read)(const uint8_t* bytes, size_t count);
  float (*multiply_add)(int64_t rounds, float a, float b, int64_t* operations);
};

__attribute__((visibility("default"))) const Kernels& kernels();

}  // namespace troupe
