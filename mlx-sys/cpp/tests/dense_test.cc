#include "check.h"
#include "cpu/dispatch.h"
#include "cpu/linear.h"
#include "cpu/pool.h"

namespace troupe::test {
namespace {

struct Weights {
  Number number;
  std::vector<uint8_t> bytes;
  std::vector<float> values;

  Weights(Number number, Random& random, size_t count) : number(number), values(noise(random, count)) {
    size_t each = number_bytes(number);
    bytes.resize(count * each);
    for (size_t i = 0; i < count; ++i) {
      if (std::fabs(values[i]) < 0x1p-14f) values[i] = 0;
      write_number(number, values[i], &bytes[i * each]);
      values[i] = read_number(number, &bytes[i * each]);
    }
  }
};

void check_close(const std::vector<float>& x, const Weights& w, int k, const std::vector<float>& found,
                 const std::string& name) {
  size_t n = w.values.size() / k;
  for (size_t i = 0; i < found.size(); ++i) {
    double wanted = 0, size = 0;
    for (int j = 0; j < k; ++j) {
      double product = static_cast<double>(x[i / n * k + j]) * w.values[i % n * k + j];
      wanted += product;
      size += std::fabs(product);
    }
    check(std::fabs(found[i] - wanted) <= 1e-6 * size + 1e-30, name + ": " + std::to_string(found[i]) + " is not " +
                                                                   std::to_string(wanted));
  }
}

// Right numbers from every instruction set, and rows that are the same alone.
void test_shape(Random& random, int m, int n, int k, Number number) {
  Weights w(number, random, static_cast<size_t>(n) * k);
  auto x = noise(random, static_cast<size_t>(m) * k);
  for (const auto& set : instruction_sets()) {
    std::string name = std::string("dense ") + set.name + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                       std::to_string(k) + " of number " + std::to_string(static_cast<int>(number));
    std::vector<float> out(static_cast<size_t>(m) * n, 7.0f), alone(n);
    set.kernels->linear({m, n, k, 1, 0, x.data(), k, w.bytes.data(), number, k, out.data(), n}, 0, n);
    check_close(x, w, k, out, name);
    for (int row = 0; row < m; ++row) {
      set.kernels->linear({1, n, k, 1, 0, x.data() + row * k, k, w.bytes.data(), number, k, alone.data(), n}, 0, n);
      check(same_bits(alone.data(), out.data() + row * n, n), name + ": a row differs alone");
    }
  }
}

void test_threads(Random& random, Number number) {
  int m = 5, n = 700, k = 300;
  Weights w(number, random, static_cast<size_t>(n) * k);
  auto x = noise(random, static_cast<size_t>(m) * k);
  std::vector<float> first;
  for (size_t threads : {1, 2, 4}) {
    set_pool_threads(threads);
    std::vector<float> out(static_cast<size_t>(m) * n);
    linear({m, n, k, 1, 0, x.data(), k, w.bytes.data(), number, k, out.data(), n});
    if (first.empty()) first = out;
    check(same_bits(first.data(), out.data(), out.size()), "dense: the number of threads changes bits");
  }
}

}  // namespace

void test_dense() {
  Random random(1);
  for (Number number : {Number::f32, Number::f16, Number::bf16}) {
    for (int i = 0; i < 60; ++i) {
      test_shape(random, random.below(9), 1 + random.below(40), 1 + random.below(100), number);
    }
    test_shape(random, 1, 1, 1, number);
    test_shape(random, 100, 17, 64, number);
    test_threads(random, number);
  }
  std::printf("dense: passed\n");
}

}  // namespace troupe::test
