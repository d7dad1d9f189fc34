// Arithmetic, comparison, folds, sorting: one table for each signature.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <stdexcept>

namespace troupe {
namespace mx = mlx::core;

Ptr unary(Unary op, const array& a) {
  switch (op) {
    case Unary::Abs: return ptr(mx::abs(a));
    case Unary::Contiguous: return ptr(mx::contiguous(a));
    case Unary::Copy: return ptr(mx::copy(a));
    case Unary::Cos: return ptr(mx::cos(a));
    case Unary::Erf: return ptr(mx::erf(a));
    case Unary::Exp: return ptr(mx::exp(a));
    case Unary::Floor: return ptr(mx::floor(a));
    case Unary::IsNan: return ptr(mx::isnan(a));
    case Unary::Log: return ptr(mx::log(a));
    case Unary::Log1p: return ptr(mx::log1p(a));
    case Unary::LogicalNot: return ptr(mx::logical_not(a));
    case Unary::Negative: return ptr(mx::negative(a));
    case Unary::Reciprocal: return ptr(mx::reciprocal(a));
    case Unary::Rsqrt: return ptr(mx::rsqrt(a));
    case Unary::Sigmoid: return ptr(mx::sigmoid(a));
    case Unary::Sin: return ptr(mx::sin(a));
    case Unary::Sqrt: return ptr(mx::sqrt(a));
    case Unary::Square: return ptr(mx::square(a));
    case Unary::StopGradient: return ptr(mx::stop_gradient(a));
    case Unary::Tanh: return ptr(mx::tanh(a));
  }
  throw std::logic_error("unknown unary operation");
}

Ptr binary(Binary op, const array& a, const array& b) {
  switch (op) {
    case Binary::Add: return ptr(mx::add(a, b));
    case Binary::BitwiseAnd: return ptr(mx::bitwise_and(a, b));
    case Binary::BitwiseXor: return ptr(mx::bitwise_xor(a, b));
    case Binary::Divide: return ptr(mx::divide(a, b));
    case Binary::Equal: return ptr(mx::equal(a, b));
    case Binary::FloorDivide: return ptr(mx::floor_divide(a, b));
    case Binary::Greater: return ptr(mx::greater(a, b));
    case Binary::GreaterEqual: return ptr(mx::greater_equal(a, b));
    case Binary::LeftShift: return ptr(mx::left_shift(a, b));
    case Binary::Less: return ptr(mx::less(a, b));
    case Binary::LessEqual: return ptr(mx::less_equal(a, b));
    case Binary::LogAddExp: return ptr(mx::logaddexp(a, b));
    case Binary::LogicalAnd: return ptr(mx::logical_and(a, b));
    case Binary::LogicalOr: return ptr(mx::logical_or(a, b));
    case Binary::Matmul: return ptr(mx::matmul(a, b));
    case Binary::Maximum: return ptr(mx::maximum(a, b));
    case Binary::Minimum: return ptr(mx::minimum(a, b));
    case Binary::Multiply: return ptr(mx::multiply(a, b));
    case Binary::NotEqual: return ptr(mx::not_equal(a, b));
    case Binary::Power: return ptr(mx::power(a, b));
    case Binary::Remainder: return ptr(mx::remainder(a, b));
    case Binary::RightShift: return ptr(mx::right_shift(a, b));
    case Binary::Subtract: return ptr(mx::subtract(a, b));
  }
  throw std::logic_error("unknown binary operation");
}

Ptr fold(Fold op, const array& a, int32_t axis, bool keep) {
  switch (op) {
    case Fold::All: return ptr(mx::all(a, axis, keep));
    case Fold::Any: return ptr(mx::any(a, axis, keep));
    case Fold::ArgMax: return ptr(mx::argmax(a, axis, keep));
    case Fold::ArgMin: return ptr(mx::argmin(a, axis, keep));
    case Fold::LogSumExp: return ptr(mx::logsumexp(a, axis, keep));
    case Fold::Max: return ptr(mx::max(a, axis, keep));
    case Fold::Mean: return ptr(mx::mean(a, axis, keep));
    case Fold::Min: return ptr(mx::min(a, axis, keep));
    case Fold::Sum: return ptr(mx::sum(a, axis, keep));
  }
  throw std::logic_error("unknown fold");
}

Ptr along(Along op, const array& a, int32_t axis) {
  switch (op) {
    case Along::ArgSort: return ptr(mx::argsort(a, axis));
    case Along::Softmax: return ptr(mx::softmax(a, axis, /* precise = */ true));
    case Along::Sort: return ptr(mx::sort(a, axis));
  }
  throw std::logic_error("unknown operation along an axis");
}

Ptr cumsum(const array& a, int32_t axis, bool reverse, bool inclusive) {
  return ptr(mx::cumsum(a, axis, reverse, inclusive));
}

Ptr argpartition(const array& a, int32_t kth, int32_t axis) { return ptr(mx::argpartition(a, kth, axis)); }
Ptr topk(const array& a, int32_t k, int32_t axis) { return ptr(mx::topk(a, k, axis)); }
Ptr astype(const array& a, uint8_t dtype) { return ptr(mx::astype(a, to_dtype(dtype))); }
Ptr view(const array& a, uint8_t dtype) { return ptr(mx::view(a, to_dtype(dtype))); }
Ptr addmm(const array& c, const array& a, const array& b) { return ptr(mx::addmm(c, a, b)); }

Ptr where_(const array& condition, const array& x, const array& y) { return ptr(mx::where(condition, x, y)); }

Ptr random_bits(Ints shape, int32_t width, const array& key) {
  return ptr(mx::random::bits(to_shape(shape), width, key));
}

}  // namespace troupe
