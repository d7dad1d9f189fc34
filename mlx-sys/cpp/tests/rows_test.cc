#include "check.h"
#include "cpu/dispatch.h"

namespace troupe::test {
namespace {

void check_near(const std::vector<float>& found, const std::vector<double>& wanted, const std::string& name) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    double error = std::fabs(found[i] - wanted[i]);
    check(error <= 2e-6 * (1 + std::fabs(wanted[i])), name + ": element " + std::to_string(i) + " is off");
  }
  for (size_t i = wanted.size(); i < found.size(); ++i) check(found[i] == 7.0f, name + ": written past the end");
}

// Results with room behind them that nobody may write to.
std::vector<float> room(int n) { return std::vector<float>(n + 3, 7.0f); }

void test_norm(const InstructionSet& set, Random& random, int n) {
  auto x = noise(random, n), weight = noise(random, n);
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * v;
  double factor = 1 / std::sqrt(squares / n + 1e-5);
  std::vector<double> plain, weighted;
  for (int i = 0; i < n; ++i) {
    plain.push_back(x[i] * factor);
    weighted.push_back(plain[i] * weight[i]);
  }
  std::string name = std::string("rms_norm ") + set.name + " of " + std::to_string(n);
  auto out = room(n);
  set.kernels->rms_norm(n, x.data(), weight.data(), 1e-5f, out.data());
  check_near(out, weighted, name);
  set.kernels->rms_norm(n, x.data(), nullptr, 1e-5f, out.data());
  check_near(out, plain, name + ", no weight");
}

void test_silu(const InstructionSet& set, Random& random, int n) {
  auto gate = noise(random, n), up = noise(random, n);
  for (float& g : gate) g *= 90;
  std::vector<double> wanted;
  for (int i = 0; i < n; ++i) wanted.push_back(gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i]);
  auto out = room(n);
  set.kernels->silu_times(n, gate.data(), up.data(), out.data());
  check_near(out, wanted, std::string("silu_times ") + set.name + " of " + std::to_string(n));
}

void test_rotate(const InstructionSet& set, Random& random, int half) {
  auto x = noise(random, 2 * half), cos = noise(random, half), sin = noise(random, half);
  std::vector<double> wanted(2 * half);
  for (int i = 0; i < half; ++i) {
    double a = x[i], b = x[half + i];
    wanted[i] = a * cos[i] - b * sin[i];
    wanted[half + i] = b * cos[i] + a * sin[i];
  }
  auto out = room(2 * half);
  set.kernels->rotate(half, x.data(), cos.data(), sin.data(), out.data());
  check_near(out, wanted, std::string("rotate ") + set.name + " of " + std::to_string(half));
}

// The probes of the machine's limits do the work that they are timed for.
void test_limits(const InstructionSet& set) {
  std::vector<uint8_t> bytes(9 * 1024);  // a multiple of what every set reads in a step
  uint32_t wanted = 0;
  for (uint32_t i = 0; i < bytes.size() / 4; ++i) {
    uint32_t word = i * 0x9e3779b9u;
    wanted += word;
    std::memcpy(&bytes[4 * i], &word, sizeof(word));
  }
  check(set.kernels->read(bytes.data(), bytes.size()) == wanted, std::string("read ") + set.name);
  // x = 1 + x / 2 comes to 2 in every lane of every chain.
  int64_t operations = 0;
  float sum = set.kernels->multiply_add(100, 1.0f, 0.5f, &operations);
  check(static_cast<float>(operations) == 100 * sum, std::string("multiply_add ") + set.name);
}

}  // namespace

void test_rows() {
  for (const auto& set : instruction_sets()) {
    Random random(3);
    test_limits(set);
    for (int n : {1, 7, 16, 17, 100, 576}) {
      test_norm(set, random, n);
      test_silu(set, random, n);
      test_rotate(set, random, n);
    }
  }
  std::printf("rows: passed\n");
}

}  // namespace troupe::test
