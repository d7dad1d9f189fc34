#include "cpu/sampling.h"

#include <algorithm>
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

// A nucleus is looked for among this many of the largest logits, and where it reaches further, among all.
constexpr int kLikely = 256;

bool cuts_ranks(const Drawing& how, int n) { return how.top_k > 0 && how.top_k < n; }

// The first element at which the cumulative sum of `weights` exceeds `target`; else the last that weighs anything.
size_t first_beyond(const float* weights, size_t count, double sum, double target) {
  size_t last = 0;
  for (size_t i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    sum += weights[i];
    if (sum > target) break;
  }
  return last;
}

double total_of(const std::vector<float>& masses) {
  double total = 0;
  for (float mass : masses) total += mass;
  return total;
}

// Every token may be drawn: part by part, so that no weight is kept.
uint32_t draw_from_all(const LogitRow& row, const Weighting& how, float uniform) {
  auto masses = row.masses(how);
  double target = uniform * total_of(masses), sum = 0;
  size_t part = 0, last = 0;
  // Stops at the part with the token, or at the last one that weighs anything.
  for (; part < masses.size() && sum + masses[part] <= target; ++part) {
    if (masses[part] > 0) last = part;
    sum += masses[part];
  }
  if (part == masses.size()) part = last;
  float weights[kLogits];
  int n = row.part_size(part);
  kernels().weights(n, row.part(part), how, weights);
  return static_cast<uint32_t>(part * kLogits + first_beyond(weights, n, sum, target));
}

std::vector<float> weights_of(const Candidates& candidates, const Weighting& how) {
  std::vector<float> weights(candidates.size());
  kernels().weights(static_cast<int>(weights.size()), candidates.logits.data(), how, weights.data());
  return weights;
}

// The largest logits of which the first top_k consist, with those that equal the least of them.
Candidates ranked(const LogitRow& row, int top_k) {
  auto candidates = row.at_least(row.bound_of_largest(top_k));
  // Fewer are numbers.
  if (candidates.size() < static_cast<size_t>(top_k)) return candidates;
  candidates.keep(least_kept(candidates.logits.data(), nullptr, candidates.size(), top_k));
  return candidates;
}

// Keeps the least set of the largest logits whose mass reaches `limit`. False if all together fall short of it.
bool keep_nucleus(Candidates& candidates, const Weighting& how, double limit) {
  auto weights = weights_of(candidates, how);
  if (total_of(weights) < limit) return false;
  candidates.keep(least_kept(candidates.logits.data(), weights.data(), weights.size(), limit));
  return true;
}

Candidates nucleus(const LogitRow& row, const Weighting& how, float top_p) {
  double limit = top_p * total_of(row.masses(how));
  auto candidates = row.at_least(row.bound_of_largest(kLikely));
  if (keep_nucleus(candidates, how, limit)) return candidates;
  candidates = row.at_least(kNothing);
  keep_nucleus(candidates, how, limit);
  return candidates;
}

// What may be drawn, where that is not everything.
Candidates kept(const LogitRow& row, const Weighting& how, const Drawing& drawing) {
  float least = kNothing;
  if (drawing.min_p > 0) least = std::min(how.max, how.max + drawing.temperature * std::log(drawing.min_p));
  Candidates candidates;
  if (cuts_ranks(drawing, row.size())) {
    candidates = ranked(row, drawing.top_k);
    if (drawing.top_p < 1) keep_nucleus(candidates, how, drawing.top_p * total_of(weights_of(candidates, how)));
  } else if (drawing.top_p < 1) {
    candidates = nucleus(row, how, drawing.top_p);
  } else {
    return row.at_least(least);
  }
  candidates.keep(least);
  return candidates;
}

uint32_t choose(const LogitRow& row, const Drawing& drawing) {
  Weighting how{row.max(), 1 / drawing.temperature};
  bool greedy = drawing.greedy || drawing.top_k == 1 || drawing.top_p <= 0;
  if (greedy || std::isinf(how.max) || std::isinf(how.inverse_temperature)) return row.first_largest();
  if (!cuts_ranks(drawing, row.size()) && drawing.top_p >= 1 && drawing.min_p <= 0) {
    return draw_from_all(row, how, drawing.uniform);
  }
  auto candidates = kept(row, how, drawing);
  auto weights = weights_of(candidates, how);
  double target = drawing.uniform * total_of(weights);
  return static_cast<uint32_t>(candidates.ids[first_beyond(weights.data(), weights.size(), 0, target)]);
}

uint32_t choose(const float* logits, int n, const Adjustment& adjustment, const Drawing& drawing) {
  if (!adjustment.penalty && adjustment.bias_count == 0) return choose(LogitRow(logits, n), drawing);
  std::unique_ptr<float[]> own(new float[n]);
  if (adjustment.penalty) {
    kernels().penalise(n, logits, *adjustment.penalty, own.get());
  } else {
    std::copy_n(logits, n, own.get());
  }
  for (int i = 0; i < adjustment.bias_count; ++i) own[adjustment.biases[i].token] += adjustment.biases[i].value;
  return choose(LogitRow(own.get(), n), drawing);
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
    double total = std::isinf(row.max()) ? 1.0 : total_of(row.masses({row.max(), 1.0f}));
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
