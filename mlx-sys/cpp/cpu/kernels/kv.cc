// Writing keys and values as they are stored, and reading whole segments back as floats.
#include "cpu/kernels/kv_numbers.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

template <typename E, typename F>
TROUPE_INLINE void write_each(const float* x, const KvPlace& place, F&& convert) {
  auto* to = static_cast<E*>(place.data);
  for (int d = 0; d < place.dim; ++d) to[static_cast<int64_t>(d) * place.stride] = convert(x[d]);
}

TROUPE_INLINE void write_halves(const float* x, const KvPlace& place) {
  auto* to = static_cast<uint16_t*>(place.data);
  for (int d = 0; d < place.dim; d += kLanes) {
    int count = place.dim - d < kLanes ? place.dim - d : kLanes;
    float floats[kLanes] = {};
    uint16_t halves[kLanes];
    std::memcpy(floats, x + d, static_cast<size_t>(count) * sizeof(float));
    narrow_f16(floats, halves);
    for (int i = 0; i < count; ++i) to[static_cast<int64_t>(d + i) * place.stride] = halves[i];
  }
}

// Numbers that are not finite leave a scale of NaN, so that whoever reads the token sees it.
TROUPE_INLINE void write_bytes(const float* x, const KvPlace& place) {
  float most = 0, zero = 0;
  for (int d = 0; d < place.dim; ++d) {
    float size = fabsf(x[d]);
    most = size > most ? size : most;
    zero += x[d] * 0.0f;
  }
  float scale = most / 127.0f;
  // A scale that is not normal has no reciprocal; such numbers are zeros.
  float factor = scale >= 0x1p-126f ? 1.0f / scale : 0.0f;
  *place.scale = scale + zero;
  bool finite = zero == 0.0f;
  write_each<int8_t>(x, place, [&](float value) -> int8_t {
    constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    float whole = (value * factor + kMagic) - kMagic;
    return finite ? static_cast<int8_t>(whole) : int8_t{0};
  });
}

template <KvType kType>
TROUPE_INLINE void widen_as(const KvSegment& in, int group, float* keys, float* values) {
  using E = typename KvElement<kType>::Type;
  const E* k = static_cast<const E*>(in.keys[group]);
  for (int d = 0; d < in.dim; ++d) store(keys + d * kLanes, load_kv<kType>(k + static_cast<int64_t>(d) * in.key_stride));
  const E* v = static_cast<const E*>(in.values[group]);
  int all = kKeyGroup * in.dim;  // a multiple of kLanes
  for (int i = 0; i < all; i += kLanes) store(values + i, load_kv<kType>(v + i));
}

}  // namespace

void write_kv(const float* x, const KvPlace& place) {
  switch (place.type) {
    case KvType::f32: return write_each<float>(x, place, [](float value) { return value; });
    case KvType::f16: return write_halves(x, place);
    case KvType::bf16: return write_each<uint16_t>(x, place, [](float value) { return to_bf16(value); });
    case KvType::i8: return write_bytes(x, place);
  }
}

void widen_kv(const KvSegment& in, int group, float* keys, float* values) {
  switch (in.type) {
    case KvType::f32: return widen_as<KvType::f32>(in, group, keys, values);
    case KvType::f16: return widen_as<KvType::f16>(in, group, keys, values);
    case KvType::bf16: return widen_as<KvType::bf16>(in, group, keys, values);
    case KvType::i8: return widen_as<KvType::i8>(in, group, keys, values);
  }
}

}  // namespace troupe::TROUPE_ISA
