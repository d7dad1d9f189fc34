#include "cpu/logit_row.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe {

static_assert(kLogits % kLanes == 0);

void Candidates::push(int32_t id, float logit) {
  ids.push_back(id);
  logits.push_back(logit);
}

void Candidates::sort_first(size_t count) {
  std::vector<size_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : ids[a] < ids[b];
  };
  count = std::min(count, size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(), before);
  Candidates first;
  for (size_t i = 0; i < count; ++i) first.push(ids[order[i]], logits[order[i]]);
  *this = std::move(first);
}

LogitRow::LogitRow(const float* logits, int n) : logits_(logits), n_(n) {
  size_t parts = (static_cast<size_t>(n) + kLogits - 1) / kLogits;
  maxima_.resize(parts * kLanes);
  part_maxima_.resize(parts);
  for (size_t i = 0; i < parts; ++i) {
    float* lanes = &maxima_[i * kLanes];
    kernels().lane_maxima(part_size(i), part(i), lanes);
    part_maxima_[i] = *std::max_element(lanes, lanes + kLanes);
  }
  max_ = *std::max_element(part_maxima_.begin(), part_maxima_.end());
}

int LogitRow::part_size(size_t index) const {
  return std::min(kLogits, n_ - static_cast<int>(index) * kLogits);
}

std::vector<float> LogitRow::masses(const Weighting& how, float least) const {
  std::vector<float> masses(parts());
  for (size_t i = 0; i < masses.size(); ++i) {
    masses[i] = part_maxima_[i] < least ? 0 : kernels().mass(part_size(i), part(i), how, least);
  }
  return masses;
}

std::array<double, kBounds> LogitRow::masses(const Weighting& how, const std::array<float, kBounds>& least) const {
  std::array<double, kBounds> totals{};
  float masses[kBounds];
  for (size_t i = 0; i < parts(); ++i) {
    kernels().masses(part_size(i), part(i), how, least.data(), masses);
    for (int b = 0; b < kBounds; ++b) totals[b] += masses[b];
  }
  return totals;
}

uint32_t LogitRow::first_largest() const {
  size_t index = static_cast<size_t>(std::find(part_maxima_.begin(), part_maxima_.end(), max_) - part_maxima_.begin());
  int32_t places[kLogits];
  // A part of NaN has the maximum -infinity, but no place.
  for (; index < parts(); ++index) {
    if (kernels().places_of(part_size(index), part(index), {max_, NAN}, places) > 0) {
      return static_cast<uint32_t>(index * kLogits) + static_cast<uint32_t>(places[0]);
    }
  }
  return 0;
}

float LogitRow::bound_of_largest(int count) const {
  // Each lane's maximum is a logit of its own.
  if (static_cast<size_t>(count) >= maxima_.size()) return -std::numeric_limits<float>::infinity();
  auto maxima = maxima_;
  auto nth = maxima.begin() + (count - 1);
  std::nth_element(maxima.begin(), nth, maxima.end(), [](float a, float b) { return a > b; });
  return *nth;
}

Candidates LogitRow::in(const Range& range) const {
  Candidates found;
  int32_t places[kLogits];
  for (size_t i = 0; i < parts(); ++i) {
    if (part_maxima_[i] < range.least) continue;
    int count = kernels().places_of(part_size(i), part(i), range, places);
    for (int j = 0; j < count; ++j) {
      found.push(static_cast<int32_t>(i * kLogits) + places[j], part(i)[places[j]]);
    }
  }
  return found;
}

}  // namespace troupe
