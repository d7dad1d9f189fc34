// Stored numbers as floats, one at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/kernels/packed.h"

namespace troupe {

// The number at `at`, exactly.
inline float read_number(Number number, const uint8_t* at) {
  if (number == Number::f32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  if (number == Number::bf16) {
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  bits = (half & 0x7fffu) << 13;
  if (bits >= 0x0f800000u) {
    bits |= 0x7f800000u;
    std::memcpy(&value, &bits, sizeof(value));
  } else {
    std::memcpy(&value, &bits, sizeof(value));
    value *= 0x1p112f;
  }
  return half & 0x8000u ? -value : value;
}

}  // namespace troupe
