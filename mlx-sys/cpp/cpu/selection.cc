#include "cpu/selection.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace troupe {
namespace {

// Unsigned integers in the order of the floats; both zeros are one.
uint32_t to_ordered(float x) {
  x += 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits >> 31 ? ~bits : bits | 0x80000000;
}

float from_ordered(uint32_t key) {
  uint32_t bits = key >> 31 ? key & 0x7fffffff : ~key;
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

struct Entry {
  uint32_t key;
  float mass;
};

// The three digits of a key, the most significant first.
struct Digit {
  int shift, bits;

  uint32_t of(uint32_t key) const { return key >> shift & ((1u << bits) - 1); }
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};

class Search {
 public:
  Search(std::vector<Entry> entries, double limit) : entries_(std::move(entries)), limit_(limit) {}

  uint32_t run() {
    for (Digit digit : kDigits) {
      uint32_t found = deciding(digit);
      std::erase_if(entries_, [&](const Entry& entry) { return digit.of(entry.key) != found; });
    }
    return entries_.front().key;
  }

 private:
  // The digit of the least key that is kept: where the mass reaches the limit, counted from the largest. `above_` then
  // is the mass of the keys of larger digits.
  uint32_t deciding(Digit digit) {
    std::array<double, 1 << 11> masses{};
    uint32_t most = 0, least = UINT32_MAX;
    for (const Entry& entry : entries_) {
      uint32_t value = digit.of(entry.key);
      masses[value] += entry.mass;
      most = std::max(most, value);
      least = std::min(least, value);
    }
    uint32_t value = most;
    // The least digit needs no look: sums in another order may fall short of a limit that they reached before.
    for (; value > least; --value) {
      if (masses[value] == 0) continue;
      if (above_ + masses[value] >= limit_) break;
      above_ += masses[value];
    }
    return value;
  }

  std::vector<Entry> entries_;
  double limit_;
  double above_ = 0;
};

}  // namespace

float least_kept(const float* values, const float* masses, size_t count, double limit) {
  std::vector<Entry> entries(count);
  for (size_t i = 0; i < count; ++i) entries[i] = {to_ordered(values[i]), masses ? masses[i] : 1.0f};
  return from_ordered(Search(std::move(entries), limit).run());
}

}  // namespace troupe
