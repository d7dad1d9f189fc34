#include "cpu/kv_blocks.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe {
namespace {

[[noreturn]] void out_of_range(const std::string& what, int64_t index) {
  throw std::out_of_range("[paged_attention] " + what + " " + std::to_string(index));
}

size_t element_bytes(KvType type) {
  switch (type) {
    case KvType::f32: return 4;
    case KvType::f16:
    case KvType::bf16: return 2;
    case KvType::i8: return 1;
  }
  return 0;
}

// A head's part of a block: the elements before its keys or values, and the scales before its own.
struct Place {
  int64_t scales;
  int64_t elements;

  Place(const PagedShape& s, int block, int head)
      : scales((static_cast<int64_t>(block) * s.kv_heads + head) * s.block_size), elements(scales * s.dim) {}
};

unsigned char* at(void* slab, KvType type, int64_t element) {
  return static_cast<unsigned char*>(slab) + element * static_cast<int64_t>(element_bytes(type));
}

void check_row(const PagedCall& call, int r) {
  const auto& s = call.shape;
  const auto& b = call.batch;
  int length = b.row_offsets[r + 1] - b.row_offsets[r];
  if (length < 0) out_of_range("row_offsets decrease at row", r);
  if (length == 0) return;
  int64_t keys = static_cast<int64_t>(b.context_lens[r]) + length;
  if (b.context_lens[r] < 0 || keys > static_cast<int64_t>(s.max_blocks) * s.block_size) {
    out_of_range("the block table is too short for row", r);
  }
  for (int64_t i = 0; i * s.block_size < keys; ++i) {
    int block = b.block_tables[static_cast<int64_t>(r) * s.max_blocks + i];
    if (block < 0 || block >= s.num_blocks) out_of_range("block_tables names a block outside the slab:", block);
  }
}

void rotate_head(const PagedCall& call, const Kernels& with, int token, const float* x, float* out) {
  const auto& angles = call.angles;
  if (angles.half > 0) with.rotate(angles.half, x, angles.cos.at(token), angles.sin.at(token), out);
  std::copy(x + 2 * angles.half, x + call.shape.dim, out + 2 * angles.half);
}

// One position after another, for blocks that groups of keys do not fit.
class Gather {
 public:
  Gather(const PagedCall& call, KvHead of, SegmentScratch& scratch)
      : call_(call), of_(of), bytes_(element_bytes(call.slabs.type)), scratch_(scratch) {
    size_t elements = static_cast<size_t>(kSegment) * call.shape.dim;
    scratch_.keys.resize(elements * bytes_);
    scratch_.values.resize(elements * bytes_);
    scratch_.key_scales.resize(kSegment);
    scratch_.value_scales.resize(kSegment);
  }

  // Takes `position` as the i-th key of the segment.
  void take(int position, int i) {
    const auto& s = call_.shape;
    const auto& slabs = call_.slabs;
    int32_t block = call_.batch.block_tables[static_cast<int64_t>(of_.row) * s.max_blocks + position / s.block_size];
    int offset = position % s.block_size;
    Place place(s, block, of_.head);
    const auto* key = at(slabs.keys, slabs.type, place.elements + offset);
    auto* to = scratch_.keys.data() + (static_cast<size_t>(i / kKeyGroup) * s.dim * kKeyGroup + i % kKeyGroup) * bytes_;
    for (int d = 0; d < s.dim; ++d) {
      std::memcpy(to + static_cast<size_t>(d) * kKeyGroup * bytes_,
                  key + static_cast<size_t>(d) * s.block_size * bytes_, bytes_);
    }
    size_t row = static_cast<size_t>(s.dim) * bytes_;
    std::memcpy(scratch_.values.data() + static_cast<size_t>(i) * row,
                at(slabs.values, slabs.type, place.elements + static_cast<int64_t>(offset) * s.dim), row);
    if (slabs.type != KvType::i8) return;
    scratch_.key_scales[i] = slabs.key_scales[place.scales + offset];
    scratch_.value_scales[i] = slabs.value_scales[place.scales + offset];
  }

 private:
  const PagedCall& call_;
  KvHead of_;
  size_t bytes_;
  SegmentScratch& scratch_;
};

int groups_of(const KvSegment& segment, int end) {
  return (std::min(end - segment.start, kSegment) + kKeyGroup - 1) / kKeyGroup;
}

KvSegment gathered(const PagedCall& call, KvHead of, KvSegment segment, int end, SegmentScratch& scratch) {
  Gather gather(call, of, scratch);
  for (int i = 0; i < kSegment && segment.start + i < end; ++i) gather.take(segment.start + i, i);
  segment.key_stride = kKeyGroup;
  bool scaled = segment.type == KvType::i8;
  for (int g = 0; g < groups_of(segment, end); ++g) {
    int64_t elements = static_cast<int64_t>(g) * kKeyGroup * segment.dim;
    segment.keys[g] = at(scratch.keys.data(), segment.type, elements);
    segment.values[g] = at(scratch.values.data(), segment.type, elements);
    segment.ahead[g] = segment.keys[g];
    segment.key_scales[g] = scaled ? scratch.key_scales.data() + g * kKeyGroup : nullptr;
    segment.value_scales[g] = scaled ? scratch.value_scales.data() + g * kKeyGroup : nullptr;
  }
  return segment;
}

}  // namespace

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
  for (int r = 0; r < s.rows; ++r) check_row(call, r);
}

void write_token(const PagedCall& call, const Kernels& with, int token, float* queries) {
  const auto& s = call.shape;
  const auto& slabs = call.slabs;
  for (int h = 0; h < s.heads; ++h) {
    float* query = queries + static_cast<int64_t>(h) * s.dim;
    rotate_head(call, with, token, call.q.at(token) + static_cast<int64_t>(h) * s.dim, query);
    for (int d = 0; d < s.dim; ++d) query[d] *= call.options.scale;
  }
  static thread_local std::vector<float> key;
  key.resize(s.dim);
  int slot = call.batch.slot_mapping[token], offset = slot % s.block_size;
  for (int h = 0; h < s.kv_heads; ++h) {
    Place place(s, slot / s.block_size, h);
    rotate_head(call, with, token, call.k.at(token) + static_cast<int64_t>(h) * s.dim, key.data());
    bool scaled = slabs.type == KvType::i8;
    with.write_kv(key.data(), {slabs.type, s.dim, s.block_size, at(slabs.keys, slabs.type, place.elements + offset),
                               scaled ? slabs.key_scales + place.scales + offset : nullptr});
    with.write_kv(call.v.at(token) + static_cast<int64_t>(h) * s.dim,
                  {slabs.type, s.dim, 1,
                   at(slabs.values, slabs.type, place.elements + static_cast<int64_t>(offset) * s.dim),
                   scaled ? slabs.value_scales + place.scales + offset : nullptr});
  }
}

KvSegment find_segment(const PagedCall& call, KvHead of, int start, int end, SegmentScratch& scratch) {
  const auto& s = call.shape;
  const auto& slabs = call.slabs;
  KvSegment segment{};
  segment.type = slabs.type;
  segment.dim = s.dim;
  segment.start = start;
  segment.key_stride = s.block_size;
  if (s.block_size % kKeyGroup != 0) return gathered(call, of, segment, end, scratch);
  const int32_t* table = call.batch.block_tables + static_cast<int64_t>(of.row) * s.max_blocks;
  auto place_of = [&](int position) { return Place(s, table[position / s.block_size], of.head); };
  for (int g = 0; g < groups_of(segment, end); ++g) {
    int position = start + g * kKeyGroup, offset = position % s.block_size;
    Place place = place_of(position);
    int next = position + kSegment < end ? position + kSegment : position;
    segment.ahead[g] = at(slabs.keys, slabs.type, place_of(next).elements + next % s.block_size);
    segment.keys[g] = at(slabs.keys, slabs.type, place.elements + offset);
    segment.values[g] = at(slabs.values, slabs.type, place.elements + static_cast<int64_t>(offset) * s.dim);
    if (slabs.type != KvType::i8) continue;
    segment.key_scales[g] = slabs.key_scales + place.scales + offset;
    segment.value_scales[g] = slabs.value_scales + place.scales + offset;
  }
  return segment;
}

KvSegment widened(const KvSegment& segment, const Kernels& with, int end, SegmentScratch& scratch) {
  if (segment.type == KvType::f32) return segment;
  size_t group = static_cast<size_t>(kKeyGroup) * segment.dim;
  scratch.wide_keys.resize(kGroups * group);
  scratch.wide_values.resize(kGroups * group);
  KvSegment wide = segment;
  wide.type = KvType::f32;
  wide.key_stride = kKeyGroup;
  for (int g = 0; g < groups_of(segment, end); ++g) {
    float* keys = scratch.wide_keys.data() + g * group;
    float* values = scratch.wide_values.data() + g * group;
    with.widen_kv(segment, g, keys, values);
    wide.keys[g] = wide.ahead[g] = keys;
    wide.values[g] = values;
  }
  return wide;
}

}  // namespace troupe
