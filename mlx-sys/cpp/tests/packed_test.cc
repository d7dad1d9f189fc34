#include <limits>

#include "check.h"
#include "cpu/dispatch.h"
#include "cpu/packed.h"
#include "cpu/pool.h"

namespace troupe::test {
namespace {

constexpr int kAllBits[] = {2, 3, 4, 5, 6, 8};
constexpr ActivationType kTypes[] = {ActivationType::int8, ActivationType::int16, ActivationType::f32};
constexpr Number kNumbers[] = {Number::f32, Number::f16, Number::bf16};

// A random matrix as stored, as packed and as plain numbers.
struct Matrix {
  PackedShape shape;
  std::vector<uint8_t> elements, scales, biases, buffer;
  std::vector<float> values;
  PackedMatrix packed;

  Matrix(const PackedShape& shape, Random& random) : shape(shape) {
    size_t groups = static_cast<size_t>(shape.n) * (shape.k / shape.group), number = number_bytes(shape.scales);
    elements.resize(static_cast<size_t>(shape.n) * shape.k / 8 * shape.bits);
    for (auto& byte : elements) byte = static_cast<uint8_t>(random.bits());
    scales.resize(groups * number);
    biases.resize(groups * number);
    for (size_t g = 0; g < groups; ++g) {
      write_number(shape.scales, 0.01f + 0.1f * std::fabs(random.unit()), &scales[g * number]);
      write_number(shape.scales, -0.3f - std::fabs(random.unit()), &biases[g * number]);
    }
    read_values();
    buffer.resize(packed_bytes(shape) + kVector, 0xa5);
    // The buffer has kVector bytes to spare.
    uint8_t* panels = buffer.data() + (kVector - reinterpret_cast<uintptr_t>(buffer.data()) % kVector) % kVector;
    pack({shape, elements.data(), scales.data(), biases.data()}, panels);
    packed = {shape, panels};
  }

  void read_values() {
    size_t number = number_bytes(shape.scales);
    for (int row = 0; row < shape.n; ++row) {
      for (int column = 0; column < shape.k; ++column) {
        size_t bit = static_cast<size_t>(column) * shape.bits;
        const uint8_t* stream = elements.data() + static_cast<size_t>(row) * shape.k / 8 * shape.bits;
        int q = 0;
        for (int b = 0; b < shape.bits; ++b) q |= (stream[(bit + b) / 8] >> ((bit + b) % 8) & 1) << b;
        size_t group = static_cast<size_t>(row) * (shape.k / shape.group) + column / shape.group;
        float scale = read_number(shape.scales, &scales[group * number]);
        values.push_back(scale * static_cast<float>(q) + read_number(shape.scales, &biases[group * number]));
      }
    }
  }
};

std::string name_of(const char* what, const char* set, int m, const PackedShape& s) {
  return std::string(what) + " " + set + " " + std::to_string(m) + "x" + std::to_string(s.n) + "x" +
         std::to_string(s.k) + ", " + std::to_string(s.bits) + " bits, group " + std::to_string(s.group) +
         ", number " + std::to_string(static_cast<int>(s.scales));
}

const char* name_of(ActivationType type) {
  return type == ActivationType::int8 ? "int8" : type == ActivationType::int16 ? "int16" : "f32";
}

// Activations as a table's kernels make them.
struct Quantized {
  std::vector<int8_t> q;
  std::vector<float> scales, sums;
  std::vector<int32_t> counts;
  IntegerRows rows;

  Quantized(const Kernels& kernels, ActivationType type, const PackedShape& s, int m, const float* x) {
    int planes = type == ActivationType::int8 ? 1 : 2;
    size_t padded = (static_cast<size_t>(m) + kTileRows - 1) / kTileRows * kTileRows;
    q.resize(padded * s.k * planes);
    scales.resize(padded * s.k / kChunk);
    counts.resize(scales.size());
    sums.resize(padded * s.k / s.group);
    rows = {m, s.k, s.group, planes, q.data(), scales.data(), counts.data(), sums.data()};
    for (int row = 0; row < m; ++row) kernels.quantize_row(x + static_cast<size_t>(row) * s.k, row, rows);
  }

  size_t chunk_at(int row, int column) const {
    return (static_cast<size_t>(row / kTileRows) * (rows.k / kChunk) + column / kChunk) * kTileRows + row % kTileRows;
  }
  double value(int row, int column) const {
    size_t at = chunk_at(row, column);
    const int8_t* first = &q[at * rows.planes * kChunk + column % kChunk];
    return static_cast<double>(scales[at]) * (rows.planes == 1 ? *first : 256 * *first + first[kChunk]);
  }
};

std::vector<float> product(const Kernels& kernels, const Matrix& w, ActivationType type, int m, const float* x) {
  std::vector<float> out(static_cast<size_t>(m) * w.shape.n, 7.0f);
  Panels panels{0, panel_count(w.shape)};
  Output output{out.data(), w.shape.n, w.shape.n};
  if (type != ActivationType::f32) {
    Quantized quantized(kernels, type, w.shape, m, x);
    kernels.packed_integer(w.packed, quantized.rows, panels, output);
  } else {
    kernels.packed_f32(w.packed, {m, x, w.shape.k}, panels, output);
  }
  return out;
}

// The bound that the format promises, and what follows from it for the sums.
void check_quantized(const Quantized& quantized, const std::vector<float>& x, const std::string& name) {
  for (int row = 0; row < quantized.rows.m; ++row) {
    for (int column = 0; column < quantized.rows.k; ++column) {
      float scale = quantized.scales[quantized.chunk_at(row, column)];
      double error = quantized.value(row, column) - x[static_cast<size_t>(row) * quantized.rows.k + column];
      float step = (quantized.rows.planes == 1 ? 0.5001f : 1.01f) * scale;
      check(std::fabs(error) <= step, name + ": an activation is off by more than its step allows");
    }
  }
}

// A product in f64, of the activations as they were rounded when they were.
void check_product(const Matrix& w, int m, const std::vector<float>& x, const Quantized* rounded,
                   const std::vector<float>& found, const std::string& name) {
  const auto& s = w.shape;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < s.n; ++column) {
      double wanted = 0, size = 0;
      for (int i = 0; i < s.k; ++i) {
        double a = rounded ? rounded->value(row, i) : x[static_cast<size_t>(row) * s.k + i];
        double b = w.values[static_cast<size_t>(column) * s.k + i];
        wanted += a * b;
        // Scale and bias meet their sums apart, so the rounding is that of terms larger than the product.
        size += std::fabs(a) * (std::fabs(b) + 30);
      }
      double error = found[static_cast<size_t>(row) * s.n + column] - wanted;
      check(std::fabs(error) <= 1e-6 * size + 1e-30, name + ": off by " + std::to_string(error));
    }
  }
}

void test_shape(Random& random, int m, const PackedShape& s) {
  Matrix w(s, random);
  auto x = noise(random, static_cast<size_t>(m) * s.k);
  for (const auto& set : instruction_sets()) {
    for (ActivationType type : kTypes) {
      bool integers = type != ActivationType::f32;
      auto name = name_of(name_of(type), set.name, m, s);
      auto found = product(*set.kernels, w, type, m, x.data());
      Quantized rounded(*set.kernels, type, s, m, x.data());
      if (integers) check_quantized(rounded, x, name);
      check_product(w, m, x, integers ? &rounded : nullptr, found, name);
      for (int row = 0; row < m; ++row) {
        auto alone = product(*set.kernels, w, type, 1, x.data() + static_cast<size_t>(row) * s.k);
        const float* in_company = found.data() + static_cast<size_t>(row) * s.n;
        check(same_bits(alone.data(), in_company, s.n), name + ": a row differs alone");
      }
    }
  }
  std::vector<float> row(s.k);
  for (int i = 0; i < s.n; ++i) {
    packed_row(w.packed, i, row.data());
    check(same_bits(row.data(), w.values.data() + static_cast<size_t>(i) * s.k, s.k), name_of("row", "", i, s));
  }
}

// A number that is not finite makes its own row NaN and leaves the others.
void test_not_finite(Random& random) {
  PackedShape s{37, 256, 64, 4, Number::f16};
  Matrix w(s, random);
  int m = 11;
  auto x = noise(random, static_cast<size_t>(m) * s.k);
  for (const auto& set : instruction_sets()) {
    for (ActivationType type : kTypes) {
      auto clean = product(*set.kernels, w, type, m, x.data());
      for (float bad : {NAN, INFINITY, -INFINITY}) {
        auto spoilt = x;
        spoilt[3 * s.k + 200] = bad;
        auto found = product(*set.kernels, w, type, m, spoilt.data());
        for (int i = 0; i < m * s.n; ++i) {
          if (i / s.n != 3) {
            check(same_bits(&found[i], &clean[i], 1), "another row's bad number is felt");
          } else {
            bool carried = type == ActivationType::f32 ? !std::isfinite(found[i]) : std::isnan(found[i]);
            check(carried, "a bad number is lost");
          }
        }
      }
    }
  }
}

// Extremes that quantisation has to survive.
void test_extremes(Random& random) {
  PackedShape s{16, 64, 32, 8, Number::f32};
  Matrix w(s, random);
  for (float size : {0.0f, 1e-45f, 1e-38f, 1e-31f, 1e30f, std::numeric_limits<float>::max() / 1e4f}) {
    std::vector<float> x(s.k, size);
    x[5] = -size;
    for (const auto& set : instruction_sets()) {
      auto found = product(*set.kernels, w, ActivationType::int8, 1, x.data());
      for (int row = 0; row < s.n; ++row) {
        double wanted = 0, magnitude = 0;
        for (int i = 0; i < s.k; ++i) {
          wanted += static_cast<double>(x[i]) * w.values[static_cast<size_t>(row) * s.k + i];
          magnitude += std::fabs(static_cast<double>(x[i])) * 30;
        }
        check(std::fabs(found[row] - wanted) <= 1e-2 * magnitude + 1e-27, name_of("extremes", set.name, 1, s));
      }
    }
  }
}

void test_threads(Random& random) {
  for (int m : {1, 13}) {
    PackedShape s{1000, 320, 32, 4, Number::f16};
    Matrix w(s, random);
    auto x = noise(random, static_cast<size_t>(m) * s.k);
    for (ActivationType type : kTypes) {
      std::vector<float> first;
      for (size_t threads : {1, 2, 4}) {
        set_pool_threads(threads);
        std::vector<float> out(static_cast<size_t>(m) * s.n);
        if (type == ActivationType::f32) {
          packed_product(w.packed, {m, x.data(), s.k}, out.data());
        } else {
          packed_integer_product(w.packed, type, {}, {m, x.data(), s.k}, out.data());
        }
        if (first.empty()) first = product(kernels(), w, type, m, x.data());
        check(same_bits(first.data(), out.data(), out.size()), "packed: the number of threads changes bits");
      }
    }
  }
}

}  // namespace

void test_packed() {
  Random random(2);
  for (int bits : kAllBits) {
    for (int group : {32, 64, 128}) {
      for (Number number : kNumbers) {
        for (int m : {0, 1, 1 + random.below(8), 8 + random.below(16)}) {
          int n = 1 + random.below(50), k = group * (1 + random.below(5));
          test_shape(random, m, {n, k, group, bits, number});
        }
      }
    }
    test_shape(random, 1, {1, 32, 32, bits, Number::f16});
    test_shape(random, 3, {5, 0, 32, bits, Number::f16});
  }
  // More rows than one block of activations.
  test_shape(random, 70, {16, 16384, 128, 4, Number::f16});
  test_not_finite(random);
  test_extremes(random);
  test_threads(random);
  check(!can_pack({16, 64, 32, 7, Number::f16}), "7 bits are refused");
  check(!can_pack({16, 64, 16, 4, Number::f16}), "a group of 16 is refused");
  check(!can_pack({16, 80, 32, 4, Number::f16}), "columns that are no whole groups are refused");
  std::printf("packed: passed\n");
}

}  // namespace troupe::test
