#pragma once

#include <vector>

#include "cpu/row_kernels.h"
#include "mlx/mlx.h"

namespace troupe {

// The rows (last axis) of an array: where they lie if each is dense and they are evenly apart, as the columns of a
// fused projection are, else in a copy.
class DenseRows {
 public:
  explicit DenseRows(const mlx::core::array& a) : width_(a.shape(-1)) {
    const auto* data = a.data<float>();
    if (a.strides(-1) == 1 && evenly_apart(a)) {
      view_ = {data, a.ndim() > 1 ? a.strides(-2) : width_};
      return;
    }
    copy_.reserve(a.size());
    gather(a, 0, data);
    view_ = {copy_.data(), width_};
  }

  Rows view() const { return view_; }

 private:
  static bool evenly_apart(const mlx::core::array& a) {
    for (int axis = static_cast<int>(a.ndim()) - 3; axis >= 0; --axis) {
      if (a.strides(axis) != a.strides(axis + 1) * a.shape(axis + 1)) return false;
    }
    return true;
  }

  void gather(const mlx::core::array& a, int axis, const float* from) {
    if (axis == static_cast<int>(a.ndim())) return copy_.push_back(*from);
    for (int i = 0; i < a.shape(axis); ++i) gather(a, axis + 1, from + i * a.strides(axis));
  }

  int64_t width_;
  Rows view_{};
  std::vector<float> copy_;
};

}  // namespace troupe
