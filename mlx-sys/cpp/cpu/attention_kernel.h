// Paged attention on plain memory: what the MLX primitive calls on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"

namespace troupe {

// [tokens, heads, dim] with any strides, in floats.
struct Heads {
  const float* data;
  int64_t token_stride;
  int64_t head_stride;
  int64_t stride;

  const float* at(int64_t token, int64_t head) const { return data + token * token_stride + head * head_stride; }
};

// The sizes of one call; see PagedAttention for the tensors.
struct PagedShape {
  int tokens;
  int rows;
  int heads;
  int kv_heads;
  int dim;
  int num_blocks;
  int block_size;
  int max_blocks;
};

struct PagedBatch {
  const int32_t* row_offsets;
  const int32_t* context_lens;
  const int32_t* slot_mapping;
  const int32_t* block_tables;
};

struct PagedCall {
  PagedShape shape;
  PagedBatch batch;
  PagedScores scores;
  Heads q;
  Heads k;
  Heads v;
  float* k_slab;
  float* v_slab;
  float* out;
};

// Writes k and v to their slots, then attends. Throws std::out_of_range, before it writes anything, for a row, slot
// or block that does not exist.
void paged_attention(const PagedCall& call);

}  // namespace troupe
