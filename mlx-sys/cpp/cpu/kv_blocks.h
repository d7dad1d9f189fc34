// Where the keys and values of a sequence lie, and putting new ones there.
#pragma once

#include <vector>

#include "cpu/attention_kernel.h"

namespace troupe {

// Throws std::out_of_range for a row, slot or block that does not exist.
void check_batch(const PagedCall& call);

// Rotates a token's queries, times the scale of scores, into `queries` [heads * dim], and its keys and values into
// their slot.
void write_token(const PagedCall& call, const Kernels& with, int token, float* queries);

// Memory for segments that cannot be read where they lie.
struct SegmentScratch {
  std::vector<unsigned char> keys, values;
  std::vector<float> key_scales, value_scales;
  std::vector<float> wide_keys, wide_values;
};

// A KV head of a row.
struct KvHead {
  int row;
  int head;
};

// The segment that starts at `start`, of which the keys before `end` are there. It is read where it lies if the groups
// of keys lie in one block each, else it is gathered.
KvSegment find_segment(const PagedCall& call, KvHead of, int start, int end, SegmentScratch& scratch);

// The same segment as floats, for those who read it many times.
KvSegment widened(const KvSegment& segment, const Kernels& with, int end, SegmentScratch& scratch);

}  // namespace troupe
