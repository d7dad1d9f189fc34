// What the tests of the kernels share: numbers from a seed, and a check that says what it compared.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/kernels/packed.h"

namespace troupe::test {

// Ends the program when `holds` is false: what comes later would only repeat it.
inline void check(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: %s\n", what.c_str());
  std::exit(1);
}

// splitmix64
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int bound) { return static_cast<int>(bits() % static_cast<uint64_t>(bound)); }
  float unit() { return static_cast<float>(static_cast<double>(bits() >> 11) * 0x1p-52 - 1.0); }

 private:
  uint64_t state_;
};

inline std::vector<float> noise(Random& random, size_t count) {
  std::vector<float> values(count);
  for (auto& value : values) value = random.unit();
  return values;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0;
}

// A number that `number` can hold, next to x or a little below, as its bytes.
inline void write_number(Number number, float x, uint8_t* at) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  uint16_t half = static_cast<uint16_t>(bits >> 16);
  if (number == Number::f32) {
    std::memcpy(at, &bits, sizeof(bits));
    return;
  }
  if (number == Number::f16) {
    // Numbers of the tests are 0 or between 2^-14 and 2^15: normal halves.
    half = static_cast<uint16_t>(bits >> 16 & 0x8000);
    if (x != 0) half = static_cast<uint16_t>(half | ((bits & 0x7fffffff) - 0x38000000) >> 13);
  }
  std::memcpy(at, &half, sizeof(half));
}

// What write_number wrote.
inline float read_number(Number number, const uint8_t* at) {
  if (number == Number::f32) {
    float x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  if (number == Number::f16) {
    bits = static_cast<uint32_t>(half & 0x8000) << 16;
    if (half & 0x7fff) bits |= (static_cast<uint32_t>(half & 0x7fff) << 13) + 0x38000000;
  }
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

void test_attention();
void test_dense();
void test_packed();
void test_pool();
void test_sampling();
void test_rows();

}  // namespace troupe::test
