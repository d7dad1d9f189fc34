// Quantised matrices in a form of our own: made from MLX's, and read by rows.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>
#include <string>

#include "cpu/packed.h"
#include "cpu/pool.h"
#include "cpu_node.h"
#include "matrix.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace troupe {
namespace mx = mlx::core;

std::optional<Number> number_of(mx::Dtype dtype) {
  if (dtype == mx::float32) return Number::f32;
  if (dtype == mx::float16) return Number::f16;
  if (dtype == mx::bfloat16) return Number::bf16;
  return std::nullopt;
}

PackedShape packed_shape(const PackedLayout& layout) {
  auto number = number_of(to_dtype(layout.scales));
  if (!number) throw std::invalid_argument("[packed] scales are f32, f16 or bf16");
  return {layout.rows, layout.columns, layout.group_size, layout.bits, *number};
}

ActivationType activation_type(Activations activations) {
  switch (activations) {
    case Activations::Int8: return ActivationType::int8;
    case Activations::Int16: return ActivationType::int16;
    case Activations::F32: return ActivationType::f32;
  }
  throw std::logic_error("unknown type of activations");
}

namespace {

// MLX's allocator gives no alignment that would do, so the buffer has room to spare.
uint8_t* aligned(uint8_t* data) {
  auto address = reinterpret_cast<uintptr_t>(data);
  return data + (kVector - address % kVector) % kVector;
}

}  // namespace

PackedMatrix packed_matrix(const array& data, const PackedShape& shape) {
  return {shape, aligned(const_cast<uint8_t*>(data.data<uint8_t>()))};
}

namespace {

// Weights are read from one end to the other every step: large pages spare the translation of their addresses.
void advise_large_pages(uint8_t* data, size_t bytes) {
#if defined(__linux__)
  constexpr uintptr_t kLarge = 2 << 20;
  auto first = (reinterpret_cast<uintptr_t>(data) + kLarge - 1) / kLarge * kLarge;
  auto last = (reinterpret_cast<uintptr_t>(data) + bytes) / kLarge * kLarge;
  // Where the kernel refuses, small pages do.
  if (first < last) static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
#endif
}

array evaluated(const array& a) {
  auto dense = mx::contiguous(a);
  dense.eval();
  return dense;
}

void expect_shape(const array& a, mx::Shape wanted, mx::Dtype dtype) {
  if (a.shape() != wanted || a.dtype() != dtype) {
    throw std::invalid_argument("[packed] the arrays do not fit the packing");
  }
}

int64_t checked_id(int32_t id, int rows) {
  if (id < 0 || id >= rows) {
    throw std::out_of_range("[packed_rows] row " + std::to_string(id) + " of " + std::to_string(rows));
  }
  return id;
}

}  // namespace

bool can_pack(const PackedLayout& layout) {
  return on_cpu() && number_of(to_dtype(layout.scales)) && can_pack(packed_shape(layout));
}

Ptr pack_affine(const array& packed, const array& scales, const array& biases, const PackedLayout& layout) {
  auto shape = packed_shape(layout);
  if (!can_pack(shape)) throw std::invalid_argument("[packed] no kernel takes this packing");
  expect_shape(packed, {shape.n, shape.k / 32 * shape.bits}, mx::uint32);
  expect_shape(scales, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  expect_shape(biases, {shape.n, shape.k / shape.group}, to_dtype(layout.scales));
  auto elements = evaluated(packed), s = evaluated(scales), b = evaluated(biases);

  auto bytes = packed_bytes(shape) + kVector;
  // Two axes, since one would be too long for the largest of matrices.
  array out(mx::allocator::malloc(bytes), {static_cast<int>(bytes / kVector), kVector}, mx::uint8);
  advise_large_pages(out.data<uint8_t>(), bytes);
  pack({shape, elements.data<uint8_t>(), s.data<uint8_t>(), b.data<uint8_t>()}, aligned(out.data<uint8_t>()));
  return ptr(std::move(out));
}

Ptr packed_rows(const array& ids, const array& data, const PackedLayout& layout) {
  auto shape = packed_shape(layout);
  auto out = ids.shape();
  out.push_back(shape.k);
  auto input = mx::contiguous(mx::astype(ids, mx::int32));
  return ptr(cpu_node("packed_rows", std::move(out), {input, data}, [shape](Arrays& in, array& out) {
    auto matrix = packed_matrix(in[1], shape);
    const auto* ids = in[0].data<int32_t>();
    for (size_t i = 0; i < in[0].size(); ++i) checked_id(ids[i], shape.n);
    parallel_for(in[0].size(), [&](size_t i) { packed_row(matrix, ids[i], out.data<float>() + i * shape.k); });
  }));
}

}  // namespace troupe
