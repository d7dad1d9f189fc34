// Paged attention on plain memory: what the MLX primitive calls on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/kernels.h"
#include "cpu/row_kernels.h"

namespace troupe {

// Which tokens of its own row a token sees.
enum class Mask : uint8_t { causal, bidirectional };

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

// Row r is the tokens row_offsets[r]..row_offsets[r + 1], after context_lens[r] others of its sequence. A slot is
// block * block_size + offset.
struct PagedBatch {
  const int32_t* row_offsets;   // [rows + 1]
  const int32_t* context_lens;  // [rows]
  const int32_t* slot_mapping;  // [tokens]
  const int32_t* block_tables;  // [rows, max_blocks]
};

// The blocks. A block's keys lie dimension by dimension, so that the keys of consecutive positions are neighbours.
struct KvSlabs {
  KvType type;
  void* keys;           // [num_blocks, kv_heads, dim, block_size]
  void* values;         // [num_blocks, kv_heads, block_size, dim]
  float* key_scales;    // [num_blocks, kv_heads, block_size], for i8 alone
  float* value_scales;  // the same
};

// Cosines and sines of each token, by which the pairs (i, i + half) of queries and keys are rotated.
struct PagedAngles {
  int half;  // 0: nothing is rotated
  Rows cos;
  Rows sin;
};

struct PagedOptions {
  float scale;
  float softcap;       // 0: none
  int window;          // a token sees those less than this away; 0: all
  Mask mask;
  const float* sinks;  // [heads] scores that join the sum of weights with no value; null: none
};

struct PagedCall {
  PagedShape shape;
  PagedBatch batch;
  PagedOptions options;
  PagedAngles angles;
  Rows q;  // [tokens, heads * dim]
  Rows k;  // [tokens, kv_heads * dim]
  Rows v;
  KvSlabs slabs;
  float* out;  // [tokens, heads * dim], dense
};

// Rotates and writes k and v to their slots, then attends. Throws std::out_of_range, before it writes anything, for a
// row, slot or block that does not exist.
void paged_attention(const PagedCall& call, const Kernels& with = kernels());

}  // namespace troupe
