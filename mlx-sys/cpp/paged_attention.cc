// The MLX primitive around the paged attention kernel.
//
// Contract, because MLX's graphs are pure and this node is not: the buffers of `k_slab` and `v_slab` are written in
// place. The engine owns the slabs, gives each layer its own, evaluates the steps of one stream in the order in which
// it submits them, and nothing but this primitive reads or writes a slab meanwhile. The slabs are evaluated arrays
// that the engine keeps a handle to, so MLX neither moves nor donates their buffers.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <sstream>
#include <stdexcept>

#include "cpu/attention_kernel.h"
#include "cpu_node.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// The order of the inputs.
enum Input { kQ, kK, kV, kKSlab, kVSlab, kRowOffsets, kContextLens, kSlotMapping, kBlockTables, kInputs };
constexpr const char* kNames[kInputs] = {"q",           "k",            "v",            "k_slab",      "v_slab",
                                         "row_offsets", "context_lens", "slot_mapping", "block_tables"};

Heads heads_of(const array& a) { return {a.data<float>(), a.strides(0), a.strides(1), a.strides(2)}; }

void run(Arrays& in, array& out, PagedScores scores) {
  for (int i = kKSlab; i < kInputs; ++i) {
    if (!in[i].flags().row_contiguous) {
      throw std::invalid_argument(std::string("[paged_attention] ") + kNames[i] + " is not row-contiguous");
    }
  }
  const auto& slab = in[kKSlab].shape();
  paged_attention(PagedCall{
      .shape = {.tokens = in[kQ].shape(0),
                .rows = in[kContextLens].shape(0),
                .heads = in[kQ].shape(1),
                .kv_heads = slab[2],
                .dim = slab[3],
                .num_blocks = slab[0],
                .block_size = slab[1],
                .max_blocks = in[kBlockTables].shape(1)},
      .batch = {in[kRowOffsets].data<int32_t>(), in[kContextLens].data<int32_t>(), in[kSlotMapping].data<int32_t>(),
                in[kBlockTables].data<int32_t>()},
      .scores = scores,
      .q = heads_of(in[kQ]),
      .k = heads_of(in[kK]),
      .v = heads_of(in[kV]),
      .k_slab = in[kKSlab].data<float>(),
      .v_slab = in[kVSlab].data<float>(),
      .out = out.data<float>(),
  });
}

[[noreturn]] void refuse(Input which, const array& a, const std::string& wanted) {
  std::ostringstream text;
  text << "[paged_attention] " << kNames[which] << " is " << a.dtype() << a.shape() << ", not " << wanted;
  throw std::invalid_argument(text.str());
}

void want(const Arrays& in, Input which, mx::Dtype dtype, const mx::Shape& shape) {
  if (in[which].dtype() == dtype && in[which].shape() == shape) return;
  std::ostringstream wanted;
  wanted << dtype << shape;
  refuse(which, in[which], wanted.str());
}

void check(const Arrays& in) {
  if (in[kQ].ndim() != 3) refuse(kQ, in[kQ], "of three axes");
  if (in[kKSlab].ndim() != 4) refuse(kKSlab, in[kKSlab], "of four axes");
  if (in[kContextLens].ndim() != 1) refuse(kContextLens, in[kContextLens], "of one axis");
  if (in[kBlockTables].ndim() != 2) refuse(kBlockTables, in[kBlockTables], "of two axes");
  const auto &q = in[kQ].shape(), &slab = in[kKSlab].shape();
  auto rows = in[kContextLens].shape(0);
  want(in, kKSlab, mx::float32, slab);
  want(in, kVSlab, mx::float32, slab);
  want(in, kQ, mx::float32, {q[0], q[1], slab[3]});
  want(in, kK, mx::float32, {q[0], slab[2], slab[3]});
  want(in, kV, mx::float32, {q[0], slab[2], slab[3]});
  want(in, kRowOffsets, mx::int32, {rows + 1});
  want(in, kContextLens, mx::int32, {rows});
  want(in, kSlotMapping, mx::int32, {q[0]});
  want(in, kBlockTables, mx::int32, {rows, in[kBlockTables].shape(1)});
  if (slab[1] == 0) refuse(kKSlab, in[kKSlab], "blocks of at least one token");
  if (slab[2] == 0 || q[1] % slab[2] != 0) refuse(kQ, in[kQ], "a multiple of the heads of the slab");
}

// Arrays made from host data are contiguous already; others get a node that makes them so.
array dense(const array& a) {
  return a.status() != array::Status::unscheduled && a.flags().row_contiguous ? a : mx::contiguous(a);
}

}  // namespace

Ptr paged_attention(const Arrays& inputs, const AttentionOptions& options) {
  if (inputs.size() != kInputs) throw std::invalid_argument("[paged_attention] takes nine arrays");
  check(inputs);
  Arrays in = inputs;
  for (int i = kRowOffsets; i < kInputs; ++i) in[i] = dense(in[i]);
  auto shape = in[kQ].shape();
  if (in[kQ].size() == 0) return ptr(mx::zeros(shape, mx::float32));
  PagedScores scores{options.scale, options.window, options.softcap};
  return ptr(cpu_node("paged_attention", std::move(shape), std::move(in),
                      [scores](Arrays& inputs, array& out) { run(inputs, out, scores); }));
}

}  // namespace troupe
