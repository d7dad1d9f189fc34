// Making, reading and evaluating arrays.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include "cpu_node.h"
#include "large_pages.h"

#include <cstring>
#include <iterator>
#include <stdexcept>

#include "cpu/pool.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// The order of `Dtype` in src/dtype.rs.
constexpr mx::Dtype kDtypes[] = {mx::bool_,  mx::uint8,  mx::int8,   mx::uint16,  mx::int16,    mx::uint32,
                                 mx::int32,  mx::uint64, mx::int64,  mx::float16, mx::bfloat16, mx::float32};

// Every program has this file. Without a reference to libtroupe_cpu from it, the linker drops that library from
// programs that name none of its functions, and MLX's products fall back to the BLAS that MLX was linked to.
[[gnu::used, gnu::retain]] constexpr auto kKeepLibrary = &pool_threads;

size_t bytes_of(const mx::Shape& shape, mx::Dtype dtype) {
  size_t bytes = dtype.size();
  for (auto dim : shape) {
    if (dim < 0) throw std::invalid_argument("a dimension is negative");
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes)) {
      throw std::invalid_argument("an array of this shape does not fit the address space");
    }
  }
  return bytes;
}

}  // namespace

mx::Dtype to_dtype(uint8_t code) { return kDtypes[code]; }

uint8_t dtype_of(const array& a) {
  for (uint8_t code = 0; code < std::size(kDtypes); ++code) {
    if (kDtypes[code] == a.dtype()) return code;
  }
  return UINT8_MAX;
}

Ptr uninit(Ints dims, uint8_t code) {
  auto shape = to_shape(dims);
  auto dtype = to_dtype(code);
  auto bytes = bytes_of(shape, dtype);
  array out(mx::allocator::malloc(bytes), std::move(shape), dtype);
  if (on_cpu()) use_large_pages(out.data<uint8_t>(), bytes);
  return ptr(std::move(out));
}

Ptr from_bytes(rust::Slice<const uint8_t> bytes, Ints dims, uint8_t code) {
  auto out = uninit(dims, code);
  if (out->nbytes() != bytes.size()) throw std::invalid_argument("the data does not have the size of its shape");
  if (!bytes.empty()) std::memcpy(out->data<uint8_t>(), bytes.data(), bytes.size());
  return out;
}

Ptr from_host(rust::Box<HostBuffer> owner, Ints dims, uint8_t code) {
  auto address = reinterpret_cast<void*>(owner->address());
  // std::function wants something that can be copied.
  auto shared = std::make_shared<rust::Box<HostBuffer>>(std::move(owner));
  return ptr(array(address, to_shape(dims), to_dtype(code), [shared](void*) mutable { shared.reset(); }));
}

Ptr full(Ints shape, const array& value, uint8_t dtype) {
  auto dims = to_shape(shape);
  bytes_of(dims, to_dtype(dtype));
  return ptr(mx::full(std::move(dims), value, to_dtype(dtype)));
}

Ptr arange(double start, double stop, double step, uint8_t dtype) {
  return ptr(mx::arange(start, stop, step, to_dtype(dtype)));
}

Ptr clone_handle(const array& a) { return ptr(a); }

Ints shape_of(const array& a) {
  const auto& shape = a.shape();
  // An empty cxx slice must not carry a null pointer of its own; the default one is right.
  return shape.empty() ? Ints() : Ints(&*shape.begin(), shape.size());
}

size_t size_of(const array& a) { return a.size(); }

bool available(const array& a) { return a.is_available(); }

void wait(const array& a) {
  array handle = a;
  handle.eval();
}

void read_bytes(const array& a, rust::Slice<uint8_t> out) {
  if (out.size() != a.nbytes()) throw std::invalid_argument("the buffer does not have the size of the array");
  if (out.empty()) return;
  array dense = a;
  dense.eval();
  if (!dense.flags().row_contiguous) {
    dense = mx::contiguous(a);
    dense.eval();
  }
  std::memcpy(out.data(), dense.data<uint8_t>(), out.size());
}

void push(Arrays& list, const array& a) { list.push_back(a); }
void eval(const Arrays& list) { mx::eval(list); }
void async_eval(const Arrays& list) { mx::async_eval(list); }

}  // namespace troupe
