// Linear layers of our kernels as graph nodes, with what stands around them.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <sstream>
#include <stdexcept>
#include <string>

#include "cpu/projection.h"
#include "cpu_node.h"
#include "dense_rows.h"
#include "matrix.h"

namespace troupe {
namespace mx = mlx::core;

namespace {

// Which of the arrays that follow x and the matrix is what; -1: absent. They come in this order.
struct Places {
  int norm_weight = -1, norm_bias = -1, bias = -1, residual = -1;

  explicit Places(const Fusion& fusion) {
    int next = 2;
    if (fusion.norm_weight) norm_weight = next++;
    if (fusion.norm_bias) norm_bias = next++;
    if (fusion.bias) bias = next++;
    if (fusion.residual) residual = next++;
    end = next;
  }

  int end;
};

NormKind kind_of(NormType type) {
  switch (type) {
    case NormType::Absent: return NormKind::none;
    case NormType::Rms: return NormKind::rms;
    case NormType::Layer: return NormKind::layer;
  }
  throw std::logic_error("unknown norm");
}

Gate gate_of(GateType type) {
  switch (type) {
    case GateType::Absent: return Gate::none;
    case GateType::Silu: return Gate::silu;
    case GateType::GeluTanh: return Gate::gelu_tanh;
  }
  throw std::logic_error("unknown gate");
}

void expect(const char* what, const array& a, const mx::Shape& wanted) {
  if (a.shape() == wanted && a.dtype() == mx::float32) return;
  std::ostringstream text;
  text << "[projection] " << what << " is " << a.dtype() << a.shape() << ", not float32" << wanted;
  throw std::invalid_argument(text.str());
}

mx::Shape output_shape(const array& x, int n, int k, const Fusion& fusion) {
  if (x.ndim() == 0 || x.shape(-1) != k) {
    std::ostringstream text;
    text << "[projection] the last axis of x " << x.shape() << " is not " << k;
    throw std::invalid_argument(text.str());
  }
  if (fusion.gate != GateType::Absent && n % 2 != 0) {
    throw std::invalid_argument("[projection] gate and up are " + std::to_string(n) + " outputs, an odd number");
  }
  auto shape = x.shape();
  shape.back() = fusion.gate == GateType::Absent ? n : n / 2;
  return shape;
}

// Everything but x and the matrix, as the kernels read it. Keeps copies of what lies badly.
class Surroundings {
 public:
  Surroundings(const Fusion& fusion, const Places& places, const Arrays& in) {
    norm = {kind_of(fusion.norm), vector(in, places.norm_weight), vector(in, places.norm_bias), fusion.eps};
    epilogue = {vector(in, places.bias), gate_of(fusion.gate), {}};
    if (places.residual >= 0) epilogue.residual = kept_.emplace_back(in[places.residual]).view();
  }

  Norm norm;
  Epilogue epilogue;

 private:
  const float* vector(const Arrays& in, int place) {
    return place < 0 ? nullptr : kept_.emplace_back(in[place]).view().data;
  }

  std::vector<DenseRows> kept_ = reserved();

  static std::vector<DenseRows> reserved() {
    std::vector<DenseRows> rows;
    rows.reserve(4);
    return rows;
  }
};

int rows_of(const array& x) { return x.shape(-1) == 0 ? 0 : static_cast<int>(x.size() / x.shape(-1)); }

// A node of x, a matrix [n, k] and the rest; `matrix` makes the kernels' matrix of the evaluated array.
template <typename Matrix>
Ptr projection(const array& x, const array& weights, int n, int k, const Fusion& fusion, const Arrays& rest,
               Matrix matrix) {
  auto shape = output_shape(x, n, k, fusion);
  Places places(fusion);
  if (static_cast<size_t>(places.end - 2) != rest.size()) {
    throw std::invalid_argument("[projection] the arrays do not fit the options");
  }
  Arrays inputs{mx::astype(x, mx::float32), weights};
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  if (places.norm_weight >= 0) expect("the norm's weight", inputs[places.norm_weight], {k});
  if (places.norm_bias >= 0) expect("the norm's bias", inputs[places.norm_bias], {k});
  if (places.bias >= 0) expect("the bias", inputs[places.bias], {n});
  if (places.residual >= 0) expect("the residual", inputs[places.residual], shape);
  auto name = "product " + std::to_string(n) + " x " + std::to_string(k);
  return ptr(cpu_node(std::move(name), std::move(shape), std::move(inputs), [=](Arrays& in, array& out) {
    if (out.size() == 0) return;
    DenseRows rows(in[0]);
    Surroundings around(fusion, places, in);
    FloatRows x{rows_of(in[0]), rows.view().data, rows.view().stride};
    project(matrix(in[1]), around.norm, x, around.epilogue, out.data<float>());
  }));
}

}  // namespace

Ptr packed_projection(const array& x, const array& data, const PackedLayout& layout, Activations activations,
                      const Fusion& fusion, const Arrays& rest) {
  auto shape = packed_shape(layout);
  auto type = activation_type(activations);
  return projection(x, data, shape.n, shape.k, fusion, rest, [shape, type](const array& data) {
    return QuantizedMatrix{packed_matrix(data, shape), type};
  });
}

Ptr dense_projection(const array& x, const array& data, const DenseLayout& layout, const Fusion& fusion,
                     const Arrays& rest) {
  auto shape = dense_shape(layout);
  return projection(x, data, shape.n, shape.k, fusion, rest,
                    [shape](const array& data) { return dense_panels(data, shape); });
}

bool has_linear(const array& x, const array& w) {
  return on_cpu() && x.dtype() == mx::float32 && x.ndim() > 0 && w.ndim() == 2 && number_of(w.dtype());
}

Ptr linear_projection(const array& x, const array& w, const Fusion& fusion, const Arrays& rest) {
  if (!has_linear(x, w)) throw std::invalid_argument("[projection] no kernel takes these types");
  auto number = *number_of(w.dtype());
  int n = w.shape(0), k = w.shape(1);
  auto dense = w.is_available() && w.flags().row_contiguous ? w : mx::contiguous(w);
  return projection(x, dense, n, k, fusion, rest, [n, k, number](const array& w) {
    return DenseMatrix{n, k, w.data<uint8_t>(), number};
  });
}

}  // namespace troupe
