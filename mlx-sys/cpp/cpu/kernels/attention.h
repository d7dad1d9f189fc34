// What the inner loops of attention work on: the keys and values of a segment, and the queries that see them.
//
// A sequence is cut into segments at multiples of kSegment positions, and each is a softmax of its own. Segments are
// merged in ascending order. So the sum behind a result is a function of the query and its keys alone, whoever computes
// which segment.
#pragma once

#include <cstdint>

namespace troupe {

constexpr int kSegment = 128;  // positions whose softmax is computed together
constexpr int kKeyGroup = 16;  // keys that lie side by side
constexpr int kGroups = kSegment / kKeyGroup;

// What a stored key or value is. i8 stands for itself times a scale that a head's numbers of one token share.
enum class KvType : uint8_t { f32, f16, bf16, i8 };

// The keys and values of one KV head, group by group. Groups that nobody sees may point anywhere.
struct KvSegment {
  KvType type;
  int dim;
  int start;       // the position of the first key
  int key_stride;  // elements from one dimension of a group's keys to the next
  const void* keys[kGroups];          // [dim, kKeyGroup] each
  const void* values[kGroups];        // [kKeyGroup, dim] each, dense
  const float* key_scales[kGroups];   // [kKeyGroup] each; null: one
  const float* value_scales[kGroups];
  const void* ahead[kGroups];         // keys that will be wanted next: brought near, not read
};

struct PagedScores {
  float softcap;  // 0: none
};

// A rotated query times the scale of scores, and the positions first..end that it sees.
struct Query {
  const float* data;
  int first;
  int end;
};

// The softmax of some keys: with w = e^(score - max), the sum of w and the sums of w * value.
struct Softmax {
  float max;
  float sum;
  float* out;  // dim floats, rounded up to whole vectors
};

// Queries and, for each, the softmax of the keys that it sees of a segment. Without meaning where it sees none.
struct Queries {
  int count;
  const Query* queries;
  Softmax* results;
};

// One head's numbers of one token as they are stored: dim elements, `stride` apart.
struct KvPlace {
  KvType type;
  int dim;
  int stride;
  void* data;
  float* scale;  // i8 alone
};

}  // namespace troupe
