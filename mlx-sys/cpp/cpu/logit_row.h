// A row of logits, searched by the maxima of its parts. NaN counts as -infinity.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernels.h"

namespace troupe {

// Some tokens of a row with their logits, none of them NaN; in the order of ids, until they are sorted.
struct Candidates {
  std::vector<int32_t> ids;
  std::vector<float> logits;

  size_t size() const { return ids.size(); }
  void push(int32_t id, float logit);
  // Puts the `count` largest first, the lowest id first among equals, and drops the others.
  void sort_first(size_t count);
};

class LogitRow {
 public:
  // n >= 1 logits that outlive this.
  LogitRow(const float* logits, int n);

  int size() const { return n_; }
  float at(int id) const { return logits_[id]; }
  float max() const { return max_; }

  size_t parts() const { return maxima_.size() / kLanes; }
  const float* part(size_t index) const { return logits_ + index * kLogits; }
  int part_size(size_t index) const;
  // In each part, the mass of the logits that are at least `least`.
  std::vector<float> masses(const Weighting& how, float least) const;
  // In the whole row, the same for kBounds such bounds.
  std::array<double, kBounds> masses(const Weighting& how, const std::array<float, kBounds>& least) const;

  // The first token whose logit is the largest; 0 if all are NaN.
  uint32_t first_largest() const;
  // A number that at least `count` logits reach, if so many are numbers; close to the count-th largest while the
  // count is far below n / 64.
  float bound_of_largest(int count) const;
  // From this count on, that number is -infinity.
  int bounds() const { return static_cast<int>(maxima_.size()); }
  // All tokens whose logits are in the range. NaN is in none.
  Candidates in(const Range& range) const;
  Candidates at_least(float least) const { return in({least, NAN}); }

 private:
  const float* logits_;
  int n_;
  float max_;
  std::vector<float> maxima_;       // of each lane of each part
  std::vector<float> part_maxima_;  // of each part
};

}  // namespace troupe
