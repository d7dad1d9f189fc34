#include "cpu/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "cpu/kernels/kernels.h"
#include "cpu/logit_row.h"
#include "cpu/pool.h"
#include "cpu/selection.h"

namespace troupe {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// A nucleus is looked for among this many of the largest logits first. A larger one is searched by its mass, in so many
// rounds: then few logits are left for a search by value.
constexpr int kLikely = 256;
constexpr int kRounds = 2;

double total_of(const std::vector<float>& masses) {
  double total = 0;
  for (float mass : masses) total += mass;
  return total;
}

// The first token of at least `least` at which the cumulative mass of such tokens exceeds the share `uniform` of their
// total. Part by part: the sums of the parts say where it is.
uint32_t draw(const LogitRow& row, const Weighting& how, float least, float uniform) {
  auto masses = row.masses(how, least);
  double target = uniform * total_of(masses), sum = 0;
  size_t part = 0;
  while (sum + masses[part] <= target) sum += masses[part++];
  float weights[kLogits];
  const float* logits = row.part(part);
  int n = row.part_size(part), last = 0;
  kernels().weights(n, logits, how, weights);
  // Where rounding makes the sum fall short of the part's mass, its last token is taken.
  for (int i = 0; i < n && sum <= target; ++i) {
    if (!(logits[i] >= least) || weights[i] == 0) continue;
    last = i;
    sum += weights[i];
  }
  return static_cast<uint32_t>(part * kLogits) + static_cast<uint32_t>(last);
}

// The k-th largest logit, where so many are numbers.
float least_of_ranks(const LogitRow& row, int k) {
  auto candidates = row.at_least(row.bound_of_largest(k));
  if (candidates.size() < static_cast<size_t>(k)) return kNothing;
  return least_kept(candidates.logits.data(), nullptr, candidates.size(), k);
}

float least_of_mass(const std::vector<float>& logits, const Weighting& how, double limit) {
  std::vector<float> weights(logits.size());
  kernels().weights(static_cast<int>(weights.size()), logits.data(), how, weights.data());
  return least_kept(logits.data(), weights.data(), weights.size(), limit);
}

// Logits with the one where the mass, counted from the largest, reaches a limit.
struct Bracket {
  Range range;
  double above;  // the mass from `range.below` on, which is less than the limit

  // Cuts it to a kBounds-th; to what lies between `floor` and it, should rounding have put the range too high.
  void narrow(const LogitRow& row, const Weighting& how, double limit, float floor) {
    std::array<float, kBounds> bounds;
    double least = range.least, step = (range.below - least) / kBounds;
    for (int b = 0; b < kBounds; ++b) bounds[b] = static_cast<float>(least + b * step);
    auto masses = row.masses(how, bounds);
    int last = kBounds - 1;
    while (last >= 0 && masses[last] < limit) --last;
    if (last + 1 < kBounds) {
      range.below = bounds[last + 1];
      above = masses[last + 1];
    }
    range.least = last >= 0 ? bounds[last] : floor;
  }
};

// The least logit of the smallest set of largest ones, equal ones together, whose mass reaches the share `top_p` of the
// mass from `floor` on.
float least_of_nucleus(const LogitRow& row, const Weighting& how, float floor, float top_p) {
  // -infinity weighs nothing.
  floor = std::max(floor, std::numeric_limits<float>::lowest());
  double total = total_of(row.masses(how, floor)), limit = top_p * total;
  // Most nuclei are small.
  float likely = row.bound_of_largest(std::min(kLikely, row.bounds() / 4));
  double above = likely > floor ? total_of(row.masses(how, likely)) : limit;
  if (above >= limit) {
    auto candidates = row.at_least(std::max(likely, floor));
    return least_of_mass(candidates.logits, how, limit);
  }
  // Less than this, and all tokens together have no more mass than the nucleus leaves out.
  double least = how.max + std::log((1.0 - top_p) * total / row.size()) / how.inverse_temperature;
  Bracket bracket{{static_cast<float>(std::max<double>(least, floor)), likely}, above};
  for (int round = 0; round < kRounds; ++round) bracket.narrow(row, how, limit, floor);
  auto candidates = row.in(bracket.range);
  if (candidates.size() == 0) return bracket.range.below;
  return least_of_mass(candidates.logits, how, limit - bracket.above);
}

// The least logit that is kept. Limits look at the distribution before the temperature.
float least_of(const LogitRow& row, const Drawing& drawing) {
  Weighting how{row.max(), 1.0f};
  float least = kNothing;
  if (drawing.top_k > 0 && drawing.top_k < row.size()) least = least_of_ranks(row, drawing.top_k);
  if (drawing.top_p < 1) least = least_of_nucleus(row, how, least, drawing.top_p);
  if (drawing.min_p > 0) least = std::max(least, how.max + std::log(drawing.min_p));
  return std::min(least, how.max);
}

uint32_t choose(const LogitRow& row, const Drawing& drawing) {
  Weighting how{row.max(), 1 / drawing.temperature};
  bool greedy = drawing.greedy || drawing.top_k == 1 || drawing.top_p <= 0;
  if (greedy || std::isinf(how.max) || std::isinf(how.inverse_temperature)) return row.first_largest();
  return draw(row, how, least_of(row, drawing), drawing.uniform);
}

// Makes the tokens that are not in the mask impossible.
void forbid_others(int n, const uint32_t* mask, float* logits) {
  for (int first = 0; first < n; first += 32) {
    uint32_t others = ~mask[first / 32];
    int left = n - first;
    if (left < 32) others &= (1u << left) - 1;
    if (others == UINT32_MAX) {
      std::fill_n(logits + first, 32, kNothing);
      continue;
    }
    for (; others != 0; others &= others - 1) logits[first + std::countr_zero(others)] = kNothing;
  }
}

uint32_t first_of(int n, const uint32_t* mask) {
  for (int word = 0; word * 32 < n; ++word) {
    if (mask[word] != 0) return static_cast<uint32_t>(word * 32 + std::countr_zero(mask[word]));
  }
  return 0;
}

uint32_t choose(const float* logits, int n, const Adjustment& adjustment, const Drawing& drawing) {
  if (!adjustment.penalty && adjustment.bias_count == 0 && !adjustment.mask) return choose(LogitRow(logits, n), drawing);
  std::unique_ptr<float[]> own(new float[n]);
  if (adjustment.bias_count > 0 || !adjustment.penalty) {
    std::copy_n(logits, n, own.get());
    for (int i = 0; i < adjustment.bias_count; ++i) own[adjustment.biases[i].token] += adjustment.biases[i].value;
    logits = own.get();
  }
  if (adjustment.penalty) kernels().penalise(n, logits, *adjustment.penalty, own.get());
  if (adjustment.mask) forbid_others(n, adjustment.mask, own.get());
  LogitRow row(own.get(), n);
  // All that is allowed is impossible by itself, and so is the rest.
  if (adjustment.mask && row.max() == kNothing) return first_of(n, adjustment.mask);
  return choose(row, drawing);
}

// Where the `count` most likely tokens of a row are, in order.
Candidates most_likely(const LogitRow& row, int count) {
  auto candidates = row.at_least(row.bound_of_largest(count));
  for (int id = 0; candidates.size() < static_cast<size_t>(count); ++id) {
    if (std::isnan(row.at(id))) candidates.push(id, kNothing);
  }
  candidates.sort_first(count);
  return candidates;
}

}  // namespace

void choose_tokens(const LogitRows& x, const Adjustment* adjustments, const Drawing* drawings, uint32_t* tokens) {
  parallel_for(static_cast<size_t>(x.rows), [&](size_t row) {
    tokens[row] = choose(x.logits.at(static_cast<int64_t>(row)), x.n, adjustments[row], drawings[row]);
  });
}

void log_probabilities(int n, const std::vector<LogitsOfToken>& rows, const TokenLogs& out) {
  parallel_for(rows.size(), [&](size_t r) {
    LogitRow row(rows[r].logits, n);
    // Where the largest is infinite, so is the sum.
    double total = std::isinf(row.max()) ? 1.0 : total_of(row.masses({row.max(), 1.0f}, kNothing));
    double log_total = std::log(total);
    auto log_of = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - row.max() - log_total); };
    float chosen = row.at(static_cast<int>(rows[r].token));
    out.chosen[r] = log_of(std::isnan(chosen) ? kNothing : chosen);
    if (out.count == 0) return;
    auto best = most_likely(row, out.count);
    for (int i = 0; i < out.count; ++i) {
      out.ids[r * out.count + i] = static_cast<uint32_t>(best.ids[i]);
      out.logs[r * out.count + i] = log_of(best.logits[i]);
    }
  });
}

}  // namespace troupe
