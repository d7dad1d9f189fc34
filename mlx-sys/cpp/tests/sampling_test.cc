#include <algorithm>
#include <limits>
#include <numeric>

#include "check.h"
#include "cpu/dispatch.h"
#include "cpu/pool.h"
#include "cpu/sampling.h"
#include "cpu/selection.h"

namespace troupe::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Adjustment kUnchanged{nullptr, nullptr, 0};

// Logits of several kinds: spread out, of few values (ties everywhere), with some impossible, or with one in front.
std::vector<float> logits_of(Random& random, int n) {
  int kind = random.below(4);
  std::vector<float> logits(n);
  for (auto& x : logits) {
    float gauss = 2 * (random.unit() + random.unit() + random.unit());
    x = kind == 1 ? std::round(gauss) : gauss;
    if (kind == 2 && random.below(3) == 0) x = random.below(2) ? -kInfinity : kNan;
  }
  logits[random.below(n)] = kind == 3 ? 12.0f : 1.0f;
  return logits;
}

Drawing drawing_of(Random& random, int n) {
  const float temperatures[] = {1.0f, 0.7f, 1.5f, 1e-3f, 1e-30f, 1e-40f, 100.0f, 1e38f};
  const int ranks[] = {0, 1, 2, 40, 1000, n, n + 1};
  const float shares[] = {1.0f, 0.9f, 0.5f, 0.0f, 1e-6f, 0.9999999f, 0.999f};
  const float least[] = {0.0f, 0.1f, 1.0f, 1e-6f};
  const float uniforms[] = {0.0f, 1.0f - 0x1p-24f, std::fabs(random.unit()) * 0.999f};
  return {random.below(8) == 0, temperatures[random.below(8)], ranks[random.below(7)],
          shares[random.below(7)], least[random.below(4)], uniforms[random.below(3)]};
}

uint32_t token_of(const std::vector<float>& x, const Drawing& how, const Adjustment& adjustment = kUnchanged) {
  uint32_t token = UINT32_MAX;
  int n = static_cast<int>(x.size());
  choose_tokens({1, n, {x.data(), n}}, &adjustment, &how, &token);
  return token;
}

uint32_t first_largest(const std::vector<float>& x) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(x[i]) && (best == UINT32_MAX || x[i] > x[best])) best = i;
  }
  return best == UINT32_MAX ? 0 : best;
}

// The definition, by sorting, in double precision. `slack` moves every bound by as much as rounding may.
struct Oracle {
  std::vector<double> weights;  // 0 where a token is dropped

  Oracle(const std::vector<float>& x, const Drawing& how, double slack) : weights(x.size()) {
    double max = x[first_largest(x)];
    std::vector<size_t> order;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isnan(x[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
    if (how.top_k > 0 && order.size() > static_cast<size_t>(how.top_k)) {
      float least = x[order[how.top_k - 1]];
      std::erase_if(order, [&](size_t i) { return x[i] < least; });
    }
    auto weight = [&](size_t i) { return std::exp((x[i] - max) / how.temperature); };
    double total = 0, above = 0;
    auto share = [&](size_t i) { return std::exp(x[i] - max); };
    for (size_t i : order) total += share(i);
    for (size_t first = 0, last; first < order.size(); first = last) {
      double mass = 0;
      for (last = first; last < order.size() && x[order[last]] == x[order[first]]; ++last) mass += share(order[last]);
      bool kept = how.top_p >= 1 || above < (how.top_p + slack) * total;
      double bound = how.min_p > 0 ? std::log(how.min_p) - slack * (1 + std::fabs(max)) : -kInfinity;
      kept = kept && x[order[first]] - max >= bound;
      above += mass;
      for (size_t i = first; kept && i < last; ++i) weights[order[i]] = weight(order[i]);
    }
  }

  // Whether `uniform` falls on `token`, give or take.
  bool allows(uint32_t token, float uniform) const {
    double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double before = std::accumulate(weights.begin(), weights.begin() + token, 0.0);
    return weights[token] > 0 && before <= (uniform + 2e-5) * total &&
           before + weights[token] >= (uniform - 2e-5) * total;
  }
};

void test_choice(Random& random, int n) {
  auto x = logits_of(random, n);
  Drawing how = drawing_of(random, n);
  uint32_t token = token_of(x, how);
  std::string name = "sampling of " + std::to_string(n) + ": temperature " + std::to_string(how.temperature) +
                     ", top_k " + std::to_string(how.top_k) + ", top_p " + std::to_string(how.top_p) + ", min_p " +
                     std::to_string(how.min_p) + ", uniform " + std::to_string(how.uniform);
  check(token < static_cast<uint32_t>(n), name + ": the token is beyond the row");
  if (how.greedy || how.top_k == 1 || how.top_p <= 0 || std::isinf(1 / how.temperature)) {
    check(token == first_largest(x), name + ": the largest is not taken");
    return;
  }
  // Where the last places of a bound decide, either side is right.
  bool allowed = false;
  for (double slack : {0.0, 2e-6, -2e-6}) allowed = allowed || Oracle(x, how, slack).allows(token, how.uniform);
  check(allowed, name + ": token " + std::to_string(token) + " is not what the definition gives");
}

void test_not_finite() {
  const Drawing any{false, 1, 0, 1, 0, 0.5f}, cut{false, 1, 3, 0.9f, 0.1f, 0.5f}, greedy{true, 1, 0, 1, 0, 0};
  for (int n : {1, 15, 16, 17, 1024, 1025, 5000}) {
    for (const Drawing& how : {any, cut, greedy}) {
      check(token_of(std::vector<float>(n, kNan), how) == 0, "sampling: of NaN alone, token 0");
      std::vector<float> x(n, -kInfinity);
      check(token_of(x, how) == 0, "sampling: of -infinity alone, token 0");
      x.assign(n, kNan);
      x[n - 1] = -kInfinity;
      check(token_of(x, how) == static_cast<uint32_t>(n - 1), "sampling: NaN is not chosen");
      x[n / 2] = 3.0f;
      check(token_of(x, how) == static_cast<uint32_t>(n / 2), "sampling: the only number is chosen");
      x[n / 2] = kInfinity;
      check(token_of(x, how) == static_cast<uint32_t>(n / 2), "sampling: infinity is chosen");
    }
  }
}

void test_rows(Random& random, int n) {
  constexpr int kRows = 7;
  std::vector<float> x;
  std::vector<Drawing> how;
  std::vector<Adjustment> adjustments(kRows, kUnchanged);
  std::vector<uint32_t> alone;
  for (int row = 0; row < kRows; ++row) {
    auto own = logits_of(random, n);
    x.insert(x.end(), own.begin(), own.end());
    how.push_back(drawing_of(random, n));
    alone.push_back(token_of(own, how.back()));
  }
  for (size_t threads : {1, 2, 4}) {
    set_pool_threads(threads);
    std::vector<uint32_t> together(kRows);
    choose_tokens({kRows, n, {x.data(), n}}, adjustments.data(), how.data(), together.data());
    check(together == alone, "sampling: a row depends on its neighbours or on the number of threads");
  }
}

void test_adjustments(Random& random, int n) {
  auto x = noise(random, n);
  std::vector<float> prompt(n), generated(n);
  for (auto& count : prompt) count = static_cast<float>(random.below(4) == 0);
  for (auto& count : generated) count = static_cast<float>(std::max(0, random.below(8) - 4));
  Penalty penalty{prompt.data(), generated.data(), 1.3f, 0.5f, 0.25f};
  Bias biases[] = {{random.below(n), 0.75f}, {n - 1, -0.5f}, {n - 1, 1.0f}};
  auto penalised = [&](std::vector<float> logits) {
    for (int i = 0; i < n; ++i) {
      if (prompt[i] + generated[i] > 0) logits[i] = logits[i] > 0 ? logits[i] / 1.3f : logits[i] * 1.3f;
      logits[i] -= (generated[i] > 0 ? 0.5f : 0.0f) + generated[i] * 0.25f;
    }
    return logits;
  };
  auto wanted = penalised(x);
  for (const auto& set : instruction_sets()) {
    std::vector<float> found(n);
    set.kernels->penalise(n, x.data(), penalty, found.data());
    for (int i = 0; i < n; ++i) check(std::fabs(found[i] - wanted[i]) < 1e-5, "penalise: a wrong logit");
  }
  auto biased = x;
  for (const Bias& bias : biases) biased[bias.token] += bias.value;
  check(token_of(x, {true, 1, 0, 1, 0, 0}, {&penalty, biases, 3}) == first_largest(penalised(biased)),
        "sampling: adjustments count");
}

// What a mask allows is chosen as if there were nothing else.
void test_masks(Random& random, int n) {
  auto x = logits_of(random, n);
  std::vector<uint32_t> mask((n + 31) / 32);
  int kind = random.below(3);
  for (auto& word : mask) word = kind == 0 ? UINT32_MAX : static_cast<uint32_t>(random.below(1 << 16)) << 7;
  if (kind == 2) std::fill(mask.begin(), mask.end(), 0u);
  int sure = random.below(n);
  mask[sure / 32] |= 1u << sure % 32;
  auto allows = [&](uint32_t id) { return (mask[id / 32] >> id % 32 & 1) != 0; };
  auto wanted = x;
  uint32_t first = UINT32_MAX;
  for (int id = n - 1; id >= 0; --id) {
    if (allows(id)) first = static_cast<uint32_t>(id);
    else wanted[id] = -kInfinity;
  }
  Adjustment masked{nullptr, nullptr, 0, mask.data()};
  bool possible = wanted[first_largest(wanted)] > -kInfinity;
  for (const Drawing& how : {Drawing{true, 1, 0, 1, 0, 0}, drawing_of(random, n)}) {
    uint32_t token = token_of(x, how, masked);
    check(allows(token), "sampling: a token outside the mask");
    check(token == (possible ? token_of(wanted, how) : first), "sampling: another token than without the others");
  }
}

void test_logs(Random& random, int n) {
  auto x = logits_of(random, n);
  uint32_t token = static_cast<uint32_t>(random.below(n));
  int count = std::min(n, random.below(21));
  std::vector<uint32_t> ids(count), order(n);
  std::vector<float> logs(count);
  float chosen = 0;
  log_probabilities(n, {{x.data(), token}}, {count, &chosen, ids.data(), logs.data()});
  for (auto& logit : x) logit = std::isnan(logit) ? -kInfinity : logit;
  double max = x[first_largest(x)], total = 0;
  for (float logit : x) total += std::exp(logit - max);
  auto close = [&](float found, uint32_t id) {
    double wanted = x[id] - max - std::log(total);
    return found == wanted || std::fabs(found - wanted) < 2e-6 * (1 + std::fabs(wanted));
  };
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
  check(close(chosen, token), "log-probabilities: of the chosen token");
  for (int i = 0; i < count; ++i) {
    // Impossible tokens come last, in any order.
    check(ids[i] == order[i] || (x[ids[i]] == -kInfinity && x[order[i]] == -kInfinity),
          "log-probabilities: the order of the most likely");
    check(close(logs[i], ids[i]), "log-probabilities: of the most likely");
  }
}

void test_selection(Random& random) {
  for (int round = 0; round < 300; ++round) {
    int n = 1 + random.below(300);
    auto values = noise(random, n);
    for (auto& x : values) {
      x = round % 2 ? std::round(x * 8) : x * std::pow(10.0f, static_cast<float>(random.below(60) - 30));
    }
    auto sorted = values;
    std::sort(sorted.begin(), sorted.end(), [](float a, float b) { return a > b; });
    int k = 1 + random.below(n);
    check(least_kept(values.data(), nullptr, n, k) == sorted[k - 1], "selection: the k-th largest");
    check(least_kept(values.data(), nullptr, n, n + 1) == sorted[n - 1], "selection: the least of all");
    // Masses that add up exactly.
    std::vector<float> masses(n);
    for (auto& mass : masses) mass = static_cast<float>(random.below(9)) / 8;
    double limit = (1 + random.below(8 * n)) / 16.0;
    float least = least_kept(values.data(), masses.data(), n, limit), wanted = sorted[n - 1];
    for (float value : sorted) {
      double above = 0;
      for (int i = 0; i < n; ++i) above += values[i] > value ? masses[i] : 0;
      if (above < limit) wanted = value;
    }
    check(least == wanted, "selection: where the mass reaches a limit");
  }
}

// Every instruction set's parts against plain loops.
void test_parts(Random& random, int n) {
  auto x = logits_of(random, n);
  for (const auto& set : instruction_sets()) {
    std::vector<float> maxima(kLanes), weights(n);
    std::vector<int32_t> places(n), wanted;
    set.kernels->lane_maxima(n, x.data(), maxima.data());
    float max = x[first_largest(x)];
    check(*std::max_element(maxima.begin(), maxima.end()) == max, "parts: the largest");
    Weighting how{max, 0.8f};
    set.kernels->weights(n, x.data(), how, weights.data());
    double total = 0;
    for (int i = 0; i < n; ++i) {
      // NaN and infinity weigh nothing; the exponent is rounded to the last place of its own.
      double exponent = std::isfinite(x[i]) ? (x[i] - static_cast<double>(max)) * how.inverse_temperature : -1000;
      double weight = std::exp(exponent);
      check(std::fabs(weights[i] - weight) <= 1e-6 * (1 - exponent) * weight, "parts: a weight");
      total += weights[i];
      if (x[i] >= 0.5f) wanted.push_back(i);
    }
    check(std::fabs(set.kernels->mass(n, x.data(), how, -kInfinity) - total) <= 1e-6 * total, "parts: the mass");
    const float bounds[kBounds] = {-kInfinity, -3, -1, -0.5f, 0, 0.5f, 1, kInfinity};
    float masses[kBounds];
    set.kernels->masses(n, x.data(), how, bounds, masses);
    for (int b = 0; b < kBounds; ++b) {
      check(masses[b] == set.kernels->mass(n, x.data(), how, bounds[b]), "parts: the mass from a bound on");
    }
    int between = set.kernels->places_of(n, x.data(), {-1, 0.5f}, places.data());
    auto inside = [](float logit) { return logit >= -1 && logit < 0.5f; };
    check(between == std::count_if(x.begin(), x.end(), inside), "parts: how many logits a range has");
    int count = set.kernels->places_of(n, x.data(), {0.5f, kNan}, places.data());
    places.resize(count);
    check(places == wanted, "parts: where large logits stand");
  }
}

}  // namespace

void test_sampling() {
  Random random(3);
  test_selection(random);
  for (int n : {1, 2, 15, 16, 17, 63, 300, 1023, 1024}) {
    for (int i = 0; i < 8; ++i) test_parts(random, n);
  }
  for (int n : {1, 15, 16, 17, 300, 1024, 1025, 5000}) {
    for (int i = 0; i < 100; ++i) test_choice(random, n);
    for (int i = 0; i < 20; ++i) test_logs(random, n);
    for (int i = 0; i < 30; ++i) test_masks(random, n);
    test_adjustments(random, n);
    test_rows(random, n);
  }
  for (int i = 0; i < 25; ++i) test_choice(random, 49152);
  for (int i = 0; i < 5; ++i) test_logs(random, 49152);
  test_not_finite();
  std::printf("sampling: passed\n");
}

}  // namespace troupe::test
