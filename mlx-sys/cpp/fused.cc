// Operations between products as one node each: our kernels for f32 on the CPU, else a graph of stock operations.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <sstream>
#include <stdexcept>

#include "cpu/row_kernels.h"
#include "cpu_node.h"
#include "dense_rows.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

bool plain(const array& a) { return a.dtype() == mx::float32; }

[[noreturn]] void refuse(const std::string& what, const array& a, const array& b) {
  std::ostringstream text;
  text << what << ": " << a.shape() << " and " << b.shape();
  throw std::invalid_argument(text.str());
}

}  // namespace

Ptr rms_norm(const array& x, const array* weight, float eps) {
  bool ours = on_cpu() && plain(x) && x.ndim() > 0 && x.size() > 0 && (!weight || plain(*weight));
  if (!ours) return ptr(mx::fast::rms_norm(x, maybe(weight), eps));
  if (weight && weight->shape() != mx::Shape{x.shape(-1)}) {
    refuse("[rms_norm] the weight does not fit the last axis", x, *weight);
  }
  Arrays inputs{x};
  if (weight) inputs.push_back(*weight);
  return ptr(cpu_node("rms_norm", x.shape(), std::move(inputs), [eps](Arrays& in, array& out) {
    DenseRows rows(in[0]), scale(in.back());
    int n = out.shape(-1);
    const float* weight = in.size() > 1 ? scale.view().data : nullptr;
    norm_rows({NormKind::rms, weight, nullptr, eps}, static_cast<int64_t>(out.size()) / n, n, rows.view(),
              out.data<float>());
  }));
}

Ptr swiglu(const array& gate, const array& up) {
  if (gate.shape() != up.shape()) refuse("[swiglu] gate and up have different shapes", gate, up);
  if (!on_cpu() || !plain(gate) || !plain(up) || gate.ndim() == 0 || gate.size() == 0) {
    return ptr(mx::multiply(mx::multiply(gate, mx::sigmoid(gate)), up));
  }
  return ptr(cpu_node("swiglu", gate.shape(), {gate, up}, [](Arrays& in, array& out) {
    DenseRows gates(in[0]), ups(in[1]);
    int n = out.shape(-1);
    silu_times(static_cast<int64_t>(out.size()) / n, n, gates.view(), ups.view(), out.data<float>());
  }));
}

namespace {

array rotate_graph(const array& x, const array& cos, const array& sin, int half) {
  auto end = x.shape();
  auto part = [&](int from, int to) {
    auto start = mx::Shape(x.ndim(), 0), stop = end;
    start.back() = from;
    stop.back() = to;
    return mx::slice(x, start, stop);
  };
  auto a = part(0, half), b = part(half, 2 * half), rest = part(2 * half, end.back());
  auto c = mx::astype(mx::expand_dims(cos, 1), x.dtype()), s = mx::astype(mx::expand_dims(sin, 1), x.dtype());
  return mx::concatenate({mx::subtract(mx::multiply(a, c), mx::multiply(b, s)),
                          mx::add(mx::multiply(b, c), mx::multiply(a, s)), rest},
                         -1);
}

}  // namespace

Ptr rotate_half(const array& x, const array& cos, const array& sin) {
  if (x.ndim() != 3 || cos.ndim() != 2 || cos.shape() != sin.shape() || cos.shape(0) != x.shape(0) ||
      2 * cos.shape(1) > x.shape(2)) {
    refuse("[rotate_half] x is [tokens, heads, dim], cos and sin are [tokens, at most dim / 2]", x, cos);
  }
  int half = cos.shape(1);
  bool ours = on_cpu() && plain(x) && plain(cos) && plain(sin) && x.size() > 0;
  if (!ours) return ptr(rotate_graph(x, cos, sin, half));
  return ptr(cpu_node("rotate_half", x.shape(), {x, cos, sin}, [half](Arrays& in, array& out) {
    const auto& x = in[0];
    DenseRows cosines(in[1]), sines(in[2]);
    Heads heads{x.data<float>(), x.strides(0), x.strides(1), x.strides(2)};
    rotate({out.shape(0), out.shape(1), out.shape(2), half, heads, cosines.view(), sines.view(), out.data<float>()});
  }));
}

}  // namespace troupe
