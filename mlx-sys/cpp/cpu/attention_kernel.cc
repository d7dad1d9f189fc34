// Tiles of keys, gathered by block table, and the queries that see them. A tile starts at a multiple of kTile of the
// key's absolute position, a query sees only its own keys, and every sum runs in the order of positions: so the result
// for a query depends on its own keys alone, not on chunking, neighbours or threads.
#include "cpu/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/pool.h"

namespace troupe {
namespace {

// Queries that share one pass over the keys: enough to reuse a tile from the nearest cache.
constexpr int kQueries = 48;

// The queries of one row and one KV head from `begin` to `end`, counted token by token.
struct Item {
  int row;
  int kv_head;
  int begin;
  int end;
};

struct Scratch {
  std::vector<float> queries;
  std::vector<float> outs;
  std::vector<float> zeros;
  QueryState states[kQueries];
};

void find_tile(const PagedCall& call, const Item& item, int start, int end, const float* zeros, Tile& tile) {
  const auto& s = call.shape;
  const int32_t* table = call.batch.block_tables + static_cast<int64_t>(item.row) * s.max_blocks;
  for (int i = 0; i < kTile; ++i) {
    int position = start + i;
    if (position >= end) {
      tile.keys[i] = tile.values[i] = zeros;
      continue;
    }
    int64_t slot = static_cast<int64_t>(table[position / s.block_size]) * s.block_size + position % s.block_size;
    int64_t at = (slot * s.kv_heads + item.kv_head) * s.dim;
    tile.keys[i] = call.k_slab + at;
    tile.values[i] = call.v_slab + at;
  }
}

void attend(const PagedCall& call, const Item& item) {
  static thread_local Scratch scratch;
  const auto& s = call.shape;
  int padded = (s.dim + kLanes - 1) / kLanes * kLanes;
  int group = s.heads / s.kv_heads;
  int count = item.end - item.begin;
  scratch.queries.assign(static_cast<size_t>(kQueries) * padded, 0.0f);
  scratch.outs.assign(static_cast<size_t>(kQueries) * padded, 0.0f);
  scratch.zeros.assign(padded, 0.0f);

  int row_start = call.batch.row_offsets[item.row];
  int first = INT32_MAX, end = 0;
  for (int i = 0; i < count; ++i) {
    int token = (item.begin + i) / group;
    int head = item.kv_head * group + (item.begin + i) % group;
    const float* q = call.q.at(row_start + token, head);
    for (int d = 0; d < s.dim; ++d) scratch.queries[i * padded + d] = q[d * call.q.stride];
    int seen = call.batch.context_lens[item.row] + token + 1;
    int from = call.scores.window > 0 ? std::max(0, seen - call.scores.window) : 0;
    scratch.states[i] = {&scratch.queries[i * padded], &scratch.outs[i * padded], {}, -INFINITY, from, seen};
    first = std::min(first, from);
    end = std::max(end, seen);
  }
  Tile tile;
  for (int start = first / kTile * kTile; start < end; start += kTile) {
    find_tile(call, item, start, end, scratch.zeros.data(), tile);
    kernels().attend(call.scores, s.dim, tile, start, count, scratch.states);
  }
  for (int i = 0; i < count; ++i) {
    int token = row_start + (item.begin + i) / group;
    int head = item.kv_head * group + (item.begin + i) % group;
    float* out = call.out + (static_cast<int64_t>(token) * s.heads + head) * s.dim;
    float total = kernels().total(scratch.states[i]);
    for (int d = 0; d < s.dim; ++d) out[d] = scratch.states[i].out[d] / total;
  }
}

void write_slots(const PagedCall& call) {
  const auto& s = call.shape;
  for (int t = 0; t < s.tokens; ++t) {
    for (int h = 0; h < s.kv_heads; ++h) {
      int64_t at = (static_cast<int64_t>(call.batch.slot_mapping[t]) * s.kv_heads + h) * s.dim;
      const float* k = call.k.at(t, h);
      const float* v = call.v.at(t, h);
      for (int d = 0; d < s.dim; ++d) {
        call.k_slab[at + d] = k[d * call.k.stride];
        call.v_slab[at + d] = v[d * call.v.stride];
      }
    }
  }
}

[[noreturn]] void out_of_range(const std::string& what, int64_t index) {
  throw std::out_of_range("[paged_attention] " + what + " " + std::to_string(index));
}

void check_batch(const PagedCall& call) {
  const auto& s = call.shape;
  const auto& b = call.batch;
  if (b.row_offsets[0] != 0 || b.row_offsets[s.rows] != s.tokens) {
    out_of_range("row_offsets do not span the tokens: they end at", b.row_offsets[s.rows]);
  }
  for (int t = 0; t < s.tokens; ++t) {
    int slot = b.slot_mapping[t];
    if (slot < 0 || slot / s.block_size >= s.num_blocks) {
      out_of_range("slot_mapping names a slot outside the slab:", slot);
    }
  }
  for (int r = 0; r < s.rows; ++r) {
    int length = b.row_offsets[r + 1] - b.row_offsets[r];
    if (length < 0) out_of_range("row_offsets decrease at row", r);
    if (length == 0) continue;
    int64_t keys = static_cast<int64_t>(b.context_lens[r]) + length;
    if (b.context_lens[r] < 0 || keys > static_cast<int64_t>(s.max_blocks) * s.block_size) {
      out_of_range("the block table is too short for row", r);
    }
    for (int64_t i = 0; i * s.block_size < keys; ++i) {
      int block = b.block_tables[static_cast<int64_t>(r) * s.max_blocks + i];
      if (block < 0 || block >= s.num_blocks) out_of_range("block_tables names a block outside the slab:", block);
    }
  }
}

}  // namespace

void paged_attention(const PagedCall& call) {
  check_batch(call);
  write_slots(call);
  const auto& s = call.shape;
  int group = s.heads / s.kv_heads;
  std::vector<Item> items;
  for (int r = 0; r < s.rows; ++r) {
    int queries = (call.batch.row_offsets[r + 1] - call.batch.row_offsets[r]) * group;
    for (int h = 0; h < s.kv_heads; ++h) {
      for (int begin = 0; begin < queries; begin += kQueries) {
        items.push_back({r, h, begin, std::min(begin + kQueries, queries)});
      }
    }
  }
  // The longest first: an item costs about its last query's keys.
  parallel_for(items.size(), [&](size_t i) { attend(call, items[items.size() - 1 - i]); });
}

}  // namespace troupe
