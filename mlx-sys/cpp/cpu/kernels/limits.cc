// The two things that bound every kernel, and nothing else: memory that is read once, and products in registers.
#include "cpu/kernels/bytes.h"
#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {
namespace {

// More chains than a machine has multiplications under way, and fewer than it has registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kChains = 16;
#else
constexpr int kChains = 12;
#endif
#define EACH_CHAIN _Pragma("GCC unroll 16") for (int i = 0; i < kChains; ++i)

}  // namespace

// The sum of the words at `bytes`, modulo 2^32, up to the last whole kChains vectors.
uint64_t read(const uint8_t* bytes, size_t count) {
  constexpr size_t kStride = kChains * sizeof(Words);
  Words sums[kChains];
  EACH_CHAIN sums[i] = Words{};
  for (const uint8_t* end = bytes + count / kStride * kStride; bytes < end; bytes += kStride) {
    EACH_CHAIN sums[i] += load_words(bytes + i * sizeof(Words));
  }
  Words all{};
  EACH_CHAIN all += sums[i];
  uint32_t total = 0;
  for (int lane = 0; lane < kWidth; ++lane) total += all[lane];
  return total;
}

// x = a + x * b in independent chains, `rounds` times; the sum of all lanes, and how many operations it took.
float multiply_add(int64_t rounds, float a, float b, int64_t* operations) {
  Floats added = Make<Floats>::splat(a), factor = Make<Floats>::splat(b), chains[kChains];
  EACH_CHAIN chains[i] = Make<Floats>::splat(a + static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
    EACH_CHAIN chains[i] = add_product(added, chains[i], factor);
  }
  Floats all{};
  EACH_CHAIN all = all + chains[i];
  float lanes[kWidth], total = 0;
  Make<Floats>::store(lanes, all);
  for (float lane : lanes) total += lane;
  *operations = rounds * kChains * kWidth * 2;
  return total;
}

}  // namespace troupe::TROUPE_ISA
