// Copies of KV blocks out of a slab and into it. What paged_attention.cc says of slabs holds here too: a copy into one is
// made in place, and its order among the steps is the order of evaluation.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "cpu_node.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

struct Blocks {
  std::vector<int32_t> ids;
  size_t nbytes;  // of one
};

Blocks blocks_of(const char* name, const array& slab, Ints ids) {
  if (slab.ndim() < 2 || slab.size() == 0 || !slab.flags().row_contiguous) {
    throw std::invalid_argument(std::string(name) + ": the slab is not a row-contiguous array of blocks");
  }
  for (int32_t id : ids) {
    if (id >= 0 && id < slab.shape(0)) continue;
    std::ostringstream text;
    text << name << ": block " << id << " of " << slab.shape(0);
    throw std::invalid_argument(text.str());
  }
  return {{ids.begin(), ids.end()}, slab.nbytes() / static_cast<size_t>(slab.shape(0))};
}

mx::Shape shape_of(const array& slab, const Blocks& blocks) {
  auto shape = slab.shape();
  shape[0] = static_cast<int>(blocks.ids.size());
  return shape;
}

}  // namespace

Ptr read_blocks(const array& slab, Ints ids) {
  auto blocks = blocks_of("[read_blocks]", slab, ids);
  auto shape = shape_of(slab, blocks);
  auto copy = [blocks = std::move(blocks)](Arrays& in, Arrays& outs) {
    const auto* from = in[0].data<char>();
    auto* to = outs[0].data<char>();
    for (int32_t id : blocks.ids) {
      std::memcpy(to, from + static_cast<size_t>(id) * blocks.nbytes, blocks.nbytes);
      to += blocks.nbytes;
    }
  };
  return ptr(cpu_node("read_blocks", {NodeOutput{std::move(shape), slab.dtype()}}, {slab}, std::move(copy))[0]);
}

Ptr write_blocks(const array& slab, Ints ids, const array& contents) {
  auto blocks = blocks_of("[write_blocks]", slab, ids);
  if (contents.dtype() != slab.dtype() || contents.shape() != shape_of(slab, blocks)) {
    std::ostringstream text;
    text << "[write_blocks] the contents are " << contents.dtype() << contents.shape() << ", not " << slab.dtype()
         << shape_of(slab, blocks);
    throw std::invalid_argument(text.str());
  }
  auto copy = [blocks = std::move(blocks)](Arrays& in, Arrays& outs) {
    auto* to = const_cast<char*>(in[0].data<char>());
    const auto* from = in[1].data<char>();
    for (int32_t id : blocks.ids) {
      std::memcpy(to + static_cast<size_t>(id) * blocks.nbytes, from, blocks.nbytes);
      from += blocks.nbytes;
    }
    *outs[0].data<float>() = static_cast<float>(blocks.ids.size());
  };
  return ptr(cpu_node("write_blocks", {NodeOutput{{1}, mx::float32}}, {slab, mx::contiguous(contents)},
                      std::move(copy))[0]);
}

}  // namespace troupe
