// Online softmax over one tile of keys. A query sees only its own keys, and every sum runs in the order of positions.
#include "cpu/kernels/simd.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

constexpr int kGroup = 8;  // keys scored together

TROUPE_INLINE void score(const float* query, const Tile& tile, int dim, float* scores) {
  int whole = dim / kLanes;
  for (int start = 0; start < kTile; start += kGroup) {
    const float* const* keys = tile.keys + start;
    V16 sums[kGroup];
    for (auto& one : sums) one = splat(0.0f);
    for (int c = 0; c < whole; ++c) {
      V16 q = load(query + c * kLanes);
      for (int i = 0; i < kGroup; ++i) sums[i] = add_product(sums[i], q, load(keys[i] + c * kLanes));
    }
    if (whole * kLanes < dim) {
      V16 q = load(query + whole * kLanes);
      for (int i = 0; i < kGroup; ++i) {
        sums[i] = add_product(sums[i], q, load_part(keys[i] + whole * kLanes, dim - whole * kLanes));
      }
    }
    sums_of_eight(sums, scores + start);
  }
}

// Turns dot products into scores, with -inf for keys of the tile that the query does not see.
TROUPE_INLINE void finish_scores(const PagedScores& how, int first, int end, float* scores) {
  for (int i = 0; i < kTile; i += kLanes) store(scores + i, load(scores + i) * splat(how.scale));
  if (how.softcap > 0) {
    for (int i = 0; i < kTile; ++i) scores[i] = how.softcap * tanhf(scores[i] / how.softcap);
  }
  for (int i = 0; i < first; ++i) scores[i] = -INFINITY;
  for (int i = end; i < kTile; ++i) scores[i] = -INFINITY;
}

// Replaces scores by weights relative to the new maximum; returns the factor for what was summed before.
TROUPE_INLINE V16 soften(QueryState& state, float* scores) {
  V16 best = load(scores);
  for (int i = kLanes; i < kTile; i += kLanes) best = max(best, load(scores + i));
  float tile_max = max(best);
  float top = state.max > tile_max ? state.max : tile_max;
  V16 keep = exp(splat(state.max - top));
  V16 total = load(state.sum) * keep;
  for (int i = 0; i < kTile; i += kLanes) {
    V16 weight = exp(load(scores + i) - splat(top));
    store(scores + i, weight);
    total = total + weight;
  }
  store(state.sum, total);
  state.max = top;
  return keep;
}

// out = out * keep + the weighted sum of the values from `first` to `end`; kWidth vectors, from `chunk` on, stay in
// registers meanwhile.
template <int kWidth>
TROUPE_INLINE void add_values(float* out, const float* weights, const Tile& tile, int first, int end, int chunk,
                              V16 keep, int dim) {
  int at = chunk * kLanes;
  bool whole = at + kWidth * kLanes <= dim;
  V16 sums[kWidth];
  for (int w = 0; w < kWidth; ++w) sums[w] = load(out + at + w * kLanes) * keep;
  for (int j = first; j < end; ++j) {
    V16 weight = splat(weights[j]);
    for (int w = 0; w < kWidth; ++w) {
      const float* p = tile.values[j] + at + w * kLanes;
      sums[w] = add_product(sums[w], weight, whole ? load(p) : load_part(p, dim - at - w * kLanes));
    }
  }
  for (int w = 0; w < kWidth; ++w) store(out + at + w * kLanes, sums[w]);
}

TROUPE_INLINE void attend_one(const PagedScores& how, int dim, const Tile& tile, int start, QueryState& state) {
  int first = state.first > start ? state.first - start : 0;
  int end = state.end - start < kTile ? state.end - start : kTile;
  if (first >= end) return;
  float scores[kTile];
  score(state.query, tile, dim, scores);
  finish_scores(how, first, end, scores);
  V16 keep = soften(state, scores);
  int chunk = 0;
  int whole = dim / kLanes;
  for (; chunk + 4 <= whole; chunk += 4) add_values<4>(state.out, scores, tile, first, end, chunk, keep, dim);
  for (; chunk * kLanes < dim; ++chunk) add_values<1>(state.out, scores, tile, first, end, chunk, keep, dim);
}

}  // namespace

void attend(const PagedScores& how, int dim, const Tile& tile, int start, int count, QueryState* states) {
  for (int i = 0; i < count; ++i) attend_one(how, dim, tile, start, states[i]);
}

float total(const QueryState& state) { return sum(load(state.sum)); }

}  // namespace troupe::TROUPE_ISA
