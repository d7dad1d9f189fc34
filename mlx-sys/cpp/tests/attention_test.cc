#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "check.h"
#include "cpu/attention_kernel.h"
#include "cpu/dispatch.h"
#include "cpu/pool.h"

namespace troupe::test {
namespace {

constexpr KvType kTypes[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::i8};
constexpr const char* kTypeNames[] = {"f32", "f16", "bf16", "i8"};

struct Case {
  int heads, kv_heads, dim, block_size, half;
  KvType type;
  PagedOptions options;

  std::string name() const {
    return "attention of " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim) +
           " in blocks of " + std::to_string(block_size) + " of " + kTypeNames[static_cast<int>(type)];
  }
};

// A whole sequence's projections, not rotated, and the blocks that it owns.
struct Sequence {
  int len;
  std::vector<float> q, k, v;
  std::vector<int32_t> blocks;
};

// Tokens first..end of a sequence.
struct Row {
  const Sequence* of;
  int first, end;
};

// Slabs that hold nothing but what was written: anything else reads as NaN.
class World {
 public:
  World(const Case& c, int num_blocks, Random& random) : c_(c), num_blocks_(num_blocks), random_(random) {
    size_t scales = static_cast<size_t>(num_blocks) * c.kv_heads * c.block_size;
    size_t bytes[] = {4, 2, 2, 1};
    keys_.assign(scales * c.dim * bytes[static_cast<int>(c.type)], 0xff);
    values_ = keys_;
    key_scales_.assign(scales, NAN);
    value_scales_ = key_scales_;
    free_.resize(num_blocks);
    std::iota(free_.begin(), free_.end(), 0);
    for (int i = num_blocks - 1; i > 0; --i) std::swap(free_[i], free_[random.below(i + 1)]);
  }

  Sequence sequence(int len) {
    Sequence s{len, noise(random_, static_cast<size_t>(len) * c_.heads * c_.dim),
               noise(random_, static_cast<size_t>(len) * c_.kv_heads * c_.dim),
               noise(random_, static_cast<size_t>(len) * c_.kv_heads * c_.dim),
               {}};
    for (auto& q : s.q) q *= 3;
    for (int i = 0; i * c_.block_size < len; ++i) {
      s.blocks.push_back(free_.back());
      free_.pop_back();
    }
    return s;
  }

  // What attention gives for each row. The projections lie as the columns of one matrix.
  std::vector<std::vector<float>> step(const std::vector<Row>& rows, const Kernels& with = kernels()) {
    int q = c_.heads * c_.dim, kv = c_.kv_heads * c_.dim, width = q + 2 * kv;
    std::vector<float> fused, cos, sin;
    std::vector<int32_t> offsets{0}, contexts, slots, tables;
    size_t longest = 1;
    for (const auto& row : rows) longest = std::max(longest, row.of->blocks.size());
    for (const auto& row : rows) {
      for (int t = row.first; t < row.end; ++t) {
        append(fused, row.of->q, t, q);
        append(fused, row.of->k, t, kv);
        append(fused, row.of->v, t, kv);
        for (int i = 0; i < c_.half; ++i) {
          cos.push_back(static_cast<float>(std::cos(angle(t, i))));
          sin.push_back(static_cast<float>(std::sin(angle(t, i))));
        }
        slots.push_back(row.of->blocks[t / c_.block_size] * c_.block_size + t % c_.block_size);
      }
      offsets.push_back(static_cast<int32_t>(slots.size()));
      contexts.push_back(row.first);
      tables.insert(tables.end(), row.of->blocks.begin(), row.of->blocks.end());
      tables.resize(contexts.size() * longest, -1);
    }
    int tokens = static_cast<int>(slots.size());
    std::vector<float> out(static_cast<size_t>(tokens) * q, 7.0f);
    const float* data = fused.data();
    paged_attention(PagedCall{.shape = {tokens, static_cast<int>(rows.size()), c_.heads, c_.kv_heads, c_.dim,
                                        num_blocks_, c_.block_size, static_cast<int>(longest)},
                              .batch = {offsets.data(), contexts.data(), slots.data(), tables.data()},
                              .options = c_.options,
                              .angles = {c_.half, {cos.data(), c_.half}, {sin.data(), c_.half}},
                              .q = {data, width},
                              .k = {data + q, width},
                              .v = {data + q + kv, width},
                              .slabs = {c_.type, keys_.data(), values_.data(), key_scales_.data(), value_scales_.data()},
                              .out = out.data()},
                    with);
    std::vector<std::vector<float>> parts;
    for (size_t r = 0; r < rows.size(); ++r) {
      parts.emplace_back(out.begin() + static_cast<int64_t>(offsets[r]) * q,
                         out.begin() + static_cast<int64_t>(offsets[r + 1]) * q);
    }
    return parts;
  }

  static double angle(int token, int pair) { return token * std::pow(100.0, -pair / 8.0); }

 private:
  static void append(std::vector<float>& to, const std::vector<float>& from, int token, int width) {
    to.insert(to.end(), from.begin() + static_cast<int64_t>(token) * width,
              from.begin() + static_cast<int64_t>(token + 1) * width);
  }

  const Case c_;
  int num_blocks_;
  Random& random_;
  std::vector<unsigned char> keys_, values_;
  std::vector<float> key_scales_, value_scales_;
  std::vector<int32_t> free_;
};

std::vector<double> rotated(const Case& c, const float* x, int token) {
  std::vector<double> out(x, x + c.dim);
  for (int i = 0; i < c.half; ++i) {
    double cos = std::cos(World::angle(token, i)), sin = std::sin(World::angle(token, i));
    out[i] = x[i] * cos - x[i + c.half] * sin;
    out[i + c.half] = x[i + c.half] * cos + x[i] * sin;
  }
  return out;
}

// The largest of a head's numbers.
template <typename T>
double size_of(const T* x, int dim) {
  double most = 0;
  for (int d = 0; d < dim; ++d) most = std::max(most, std::fabs(static_cast<double>(x[d])));
  return most;
}

// The most by which a stored number differs from x, one of a head's numbers whose largest is `most`.
double rounding(KvType type, double x, double most) {
  switch (type) {
    case KvType::f32: return 0;
    case KvType::f16: return std::fabs(x) * 0x1p-11 + 0x1p-25;
    case KvType::bf16: return std::fabs(x) * 0x1p-8;
    case KvType::i8: return most / 254 * 1.001;
  }
  return 0;
}

// A sequence and its rotated keys.
struct Oracle {
  const Sequence& sequence;
  std::vector<double> keys;

  Oracle(const Case& c, const Sequence& s) : sequence(s) {
    for (int i = 0; i < s.len * c.kv_heads; ++i) {
      auto key = rotated(c, &s.k[static_cast<size_t>(i) * c.dim], i / c.kv_heads);
      keys.insert(keys.end(), key.begin(), key.end());
    }
  }
};

// One head of one token, and the keys first..end that it sees.
struct Seeing {
  int token, head, first, end;
};

// Checks what was found for it against sums in f64. What storing rounds moves a score
// by at most `shift`, so a weight by a factor of at most e^(2 shift).
void check_head(const Case& c, const Oracle& oracle, const Seeing& seeing, const float* found) {
  const Sequence& s = oracle.sequence;
  auto [token, head, first, end] = seeing;
  int kv_head = head / (c.heads / c.kv_heads);
  auto q = rotated(c, &s.q[(static_cast<size_t>(token) * c.heads + head) * c.dim], token);
  std::vector<double> scores;
  double shift = 0, largest = 0;
  for (int t = first; t < end; ++t) {
    const double* k = &oracle.keys[(static_cast<size_t>(t) * c.kv_heads + kv_head) * c.dim];
    double dot = 0, apart = 0, most = size_of(k, c.dim);
    for (int d = 0; d < c.dim; ++d) {
      dot += q[d] * k[d];
      apart += std::fabs(q[d]) * (rounding(c.type, k[d], most) + 1e-6 * std::fabs(k[d]));
    }
    double score = dot * c.options.scale, cap = c.options.softcap;
    scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
    shift = std::max(shift, apart * c.options.scale + 1e-6 * (1 + cap));
  }
  double top = *std::max_element(scores.begin(), scores.end()), total = 0;
  if (c.options.sinks) top = std::max<double>(top, c.options.sinks[head]);
  std::vector<double> out(c.dim), apart(c.dim);
  for (int t = first; t < end; ++t) {
    double weight = std::exp(scores[t - first] - top);
    const float* value = &s.v[(static_cast<size_t>(t) * c.kv_heads + kv_head) * c.dim];
    double most = size_of(value, c.dim);
    largest = std::max(largest, most);
    total += weight;
    for (int d = 0; d < c.dim; ++d) {
      out[d] += weight * value[d];
      apart[d] += weight * (rounding(c.type, value[d], most) + 2e-6 * std::fabs(value[d]));
    }
  }
  if (c.options.sinks) total += std::exp(c.options.sinks[head] - top);
  for (int d = 0; d < c.dim; ++d) {
    double allowed = 1.5 * apart[d] / total + std::expm1(2 * shift) * largest + 1e-7;
    check(std::fabs(found[d] - out[d] / total) <= allowed,
          c.name() + ": token " + std::to_string(token) + " gives " + std::to_string(found[d]) + ", not " +
              std::to_string(out[d] / total));
  }
}

void check_row(const Case& c, const Row& row, const std::vector<float>& found) {
  Oracle oracle(c, *row.of);
  for (int t = row.first; t < row.end; ++t) {
    int window = c.options.window, first = window > 0 ? std::max(0, t - window + 1) : 0;
    int end = c.options.mask == Mask::causal ? t + 1 : row.end;
    if (window > 0) end = std::min(end, t + window);
    for (int h = 0; h < c.heads; ++h) {
      check_head(c, oracle, {t, h, first, end},
                 &found[(static_cast<size_t>(t - row.first) * c.heads + h) * c.dim]);
    }
  }
}

Case random_case(Random& random, KvType type, const std::vector<float>& sinks) {
  int kv_heads = 1 + random.below(3), dim = 2 + random.below(80);
  constexpr int kBlocks[] = {1, 5, 16, 32};
  PagedOptions options{1 / std::sqrt(static_cast<float>(dim)), 0, 0, Mask::causal, nullptr};
  if (random.below(3) == 0) options.softcap = 0.5f + static_cast<float>(random.below(4));
  if (random.below(3) == 0) options.window = 1 + random.below(200);
  if (random.below(3) == 0) options.mask = Mask::bidirectional;
  if (random.below(3) == 0) options.sinks = sinks.data();
  return {kv_heads * (1 + random.below(8)), kv_heads, dim, kBlocks[random.below(4)], random.below(dim / 2 + 1), type,
          options};
}

// Prompts and single tokens in one step, then a step of one token of each, with an empty row between.
void test_case(Random& random, const Case& c, const Kernels& with) {
  World world(c, 600, random);
  std::vector<Sequence> sequences;
  std::vector<Row> prompts, next;
  for (int i = 0; i < 3; ++i) sequences.push_back(world.sequence(2 + random.below(i == 0 ? 280 : 40)));
  for (const auto& s : sequences) prompts.push_back({&s, 0, s.len - 1});
  prompts.insert(prompts.begin() + 1, {&sequences[0], 0, 0});
  for (const auto& s : sequences) next.push_back({&s, s.len - 1, s.len});
  for (const auto& rows : {prompts, next}) {
    auto found = world.step(rows, with);
    for (size_t r = 0; r < rows.size(); ++r) check_row(c, rows[r], found[r]);
  }
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

// The bits of a token are the same alone or beside others, in one piece or in many, by one thread or by four.
void test_bits(Random& random, const Case& c) {
  constexpr int kLen = 700;
  World world(c, 2000, random);
  auto s = world.sequence(kLen), other = world.sequence(200);
  size_t width = static_cast<size_t>(c.heads) * c.dim;
  std::vector<float> first;
  for (size_t threads : {1, 2, 4}) {
    set_pool_threads(threads);
    auto whole = world.step({{&s, 0, kLen}})[0];
    if (first.empty()) first = whole;
    check(same(whole, first), c.name() + ": the number of threads changes bits");
    int cuts[] = {0, 1, 17, 128, 129, 640, 698, 699, kLen};
    for (int i = 0; i + 1 < 9; ++i) {
      std::vector<float> wanted(first.begin() + cuts[i] * width, first.begin() + cuts[i + 1] * width);
      check(same(world.step({{&s, cuts[i], cuts[i + 1]}})[0], wanted), c.name() + ": a chunk changes bits");
      auto beside = world.step({{&other, 0, 200}, {&s, cuts[i], cuts[i + 1]}, {&other, 30, 31}});
      check(same(beside[1], wanted), c.name() + ": neighbours change bits");
    }
  }
}

bool finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// A number that is none reaches every token that sees it, and no other.
void test_not_finite(Random& random, const Case& c, const Kernels& with) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    for (auto part : {&Sequence::k, &Sequence::v}) {
      World world(c, 100, random);
      auto s = world.sequence(150), other = world.sequence(40);
      auto sound = world.step({{&s, 0, 150}, {&other, 0, 40}}, with);
      (s.*part)[static_cast<size_t>(70) * c.kv_heads * c.dim + 3] = bad;
      auto found = world.step({{&s, 0, 150}, {&other, 0, 40}}, with);
      check(same(found[1], sound[1]), c.name() + ": another row is spoilt");
      int group = c.heads / c.kv_heads;
      for (int t = 0; t < 150; ++t) {
        for (int h = 0; h < c.heads; ++h) {
          auto at = (static_cast<int64_t>(t) * c.heads + h) * c.dim;
          std::vector<float> out(found[0].begin() + at, found[0].begin() + at + c.dim);
          std::vector<float> before(sound[0].begin() + at, sound[0].begin() + at + c.dim);
          if (t >= 70 && h < group) check(!finite(out), c.name() + ": a number that is none is hidden");
          else check(same(out, before), c.name() + ": a token that sees only numbers is spoilt");
        }
      }
    }
  }
}

// A step that names memory that is not there writes nothing.
void test_refusals() {
  std::vector<float> x(64, 1.0f), slab(4 * 16 * 16, 5.0f), out(16);
  auto values = slab;
  for (auto [slot, block, context] : {std::array{64, 0, 0}, {-1, 0, 0}, {0, 4, 0}, {0, -1, 0}, {0, 0, 16}, {0, 0, -1}}) {
    int32_t offsets[] = {0, 1};
    bool refused = false;
    try {
      paged_attention({{1, 1, 1, 1, 16, 4, 16, 1}, {offsets, &context, &slot, &block}, {1, 0, 0, Mask::causal, nullptr},
                       {}, {x.data(), 16}, {x.data(), 16}, {x.data(), 16},
                       {KvType::f32, slab.data(), values.data(), nullptr, nullptr}, out.data()});
    } catch (const std::out_of_range&) {
      refused = true;
    }
    check(refused, "attention: a slot, block or length that is not there is refused");
  }
  auto untouched = [](float value) { return value == 5.0f; };
  check(std::all_of(slab.begin(), slab.end(), untouched) && std::all_of(values.begin(), values.end(), untouched),
        "attention: nothing is written by a step that is refused");
}

}  // namespace

void test_attention() {
  Random random(3);
  std::vector<float> sinks = noise(random, 24);
  sinks[0] = -INFINITY;
  for (KvType type : kTypes) {
    for (const auto& set : instruction_sets()) {
      for (int i = 0; i < 5; ++i) {
        set_pool_threads(1 + i % 3);
        test_case(random, random_case(random, type, sinks), *set.kernels);
      }
      test_not_finite(random, {6, 2, 20, 16, 10, type, {0.2f, 0, 0, Mask::causal, nullptr}}, *set.kernels);
    }
    test_bits(random, {6, 2, 20, 16, 8, type, {0.2f, 0, 0, Mask::causal, nullptr}});
    test_bits(random, {5, 1, 33, 5, 0, type, {0.2f, 2.0f, 150, Mask::causal, sinks.data()}});
    test_not_finite(random, {6, 2, 20, 5, 0, type, {0.2f, 3.0f, 0, Mask::causal, nullptr}}, kernels());
  }
  test_refusals();
  std::printf("attention: passed\n");
}

}  // namespace troupe::test
