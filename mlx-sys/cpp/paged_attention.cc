// The MLX primitive around the paged attention kernel.
//
// Contract, because MLX's graphs are pure and this node is not: the buffers of the slabs and of their scales are
// written in place. The engine owns them, gives each layer its own, evaluates the steps of one stream in the order in
// which it submits them, and nothing but this primitive and those of block_copy.cc reads or writes a slab meanwhile. The slabs are evaluated
// arrays that the engine keeps a handle to, so MLX neither moves nor donates their buffers.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <sstream>
#include <stdexcept>

#include "cpu/attention_kernel.h"
#include "cpu_node.h"
#include "dense_rows.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// The inputs in order. Those from kKeyScales on are there if their option says so.
enum Input {
  kQ, kK, kV, kKeys, kValues, kRowOffsets, kContextLens, kSlotMapping, kBlockTables, kKeyScales, kValueScales, kCos,
  kSin, kSinks, kInputs
};
constexpr const char* kNames[kInputs] = {
    "q", "k", "v", "the key slab", "the value slab", "row_offsets", "context_lens", "slot_mapping", "block_tables",
    "the key scales", "the value scales", "cos", "sin", "sinks"};

// The inputs that are there, by name.
class Inputs {
 public:
  Inputs(const Arrays& given, const AttentionOptions& options) : given_(given) {
    size_t next = 0;
    for (int i = 0; i < kInputs; ++i) {
      bool there = (i != kKeyScales && i != kValueScales) || options.scaled;
      if (i == kCos || i == kSin) there = options.rotated;
      if (i == kSinks) there = options.sinks;
      at_[i] = there ? static_cast<int>(next++) : -1;
    }
    if (given.size() != next) throw std::invalid_argument("[paged_attention] takes " + std::to_string(next) + " arrays");
  }

  bool has(Input i) const { return at_[i] >= 0; }
  size_t index(Input i) const { return static_cast<size_t>(at_[i]); }
  const array& operator[](Input i) const { return given_[index(i)]; }

 private:
  const Arrays& given_;
  int at_[kInputs];
};

bool kv_type(mx::Dtype dtype, KvType& type) {
  if (dtype == mx::float32) type = KvType::f32;
  else if (dtype == mx::float16) type = KvType::f16;
  else if (dtype == mx::bfloat16) type = KvType::bf16;
  else if (dtype == mx::int8) type = KvType::i8;
  else return false;
  return true;
}

[[noreturn]] void refuse(Input which, const array& a, const std::string& wanted) {
  std::ostringstream text;
  text << "[paged_attention] " << kNames[which] << " is " << a.dtype() << a.shape() << ", not " << wanted;
  throw std::invalid_argument(text.str());
}

void want(const Inputs& in, Input which, mx::Dtype dtype, const mx::Shape& shape) {
  if (!in.has(which) || (in[which].dtype() == dtype && in[which].shape() == shape)) return;
  std::ostringstream wanted;
  wanted << dtype << shape;
  refuse(which, in[which], wanted.str());
}

void want_axes(const Inputs& in, Input which, size_t axes, const char* wanted) {
  if (in.has(which) && in[which].ndim() != axes) refuse(which, in[which], wanted);
}

void want_columns(const Inputs& in, Input which, int first, int count) {
  const auto& a = in[which];
  bool fits = a.dtype() == mx::float32 && a.ndim() == 2 && a.shape(0) == in[kQ].shape(0) && first >= 0 &&
              count <= a.shape(1) && first <= a.shape(1) - count;
  if (fits) return;
  std::ostringstream wanted;
  wanted << "float32 [" << (in[kQ].ndim() > 0 ? in[kQ].shape(0) : 0) << ", width] with " << count << " columns from "
         << first << " on";
  refuse(which, a, wanted.str());
}

void check(const Inputs& in, const AttentionOptions& options) {
  want_axes(in, kKeys, 4, "of four axes");
  want_axes(in, kValues, 4, "of four axes");
  want_axes(in, kContextLens, 1, "of one axis");
  want_axes(in, kBlockTables, 2, "of two axes");
  want_axes(in, kCos, 2, "of two axes");
  const auto& values = in[kValues].shape();
  int blocks = values[0], kv_heads = values[1], block_size = values[2], dim = values[3], heads = options.heads;
  auto dtype = in[kKeys].dtype();
  KvType type;
  if (!kv_type(dtype, type)) refuse(kKeys, in[kKeys], "of float32, float16, bfloat16 or int8");
  if (options.scaled != (type == KvType::i8)) refuse(kKeys, in[kKeys], "of a type that goes with its scales");
  want(in, kKeys, dtype, {blocks, kv_heads, dim, block_size});
  want(in, kValues, dtype, values);
  want(in, kKeyScales, mx::float32, {blocks, kv_heads, block_size});
  want(in, kValueScales, mx::float32, {blocks, kv_heads, block_size});
  if (block_size == 0) refuse(kValues, in[kValues], "blocks of at least one token");
  if (kv_heads == 0 || heads <= 0 || heads % kv_heads != 0) {
    refuse(kValues, in[kValues], "of a number of heads that divides " + std::to_string(heads));
  }
  want_columns(in, kQ, options.q_first, heads * dim);
  want_columns(in, kK, options.k_first, kv_heads * dim);
  want_columns(in, kV, options.v_first, kv_heads * dim);
  int tokens = in[kQ].shape(0), rows = in[kContextLens].shape(0);
  want(in, kRowOffsets, mx::int32, {rows + 1});
  want(in, kContextLens, mx::int32, {rows});
  want(in, kSlotMapping, mx::int32, {tokens});
  want(in, kBlockTables, mx::int32, {rows, in[kBlockTables].shape(1)});
  want(in, kSinks, mx::float32, {heads});
  if (!in.has(kCos)) return;
  int half = in[kCos].shape(1);
  if (half > dim / 2) refuse(kCos, in[kCos], "of at most " + std::to_string(dim / 2) + " columns");
  want(in, kCos, mx::float32, {tokens, half});
  want(in, kSin, mx::float32, {tokens, half});
}

// The buffer of an array that is read or written where it lies.
template <typename T>
T* buffer(const Inputs& in, Input which) {
  if (!in.has(which)) return nullptr;
  if (!in[which].flags().row_contiguous) {
    throw std::invalid_argument(std::string("[paged_attention] ") + kNames[which] + " is not row-contiguous");
  }
  return const_cast<T*>(in[which].data<T>());
}

Rows columns(const DenseRows& rows, int first) { return {rows.view().data + first, rows.view().stride}; }

KvSlabs slabs(const Inputs& in) {
  KvSlabs slabs{KvType::f32, buffer<char>(in, kKeys), buffer<char>(in, kValues), buffer<float>(in, kKeyScales),
                buffer<float>(in, kValueScales)};
  kv_type(in[kKeys].dtype(), slabs.type);
  return slabs;
}

void run(const Inputs& in, const AttentionOptions& options, array& out) {
  const auto& values = in[kValues].shape();
  DenseRows q(in[kQ]), k(in[kK]), v(in[kV]);
  // Without angles, views of something that is there; they are not read.
  DenseRows cos(in[in.has(kCos) ? kCos : kQ]), sin(in[in.has(kSin) ? kSin : kQ]);
  paged_attention(PagedCall{
      .shape = {.tokens = in[kQ].shape(0),
                .rows = in[kContextLens].shape(0),
                .heads = options.heads,
                .kv_heads = values[1],
                .dim = values[3],
                .num_blocks = values[0],
                .block_size = values[2],
                .max_blocks = in[kBlockTables].shape(1)},
      .batch = {buffer<int32_t>(in, kRowOffsets), buffer<int32_t>(in, kContextLens), buffer<int32_t>(in, kSlotMapping),
                buffer<int32_t>(in, kBlockTables)},
      .options = {options.scale, options.softcap, options.window,
                  options.bidirectional ? Mask::bidirectional : Mask::causal, buffer<float>(in, kSinks)},
      .angles = {in.has(kCos) ? in[kCos].shape(1) : 0, cos.view(), sin.view()},
      .q = columns(q, options.q_first),
      .k = columns(k, options.k_first),
      .v = columns(v, options.v_first),
      .slabs = slabs(in),
      .out = out.data<float>(),
  });
}

// Arrays made from host data are contiguous already; others get a node that makes them so.
array dense(const array& a) {
  return a.status() != array::Status::unscheduled && a.flags().row_contiguous ? a : mx::contiguous(a);
}

}  // namespace

Ptr paged_attention(const Arrays& inputs, const AttentionOptions& options) {
  Inputs named(inputs, options);
  check(named, options);
  mx::Shape shape{named[kQ].shape(0), options.heads * named[kValues].shape(3)};
  if (shape[0] == 0 || shape[1] == 0) return ptr(mx::zeros(shape, mx::float32));
  Arrays in = inputs;
  for (Input i : {kRowOffsets, kContextLens, kSlotMapping, kBlockTables, kSinks}) {
    if (named.has(i)) in[named.index(i)] = dense(named[i]);
  }
  return ptr(cpu_node("paged_attention", std::move(shape), std::move(in),
                      [options](Arrays& inputs, array& out) { run(Inputs(inputs, options), options, out); }));
}

}  // namespace troupe
