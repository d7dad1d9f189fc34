// Quantised products and MLX's fused operations.
#include "bridge.h"
#include "mlx-sys/src/bridge.rs.h"

#include <string>

namespace troupe {
namespace mx = mlx::core;

Ptr quantized_matmul(const array& x, const array& w, const array& scales, const array* biases, bool transpose,
                     const Packing& packing) {
  return ptr(mx::quantized_matmul(x, w, scales, maybe(biases), transpose, packing.group_size, packing.bits));
}

std::unique_ptr<Arrays> quantize(const array& w, const Packing& packing) {
  return std::make_unique<Arrays>(mx::quantize(w, packing.group_size, packing.bits));
}

Ptr dequantize(const array& w, const array& scales, const array* biases, const Packing& packing, uint8_t dtype) {
  return ptr(mx::dequantize(w, scales, maybe(biases), packing.group_size, packing.bits, "affine", std::nullopt,
                            to_dtype(dtype)));
}

Ptr layer_norm(const array& x, const array* weight, const array* bias, float eps) {
  return ptr(mx::fast::layer_norm(x, maybe(weight), maybe(bias), eps));
}

Ptr rope(const array& x, const RopeOptions& options, int32_t offset, const array* freqs) {
  auto base = options.has_base ? std::optional<float>(options.base) : std::nullopt;
  return ptr(mx::fast::rope(x, options.dims, options.traditional, base, options.scale, offset, maybe(freqs)));
}

Ptr attention(const array& q, const array& k, const array& v, float scale, rust::Str mask_mode, const array* mask) {
  return ptr(mx::fast::scaled_dot_product_attention(q, k, v, scale, std::string(mask_mode), maybe(mask)));
}

}  // namespace troupe
