#include "check.h"
#include "cpu/dense.h"
#include "cpu/dispatch.h"
#include "cpu/linear.h"
#include "cpu/pool.h"

namespace troupe::test {
namespace {

// Random numbers as stored and as floats.
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

// The same numbers as a matrix in panels.
struct PanelWeights : Weights {
  std::vector<uint8_t> buffer;
  DensePanels matrix;

  PanelWeights(const DenseShape& shape, Random& random)
      : Weights(shape.number, random, static_cast<size_t>(shape.n) * shape.k) {
    repack(shape);
  }

  void repack(const DenseShape& shape) {
    buffer.assign(dense_bytes(shape) + kVector, 0xa5);
    // The buffer has kVector bytes to spare.
    uint8_t* panels = buffer.data() + (kVector - reinterpret_cast<uintptr_t>(buffer.data()) % kVector) % kVector;
    dense_pack(shape, bytes.data(), panels);
    matrix = {shape, panels};
  }
};

std::string name_of(const char* set, int m, const DenseShape& s) {
  return std::string("panels ") + set + " " + std::to_string(m) + "x" + std::to_string(s.n) + "x" +
         std::to_string(s.k) + " of number " + std::to_string(static_cast<int>(s.number));
}

std::vector<float> product(const Kernels& kernels, const DensePanels& w, const FloatRows& x) {
  std::vector<float> out(static_cast<size_t>(x.m) * w.shape.n, 7.0f);
  kernels.dense(w, x, {0, dense_panel_count(w.shape)}, {out.data(), w.shape.n, w.shape.n});
  return out;
}

// The sums in the order of the columns, each step rounded once (fused) or twice.
std::vector<float> sums_in_order(const PanelWeights& w, const FloatRows& x, bool fused) {
  const auto& s = w.matrix.shape;
  std::vector<float> sums;
  for (int row = 0; row < x.m; ++row) {
    for (int i = 0; i < s.n; ++i) {
      float sum = 0;
      for (int column = 0; column < s.k; ++column) {
        float a = x.data[row * x.stride + column], b = w.values[static_cast<size_t>(i) * s.k + column];
        sum = fused ? std::fma(a, b, sum) : sum + a * b;
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

// Every instruction set gives the very sums of a plain loop, for rows that are together, alone, and anywhere in memory.
void test_panels(Random& random, int m, const DenseShape& s) {
  PanelWeights w(s, random);
  int64_t stride = s.k + random.below(4);
  auto data = noise(random, static_cast<size_t>(m) * stride + 1);
  FloatRows x{m, data.data() + 1, stride};
  auto fused = sums_in_order(w, x, true), unfused = sums_in_order(w, x, false);
  for (const auto& set : instruction_sets()) {
    auto name = name_of(set.name, m, s);
    auto found = product(*set.kernels, w.matrix, x);
    check(same_bits(found.data(), fused.data(), fused.size()) || same_bits(found.data(), unfused.data(), unfused.size()),
          name + ": not the sums in the order of the columns");
    for (int row = 0; row < m; ++row) {
      auto alone = product(*set.kernels, w.matrix, {1, x.data + row * stride, stride});
      check(same_bits(alone.data(), found.data() + static_cast<size_t>(row) * s.n, s.n), name + ": a row differs alone");
    }
  }
  std::vector<float> row(s.k);
  for (int i = 0; i < s.n; ++i) {
    dense_row(w.matrix, i, row.data());
    check(same_bits(row.data(), w.values.data() + static_cast<size_t>(i) * s.k, s.k), name_of("row", i, s));
  }
}

// The same bits from every number of threads, into rows that are apart, and nothing between them.
void test_panel_threads(Random& random, int m, const DenseShape& s) {
  PanelWeights w(s, random);
  auto x = noise(random, static_cast<size_t>(m) * s.k);
  FloatRows rows{m, x.data(), s.k};
  auto wanted = product(kernels(), w.matrix, rows);
  int64_t stride = s.n + 5;
  for (size_t threads : {1, 2, 4}) {
    set_pool_threads(threads);
    std::vector<float> out(static_cast<size_t>(m) * stride, 7.0f);
    dense_product(w.matrix, rows, out.data(), stride);
    for (int row = 0; row < m; ++row) {
      const float* found = out.data() + row * stride;
      check(same_bits(found, wanted.data() + static_cast<size_t>(row) * s.n, s.n),
            name_of("threads", m, s) + ": the number of threads changes bits");
      for (int64_t i = s.n; i < stride; ++i) check(found[i] == 7.0f, name_of("stride", m, s) + ": written between rows");
    }
  }
}

// A number that is not finite is felt in its own row of x, or its own row of the matrix, and nowhere else.
void test_panels_not_finite(Random& random, Number number) {
  DenseShape s{37, 50, number};
  PanelWeights w(s, random);
  int m = 11;
  auto x = noise(random, static_cast<size_t>(m) * s.k);
  for (const auto& set : instruction_sets()) {
    auto clean = product(*set.kernels, w.matrix, {m, x.data(), s.k});
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      auto spoilt = x;
      spoilt[3 * s.k + 20] = bad;
      auto found = product(*set.kernels, w.matrix, {m, spoilt.data(), s.k});
      auto other = w;
      uint32_t bits;
      std::memcpy(&bits, &bad, sizeof(bits));
      uint16_t half = static_cast<uint16_t>(number == Number::bf16 ? bits >> 16 : bits >> 16 & 0x8000);
      if (number == Number::f16) half = static_cast<uint16_t>(half | (std::isnan(bad) ? 0x7e00 : 0x7c00));
      size_t at = 5 * s.k + 20, each = number_bytes(number);
      std::memcpy(&other.bytes[at * each], number == Number::f32 ? static_cast<void*>(&bits) : &half, each);
      other.repack(s);
      auto beside = product(*set.kernels, other.matrix, {m, x.data(), s.k});
      for (int i = 0; i < m * s.n; ++i) {
        bool row_kept = same_bits(&found[i], &clean[i], 1), column_kept = same_bits(&beside[i], &clean[i], 1);
        check(i / s.n == 3 ? !std::isfinite(found[i]) : row_kept, name_of(set.name, m, s) + ": a bad activation");
        check(i % s.n == 5 ? !std::isfinite(beside[i]) : column_kept, name_of(set.name, m, s) + ": a bad weight");
      }
    }
  }
}

void test_all_panels(Random& random, Number number) {
  for (int i = 0; i < 60; ++i) test_panels(random, random.below(20), {1 + random.below(100), random.below(70), number});
  for (int m = 0; m < 18; ++m) test_panels(random, m, {33, 19, number});
  test_panels(random, 1, {1, 1, number});
  test_panels(random, 3, {0, 8, number});
  // More rows than one block.
  test_panels(random, 40, {5, 5000, number});
  for (int m : {1, 13}) test_panel_threads(random, m, {700, 300, number});
  test_panel_threads(random, 37, {97, 1111, number});
  test_panels_not_finite(random, number);
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
    test_all_panels(random, number);
  }
  std::printf("dense: passed\n");
}

}  // namespace troupe::test
