// An item is some queries of one row and one KV head. It runs segment by segment: alone and in order, or, when a call
// has too few items to keep the threads busy, in parts whose softmaxes the last of them merges in that same order.
#include "cpu/attention_kernel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "cpu/kv_blocks.h"
#include "cpu/pool.h"

namespace troupe {
namespace {

// Queries that share a pass over the keys.
constexpr int kQueries = 96;
// Queries that cost about what reading their keys does.
constexpr int kFree = 6;
// Parts for each thread, so that one that is late does not keep the others waiting.
constexpr int kPartsPerThread = 6;
// Floats of queries, keys and values that a thread prepares alone.
constexpr int kPrepared = 1 << 14;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The queries of one row and one KV head from `begin` to `end`, counted token by token, and the segments they see.
struct Item {
  KvHead of;
  int begin, end;
  int first_segment, end_segment;

  int queries() const { return end - begin; }
  int cost() const { return (end_segment - first_segment) * ceil_div(queries(), kFree); }
};

// Softmaxes with their memory.
class Softmaxes {
 public:
  Softmax* reset(size_t count, int dim) {
    size_t width = static_cast<size_t>(ceil_div(dim, kLanes)) * kLanes;
    if (floats_.size() < count * width) floats_.resize(count * width);
    if (all_.size() < count) all_.resize(count);
    for (size_t i = 0; i < count; ++i) all_[i] = {-INFINITY, 0, floats_.data() + i * width};
    return all_.data();
  }

 private:
  std::vector<float> floats_;
  std::vector<Softmax> all_;
};

// What a thread works in.
struct Scratch {
  SegmentScratch segment;
  Query queries[kQueries];
  Softmaxes parts, wholes;
};

Scratch& scratch() {
  static thread_local Scratch mine;
  return mine;
}

class Attention {
 public:
  Attention(const PagedCall& call, const Kernels& with, std::vector<float>& queries)
      : call_(call), with_(with), queries_(queries) {}

  void run() {
    prepare();
    plan();
    int total = 0;
    for (const auto& item : items_) total += item.cost();
    // The dearest first, so that what comes last is short.
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.cost() > b.cost(); });
    split(std::max(1, ceil_div(total, static_cast<int>(pool_threads()) * kPartsPerThread)));
    parallel_for(parts_.size(), [&](size_t i) { attend(parts_[i]); });
  }

 private:
  // An item whose segments are computed by several tasks.
  struct Split {
    const Item* item;
    Softmaxes softmaxes;
    Softmax* all;  // [segments, queries]
    std::atomic<int> left;
  };
  struct Part {
    const Item* item;
    int first_segment, end_segment;
    Split* split;  // null: the whole item
  };

  void prepare() {
    const auto& s = call_.shape;
    int width = s.heads * s.dim;
    queries_.resize(static_cast<size_t>(s.tokens) * width);
    int step = std::max(1, kPrepared / std::max(1, width + 2 * s.kv_heads * s.dim));
    parallel_for(ceil_div(s.tokens, step), [&](size_t i) {
      int first = static_cast<int>(i) * step, end = std::min(first + step, s.tokens);
      for (int t = first; t < end; ++t) write_token(call_, with_, t, queries_.data() + static_cast<int64_t>(t) * width);
    });
  }

  int group() const { return call_.shape.heads / call_.shape.kv_heads; }

  // The i-th query of an item.
  Query query(const Item& item, int i) const {
    const auto& s = call_.shape;
    const auto& options = call_.options;
    int context = call_.batch.context_lens[item.of.row], row_start = call_.batch.row_offsets[item.of.row];
    int token = (item.begin + i) / group(), head = item.of.head * group() + (item.begin + i) % group();
    int own = context + token, first = 0, end = own + 1;
    if (options.mask == Mask::bidirectional) end = context + call_.batch.row_offsets[item.of.row + 1] - row_start;
    if (options.window > 0) {
      first = std::max(0, own - options.window + 1);
      end = static_cast<int>(std::min<int64_t>(end, static_cast<int64_t>(own) + options.window));
    }
    const float* data = queries_.data() + (static_cast<int64_t>(row_start + token) * s.heads + head) * s.dim;
    return {data, first, end};
  }

  float* out(const Item& item, int i) const {
    int64_t token = call_.batch.row_offsets[item.of.row] + (item.begin + i) / group();
    return call_.out + (token * call_.shape.heads + head(item, i)) * call_.shape.dim;
  }

  int head(const Item& item, int i) const { return item.of.head * group() + (item.begin + i) % group(); }

  void plan() {
    for (int r = 0; r < call_.shape.rows; ++r) {
      int queries = (call_.batch.row_offsets[r + 1] - call_.batch.row_offsets[r]) * group();
      for (int h = 0; h < call_.shape.kv_heads; ++h) {
        for (int begin = 0; begin < queries; begin += kQueries) {
          Item item{{r, h}, begin, std::min(begin + kQueries, queries), 0, 0};
          // Later tokens see neither earlier firsts nor earlier ends.
          item.first_segment = query(item, 0).first / kSegment;
          item.end_segment = ceil_div(query(item, item.queries() - 1).end, kSegment);
          items_.push_back(item);
        }
      }
    }
  }

  void split(int target) {
    for (const auto& item : items_) {
      int segments = item.end_segment - item.first_segment;
      int count = std::min(segments, ceil_div(item.cost(), target));
      Split* split = count > 1 ? begin_split(item, count) : nullptr;
      for (int i = 0; i < count; ++i) {
        auto border = [&](int64_t part) { return item.first_segment + static_cast<int>(part * segments / count); };
        parts_.push_back({&item, border(i), border(i + 1), split});
      }
    }
  }

  Split* begin_split(const Item& item, int parts) {
    splits_.push_back(std::make_unique<Split>());
    Split& split = *splits_.back();
    split.item = &item;
    size_t count = static_cast<size_t>(item.end_segment - item.first_segment) * item.queries();
    split.all = split.softmaxes.reset(count, call_.shape.dim);
    split.left = parts;
    return &split;
  }

  void attend(const Part& part) {
    const Item& item = *part.item;
    Scratch& mine = scratch();
    int count = item.queries();
    for (int i = 0; i < count; ++i) mine.queries[i] = query(item, i);
    Softmax* wholes = part.split ? nullptr : begin_wholes(item);
    Softmax* parts = part.split ? nullptr : mine.parts.reset(count, call_.shape.dim);
    for (int segment = part.first_segment; segment < part.end_segment; ++segment) {
      if (part.split) parts = part.split->all + static_cast<size_t>(segment - item.first_segment) * count;
      attend_segment(item, segment, parts);
      if (wholes) merge(item, segment, parts, wholes);
    }
    if (wholes) return finish(item, wholes);
    if (part.split->left.fetch_sub(1, std::memory_order_acq_rel) == 1) merge_all(*part.split);
  }

  void attend_segment(const Item& item, int index, Softmax* parts) {
    Scratch& mine = scratch();
    int start = index * kSegment, end = mine.queries[item.queries() - 1].end;
    KvSegment segment = find_segment(call_, item.of, start, end, mine.segment);
    if (item.queries() >= with_.widen_from) segment = widened(segment, with_, end, mine.segment);
    with_.attend({call_.options.softcap}, segment, {item.queries(), mine.queries, parts});
  }

  Softmax* begin_wholes(const Item& item) {
    Softmax* wholes = scratch().wholes.reset(item.queries(), call_.shape.dim);
    for (int i = 0; i < item.queries(); ++i) {
      std::fill_n(wholes[i].out, ceil_div(call_.shape.dim, kLanes) * kLanes, 0.0f);
      if (!call_.options.sinks) continue;
      // A sink is a key of its own, before all others, whose value is zero.
      float sink = call_.options.sinks[head(item, i)];
      wholes[i].max = sink;
      wholes[i].sum = std::isnan(sink) ? sink : 1.0f;
    }
    return wholes;
  }

  void merge(const Item& item, int segment, const Softmax* parts, Softmax* wholes) {
    const Query* queries = scratch().queries;
    int start = segment * kSegment;
    for (int i = 0; i < item.queries(); ++i) {
      bool sees = queries[i].first < start + kSegment && queries[i].end > start;
      if (sees) with_.merge(call_.shape.dim, parts[i], wholes[i]);
    }
  }

  void merge_all(const Split& split) {
    const Item& item = *split.item;
    Softmax* wholes = begin_wholes(item);
    for (int s = item.first_segment; s < item.end_segment; ++s) {
      merge(item, s, split.all + static_cast<size_t>(s - item.first_segment) * item.queries(), wholes);
    }
    finish(item, wholes);
  }

  void finish(const Item& item, const Softmax* wholes) {
    for (int i = 0; i < item.queries(); ++i) {
      float* to = out(item, i);
      float factor = 1 / wholes[i].sum;
      for (int d = 0; d < call_.shape.dim; ++d) to[d] = wholes[i].out[d] * factor;
    }
  }

  const PagedCall& call_;
  const Kernels& with_;
  std::vector<float>& queries_;
  std::vector<Item> items_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Split>> splits_;
};

}  // namespace

void paged_attention(const PagedCall& call, const Kernels& with) {
  check_batch(call);
  // Kept from call to call, since fresh memory costs more than filling it.
  static thread_local std::vector<float> queries;
  Attention(call, with, queries).run();
}

}  // namespace troupe
