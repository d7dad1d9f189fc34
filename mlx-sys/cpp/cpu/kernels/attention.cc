// The softmax of one segment for some queries, blocked so that a vector of keys or values is loaded and converted once
// for several queries. Lanes are keys while scores are made and dimensions while values are added, so nothing is added
// across lanes but the weights of a segment. A sum runs in the order of dimensions or positions, whatever the block.
#include "cpu/kernels/kv_numbers.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

static_assert(kKeyGroup == kLanes);

// Queries and vectors whose sums stay in registers together: of 32 long ones, of 32 or of 16 shorter ones.
#if defined(__AVX512F__)
constexpr int kBlock = 6, kVectors = 4;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kBlock = 4, kVectors = 1;
#else
constexpr int kBlock = 2, kVectors = 1;
#endif

// For scores of keys that a query does not see: finite, and nothing against any score.
constexpr float kUnseen = -3e38f;

// Positions relative to the segment's first.
struct Range {
  int first, end;

  TROUPE_INLINE bool empty() const { return first >= end; }
};

TROUPE_INLINE int least(int a, int b) { return a < b ? a : b; }
TROUPE_INLINE int most(int a, int b) { return a > b ? a : b; }

// Rows of a group of keys that a cache line holds.
template <typename E>
constexpr int kPerLine = 64 / (kKeyGroup * sizeof(E));

struct Block {
  const KvSegment& kv;
  const Query* queries;
  Softmax* results;
  Range seen[kBlock];
  float scores[kBlock][kSegment];
};

// Products of queries `at`.. with the keys of groups `group`..
template <KvType kType, int kQueries, int kWidth>
TROUPE_INLINE void score(Block& block, int group) {
  using E = typename KvElement<kType>::Type;
  const E* keys[kWidth];
  const E* values[kWidth];
  V16 sums[kQueries][kWidth];
  for (int w = 0; w < kWidth; ++w) {
    keys[w] = static_cast<const E*>(block.kv.keys[group + w]);
    values[w] = static_cast<const E*>(block.kv.values[group + w]);
  }
  TROUPE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    TROUPE_UNROLL
    for (int w = 0; w < kWidth; ++w) sums[q][w] = splat(0.0f);
  }
  int64_t at = 0;
  for (int d = 0; d < block.kv.dim; ++d, at += block.kv.key_stride) {
    V16 k[kWidth];
    TROUPE_UNROLL
    for (int w = 0; w < kWidth; ++w) {
      k[w] = load_kv<kType>(keys[w] + at);
      if (d % kPerLine<E> == 0) __builtin_prefetch(values[w] + d * kKeyGroup);
    }
    TROUPE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      V16 x = splat(block.queries[q].data[d]);
      TROUPE_UNROLL
      for (int w = 0; w < kWidth; ++w) sums[q][w] = add_product(sums[q][w], x, k[w]);
    }
  }
  TROUPE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    TROUPE_UNROLL
    for (int w = 0; w < kWidth; ++w) store(block.scores[q] + (group + w) * kLanes, sums[q][w]);
  }
}

// cap * tanh(score / cap). What is not finite stays so: tanh alone would hide it.
TROUPE_INLINE V16 capped(V16 score, float cap) {
  V16 x = score * splat(2.0f / cap);
  V16 tanh = splat(1.0f) - splat(2.0f) / (exp(x) + splat(1.0f));
  return splat(cap) * tanh + score * splat(0.0f);
}

TROUPE_INLINE void mask(float* scores, Range seen) {
  for (int i = seen.first / kLanes * kLanes; i < seen.first; ++i) scores[i] = kUnseen;
  for (int i = seen.end; i % kLanes != 0; ++i) scores[i] = kUnseen;
}

// Turns products into weights, and sets the maximum and the sum of a result. A score that is not finite makes the sum
// a NaN, and so all that is divided by it.
TROUPE_INLINE void soften(const PagedScores& how, const KvSegment& kv, Range seen, float* scores, Softmax& result) {
  int first = seen.first / kLanes, end = (seen.end + kLanes - 1) / kLanes;
  for (int g = first; g < end && kv.key_scales[g]; ++g) {
    store(scores + g * kLanes, load(scores + g * kLanes) * load(kv.key_scales[g]));
  }
  for (int g = first; g < end && how.softcap > 0; ++g) {
    store(scores + g * kLanes, capped(load(scores + g * kLanes), how.softcap));
  }
  mask(scores, seen);
  V16 best = load(scores + first * kLanes), total = splat(0.0f);
  for (int g = first; g < end; ++g) {
    V16 score = load(scores + g * kLanes);
    best = max(best, score);
    total = add_product(total, score, splat(0.0f));
  }
  result.max = max(best);
  for (int g = first; g < end; ++g) {
    V16 weight = exp(load(scores + g * kLanes) - splat(result.max));
    total = total + weight;
    if (kv.value_scales[g]) weight = weight * load(kv.value_scales[g]);
    store(scores + g * kLanes, weight);
  }
  result.sum = sum(total);
}

// Adds the weighted values of `range` to kWidth vectors, from dimension `at` on, of the results of queries `q0`..
template <KvType kType, int kQueries, int kWidth, bool kPart>
TROUPE_INLINE void add_values(const Block& block, int q0, Range range, int at) {
  using E = typename KvElement<kType>::Type;
  const int dim = block.kv.dim;
  V16 sums[kQueries][kWidth];
  TROUPE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    TROUPE_UNROLL
    for (int w = 0; w < kWidth; ++w) sums[q][w] = load(block.results[q0 + q].out + at + w * kLanes);
  }
  for (int j = range.first; j < range.end;) {
    const E* row = static_cast<const E*>(block.kv.values[j / kKeyGroup]) + (j % kKeyGroup) * dim + at;
    // Lines of one group, or of the groups beside each other in a longer block in turn.
    const E* ahead =
        static_cast<const E*>(block.kv.ahead[j / kKeyGroup]) + j / kKeyGroup % kPerLine<E> * block.kv.key_stride;
    int end = least(range.end, (j / kKeyGroup + 1) * kKeyGroup);
    for (; j < end; ++j, row += dim) {
      // As many rows of keys pass by as there are dimensions.
      int64_t d = (j % kKeyGroup * dim + at) / kKeyGroup;
      TROUPE_UNROLL
      for (int w = 0; w < kWidth; w += kPerLine<E>) __builtin_prefetch(ahead + (d + w) * block.kv.key_stride);
      V16 v[kWidth];
      TROUPE_UNROLL
      for (int w = 0; w < kWidth; ++w) {
        v[w] = kPart ? load_kv_part<kType>(row, dim - at) : load_kv<kType>(row + w * kLanes);
      }
      TROUPE_UNROLL
      for (int q = 0; q < kQueries; ++q) {
        V16 weight = splat(block.scores[q0 + q][j]);
        TROUPE_UNROLL
        for (int w = 0; w < kWidth; ++w) sums[q][w] = add_product(sums[q][w], weight, v[w]);
      }
    }
  }
  TROUPE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    TROUPE_UNROLL
    for (int w = 0; w < kWidth; ++w) store(block.results[q0 + q].out + at + w * kLanes, sums[q][w]);
  }
}

// Not inlined: blocks share the copy for one query.
template <KvType kType, int kQueries>
void add_all_values(const Block& block, int q0, Range range) {
  if (range.empty()) return;
  const int whole = block.kv.dim / kLanes * kLanes;
  int at = 0;
  for (; at + kVectors * kLanes <= whole; at += kVectors * kLanes) {
    add_values<kType, kQueries, kVectors, false>(block, q0, range, at);
  }
  for (; at < whole; at += kLanes) add_values<kType, kQueries, 1, false>(block, q0, range, at);
  if (at < block.kv.dim) add_values<kType, kQueries, 1, true>(block, q0, range, at);
}

template <KvType kType, int kQueries>
void attend_block(const PagedScores& how, const KvSegment& kv, const Query* queries, Softmax* results) {
  Block block{kv, queries, results, {}, {}};
  Range any{kSegment, 0}, common{0, kSegment};
  for (int q = 0; q < kQueries; ++q) {
    Range seen{most(queries[q].first - kv.start, 0), least(queries[q].end - kv.start, kSegment)};
    block.seen[q] = seen;
    common = {most(common.first, seen.first), least(common.end, seen.end)};
    if (!seen.empty()) any = {least(any.first, seen.first), most(any.end, seen.end)};
  }
  int group = any.first / kKeyGroup, end = (any.end + kKeyGroup - 1) / kKeyGroup;
  for (; group + kVectors <= end; group += kVectors) score<kType, kQueries, kVectors>(block, group);
  for (; group < end; ++group) score<kType, kQueries, 1>(block, group);
  for (int q = 0; q < kQueries; ++q) {
    for (int d = 0; d < kv.dim; d += kLanes) store(results[q].out + d, splat(0.0f));
    if (!block.seen[q].empty()) soften(how, kv, block.seen[q], block.scores[q], results[q]);
  }
  // Each query sees what all see in one pass, and its own keys before and after that alone: in order of positions.
  bool shared = kQueries > 1 && !common.empty();
  for (int q = 0; q < kQueries; ++q) {
    Range seen = block.seen[q];
    add_all_values<kType, 1>(block, q, shared ? Range{seen.first, common.first} : seen);
  }
  if (!shared) return;
  add_all_values<kType, kQueries>(block, 0, common);
  for (int q = 0; q < kQueries; ++q) add_all_values<kType, 1>(block, q, {common.end, block.seen[q].end});
}

// Blocks of kQueries, then of less.
template <KvType kType, int kQueries = kBlock>
TROUPE_INLINE void attend_all(const PagedScores& how, const KvSegment& kv, const Queries& queries, int at = 0) {
  for (; at + kQueries <= queries.count; at += kQueries) {
    attend_block<kType, kQueries>(how, kv, queries.queries + at, queries.results + at);
  }
  constexpr int kLess = kQueries > 3 ? 3 : kQueries - 1;
  if constexpr (kLess > 0) attend_all<kType, kLess>(how, kv, queries, at);
}

}  // namespace

void attend(const PagedScores& how, const KvSegment& kv, const Queries& queries) {
  switch (kv.type) {
    case KvType::f32: return attend_all<KvType::f32>(how, kv, queries);
    case KvType::f16: return attend_all<KvType::f16>(how, kv, queries);
    case KvType::bf16: return attend_all<KvType::bf16>(how, kv, queries);
    case KvType::i8: return attend_all<KvType::i8>(how, kv, queries);
  }
}

void merge(int dim, const Softmax& part, Softmax& whole) {
  float top = part.max > whole.max ? part.max : whole.max;
  V16 keep = exp(splat(whole.max - top)), take = exp(splat(part.max - top));
  for (int d = 0; d < dim; d += kLanes) {
    store(whole.out + d, add_product(load(whole.out + d) * keep, load(part.out + d), take));
  }
  float sums[kLanes];
  store(sums, add_product(splat(whole.sum) * keep, splat(part.sum), take));
  whole.sum = sums[0];
  whole.max = top;
}

}  // namespace troupe::TROUPE_ISA
