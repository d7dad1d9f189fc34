// Online softmax over tiles of keys. A tile starts at a multiple of kTile of the key's absolute position, a query sees
// only its own keys, and every sum runs in the order of positions: so the result for a query depends on its own keys
// alone, not on chunking, neighbours or threads.
#include "cpu/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/pool.h"
#include "cpu/simd.h"

namespace troupe {
namespace {

constexpr int kTile = 64;
constexpr int kGroup = 8;  // keys scored together
// Queries that share one pass over the keys: enough to reuse a tile from the nearest cache.
constexpr int kQueries = 48;
constexpr int kMaxChunks = 16;  // 16 lanes each: heads up to 256 wide

struct Tile {
  const float* keys[kTile];
  const float* values[kTile];
};

// A query's running result.
struct State {
  float* out;  // dim floats, rounded up to whole vectors
  V16 sum;
  float max;
  int first;  // the first key that it sees
  int end;    // one past the last
};

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
  State states[kQueries];
};

int chunks_of(int dim) { return (dim + kLanes - 1) / kLanes; }

TROUPE_INLINE V16 load_chunk(const float* row, int chunk, int dim) {
  int left = dim - chunk * kLanes;
  return left >= kLanes ? load(row + chunk * kLanes) : load_part(row + chunk * kLanes, left);
}

TROUPE_INLINE void score(const float* query, const Tile& tile, int dim, float* scores) {
  for (int start = 0; start < kTile; start += kGroup) {
    V16 sums[kGroup] = {};
    const float* const* keys = tile.keys + start;
    int whole = dim / kLanes;
    for (int c = 0; c < whole; ++c) {
      V16 q = load(query + c * kLanes);
      for (int i = 0; i < kGroup; ++i) sums[i] += q * load(keys[i] + c * kLanes);
    }
    if (whole * kLanes < dim) {
      V16 q = load(query + whole * kLanes);
      for (int i = 0; i < kGroup; ++i) sums[i] += q * load_chunk(keys[i], whole, dim);
    }
    V8 totals = sums_of_eight(sums);
    std::memcpy(scores + start, &totals, sizeof(totals));
  }
}

// Turns dot products into scores, with -inf for keys of the tile that the query does not see.
TROUPE_INLINE void finish_scores(const PagedScores& how, int first, int end, float* scores) {
  for (int i = 0; i < kTile; i += kLanes) {
    V16 s = load(scores + i) * splat(how.scale);
    if (how.softcap > 0) {
      for (int lane = 0; lane < kLanes; ++lane) s[lane] = how.softcap * std::tanh(s[lane] / how.softcap);
    }
    store(scores + i, s);
  }
  for (int i = 0; i < first; ++i) scores[i] = -INFINITY;
  for (int i = end; i < kTile; ++i) scores[i] = -INFINITY;
}

// Replaces scores by weights relative to the new maximum; returns the factor for what was summed before.
TROUPE_INLINE float soften(State& state, float* scores) {
  V16 best = load(scores);
  for (int i = kLanes; i < kTile; i += kLanes) best = max(best, load(scores + i));
  float top = std::max(state.max, max(best));
  float keep = exp(splat(state.max - top))[0];
  V16 total = state.sum * splat(keep);
  for (int i = 0; i < kTile; i += kLanes) {
    V16 weight = exp(load(scores + i) - splat(top));
    store(scores + i, weight);
    total = total + weight;
  }
  state.sum = total;
  state.max = top;
  return keep;
}

// out = out * keep + the weighted sum of the values from `first` to `end`; kWidth vectors at a time stay in registers.
template <int kWidth>
TROUPE_INLINE void add_values(float* out, const float* weights, const Tile& tile, int first, int end, int chunk,
                              float keep, int dim) {
  V16 sums[kWidth];
  for (int w = 0; w < kWidth; ++w) sums[w] = load(out + (chunk + w) * kLanes) * splat(keep);
  bool whole = (chunk + kWidth) * kLanes <= dim;
  for (int j = first; j < end; ++j) {
    V16 weight = splat(weights[j]);
    for (int w = 0; w < kWidth; ++w) {
      V16 value = whole ? load(tile.values[j] + (chunk + w) * kLanes) : load_chunk(tile.values[j], chunk + w, dim);
      sums[w] += weight * value;
    }
  }
  for (int w = 0; w < kWidth; ++w) store(out + (chunk + w) * kLanes, sums[w]);
}

TROUPE_INLINE void attend_tile(const PagedScores& how, int dim, const float* query, const Tile& tile, int tile_start,
                               State& state) {
  int first = std::max(state.first - tile_start, 0);
  int end = std::min(state.end - tile_start, kTile);
  if (first >= end) return;
  float scores[kTile];
  score(query, tile, dim, scores);
  finish_scores(how, first, end, scores);
  float keep = soften(state, scores);
  int chunk = 0;
  for (int chunks = chunks_of(dim); chunk < chunks;) {
    if (chunks - chunk >= 4) {
      add_values<4>(state.out, scores, tile, first, end, chunk, keep, dim);
      chunk += 4;
    } else {
      add_values<1>(state.out, scores, tile, first, end, chunk, keep, dim);
      chunk += 1;
    }
  }
}

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

TROUPE_CLONES void attend_tiles(const PagedScores& how, int dim, int count, const float* queries, const Tile& tile,
                                int tile_start, State* states) {
  int padded = (dim + kLanes - 1) / kLanes * kLanes;
  for (int i = 0; i < count; ++i) attend_tile(how, dim, queries + i * padded, tile, tile_start, states[i]);
}

void attend(const PagedCall& call, const Item& item) {
  static thread_local Scratch scratch;
  const auto& s = call.shape;
  int padded = chunks_of(s.dim) * kLanes;
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
    scratch.states[i] = State{&scratch.outs[i * padded], splat(0.0f), -INFINITY, from, seen};
    first = std::min(first, from);
    end = std::max(end, seen);
  }
  Tile tile;
  for (int start = first / kTile * kTile; start < end; start += kTile) {
    find_tile(call, item, start, end, scratch.zeros.data(), tile);
    attend_tiles(call.scores, s.dim, count, scratch.queries.data(), tile, start, scratch.states);
  }
  for (int i = 0; i < count; ++i) {
    int token = row_start + (item.begin + i) / group;
    int head = item.kv_head * group + (item.begin + i) % group;
    float* out = call.out + (static_cast<int64_t>(token) * s.heads + head) * s.dim;
    float total = sum(scratch.states[i].sum);
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
    if (slot < 0 || slot / s.block_size >= s.num_blocks) out_of_range("slot_mapping names a slot outside the slab:", slot);
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
