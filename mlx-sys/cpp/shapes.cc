// Layout, joining, cutting and indexing.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>

namespace troupe {
namespace mx = mlx::core;

Ptr layout(Layout op, const array& a, Ints numbers) {
  switch (op) {
    case Layout::BroadcastTo: return ptr(mx::broadcast_to(a, to_shape(numbers)));
    case Layout::ExpandDims: return ptr(mx::expand_dims(a, to_vector(numbers)));
    case Layout::Reshape: return ptr(mx::reshape(a, to_shape(numbers)));
    case Layout::Squeeze: return ptr(mx::squeeze(a, to_vector(numbers)));
    case Layout::Transpose: return ptr(mx::transpose(a, to_vector(numbers)));
  }
  throw std::logic_error("unknown layout operation");
}

Ptr swapaxes(const array& a, int32_t first, int32_t second) { return ptr(mx::swapaxes(a, first, second)); }
Ptr flatten(const array& a, int32_t start, int32_t end) { return ptr(mx::flatten(a, start, end)); }
Ptr concatenate(const Arrays& list, int32_t axis) { return ptr(mx::concatenate(list, axis)); }
Ptr stack(const Arrays& list, int32_t axis) { return ptr(mx::stack(list, axis)); }

std::unique_ptr<Arrays> split(const array& a, Ints at, int32_t axis) {
  return std::make_unique<Arrays>(mx::split(a, to_shape(at), axis));
}

Ptr slice(const array& a, Ints start, Ints stop, Ints strides) {
  return ptr(mx::slice(a, to_shape(start), to_shape(stop), to_shape(strides)));
}

Ptr slice_update(const array& a, const array& update, Ints start, Ints stop) {
  return ptr(mx::slice_update(a, update, to_shape(start), to_shape(stop)));
}

Ptr take(const array& a, const array& indices, int32_t axis) { return ptr(mx::take(a, indices, axis)); }

Ptr take_along_axis(const array& a, const array& indices, int32_t axis) {
  return ptr(mx::take_along_axis(a, indices, axis));
}

Ptr put_along_axis(const array& a, const array& indices, const array& values, int32_t axis) {
  return ptr(mx::put_along_axis(a, indices, values, axis));
}

// MLX's scatter wants one leading axis of `updates` for each axis of the indices, then a slice of `a` whose scattered
// axis is 1: [n, ...] becomes [n, 1, ...].
Ptr scatter_rows(const array& a, const array& indices, const array& updates, bool add) {
  auto slices = mx::expand_dims(updates, 1);
  return ptr(add ? mx::scatter_add(a, indices, slices, 0) : mx::scatter(a, indices, slices, 0));
}

}  // namespace troupe
