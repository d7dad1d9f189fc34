#include "cpu/packed.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/numbers.h"
#include "cpu/pool.h"

namespace troupe {
namespace {

// Below this many multiplications a wake-up costs more than a second thread brings.
constexpr int64_t kAlone = 1 << 16;
// A part of the work has at least this many, and there are about this many parts a thread, so that the threads finish
// together.
constexpr int64_t kPart = 1 << 15;
constexpr int64_t kPartsOfThread = 8;
// More panels of one part than this do not reuse the activations better.
constexpr int64_t kMostPanels = 8;

int64_t panels_of_part(const PackedShape& shape, int m) {
  int64_t work = static_cast<int64_t>(kPanel) * shape.k * std::max(m, 1);
  int64_t even = panel_count(shape) / (kPartsOfThread * static_cast<int64_t>(pool_threads()));
  return std::max(std::clamp<int64_t>(even, 1, kMostPanels), kPart / std::max<int64_t>(work, 1));
}

// Memory of a call, kept for the next one of the same thread.
struct IntegerScratch {
  std::vector<int8_t> q;
  std::vector<float> scales, sums;
  std::vector<int32_t> counts;

  IntegerRows rows(const PackedShape& shape, int m, int planes) {
    size_t padded = (static_cast<size_t>(m) + kTileRows - 1) / kTileRows * kTileRows;
    q.resize(padded * shape.k * planes);
    scales.resize(padded * (shape.k / kChunk));
    counts.resize(scales.size());
    sums.resize(padded * (shape.k / shape.group));
    return {m, shape.k, shape.group, planes, q.data(), scales.data(), counts.data(), sums.data()};
  }
};

void quantize_rows(const Norm& norm, const FloatRows& x, const IntegerRows& to) {
  int64_t rows_of_part = std::max<int64_t>(1, kPart / std::max(to.k, 1));
  int64_t parts = (x.m + rows_of_part - 1) / rows_of_part;
  parallel_for(static_cast<size_t>(parts), [&](size_t part) {
    static thread_local std::vector<float> normalized;
    int64_t first = static_cast<int64_t>(part) * rows_of_part;
    int64_t last = std::min<int64_t>(first + rows_of_part, x.m);
    for (int64_t row = first; row < last; ++row) {
      const float* from = x.data + row * x.stride;
      if (norm.kind != NormKind::none) {
        normalized.resize(static_cast<size_t>(to.k));
        normalize_row(norm, to.k, from, normalized.data());
        from = normalized.data();
      }
      kernels().quantize_row(from, static_cast<int>(row), to);
    }
  });
}

template <typename F>
void over_panels(const PackedShape& shape, int m, F&& body) {
  int panels = panel_count(shape);
  if (static_cast<int64_t>(m) * shape.n * shape.k < kAlone) return body(Panels{0, panels});
  int64_t each = panels_of_part(shape, m);
  parallel_for(static_cast<size_t>((panels + each - 1) / each), [&](size_t part) {
    int64_t first = static_cast<int64_t>(part) * each;
    body(Panels{static_cast<int>(first), static_cast<int>(std::min<int64_t>(first + each, panels))});
  });
}

// The elements of a chunk of one row, one a byte.
void read_chunk(const uint8_t* stream, int bits, uint8_t* elements) {
  uint8_t mask = static_cast<uint8_t>((1u << bits) - 1);
  // Eight elements are `bits` bytes.
  for (int i = 0; i < kChunk; i += 8, stream += bits, elements += 8) {
    uint64_t word = 0;
    for (int b = 0; b < bits; ++b) word |= static_cast<uint64_t>(stream[b]) << (8 * b);
    for (int j = 0; j < 8; ++j) elements[j] = static_cast<uint8_t>(word >> (bits * j)) & mask;
  }
}

// One plane of a chunk of row r of a panel: bits [from, from + wide) of its elements.
void write_plane(const uint8_t* elements, int from, int wide, uint8_t* row) {
  int share = 8 / wide;
  uint32_t mask = ((1u << wide) - 1) * 0x01010101u;
  for (int vector = 0; vector < wide; ++vector, row += kVector) {
    uint32_t word = 0;
    for (int i = 0; i < share; ++i, elements += kQuad) {
      uint32_t quad;
      std::memcpy(&quad, elements, sizeof(quad));
      word |= ((quad >> from) & mask) << (wide * i);
    }
    std::memcpy(row, &word, sizeof(word));
  }
}

void pack_chunk(const uint8_t* stream, int bits, uint8_t* row) {
  uint8_t elements[kChunk];
  read_chunk(stream, bits, elements);
  int first = first_plane(bits);
  write_plane(elements, 0, first, row);
  if (first < bits) write_plane(elements, first, bits - first, row + first * kVector);
}

void pack_row(const AffineMatrix& from, int64_t row, uint8_t* panel) {
  const auto& s = from.shape;
  size_t number = number_bytes(s.scales), row_bytes = static_cast<size_t>(s.k) / 8 * s.bits;
  int64_t groups = s.k / s.group;
  int r = static_cast<int>(row % kPanel);
  const uint8_t* stream = from.elements + row * row_bytes;
  for (int64_t g = 0; g < groups; ++g, panel += group_bytes(s)) {
    std::memcpy(panel + r * number, from.scales + (row * groups + g) * number, number);
    std::memcpy(panel + scales_bytes(s) + r * number, from.biases + (row * groups + g) * number, number);
    uint8_t* chunk = panel + 2 * scales_bytes(s) + r * kQuad;
    for (int c = 0; c < s.group / kChunk; ++c) {
      pack_chunk(stream, s.bits, chunk);
      stream += kChunk / 8 * s.bits;
      chunk += chunk_bytes(s.bits);
    }
  }
}

int read_plane(const uint8_t* vectors, int wide, int quad, int byte) {
  int share = 8 / wide;
  return vectors[quad / share * kVector + byte] >> (wide * (quad % share)) & ((1 << wide) - 1);
}

}  // namespace

bool can_pack(const PackedShape& s) {
  bool bits = s.bits == 2 || s.bits == 3 || s.bits == 4 || s.bits == 5 || s.bits == 6 || s.bits == 8;
  return bits && s.group > 0 && s.group % kChunk == 0 && s.n >= 0 && s.k >= 0 && s.k % s.group == 0;
}

size_t packed_bytes(const PackedShape& s) { return static_cast<size_t>(panel_count(s)) * panel_bytes(s); }

void pack(const AffineMatrix& from, uint8_t* panels) {
  const auto& s = from.shape;
  parallel_for(static_cast<size_t>(panel_count(s)), [&](size_t index) {
    uint8_t* panel = panels + index * panel_bytes(s);
    int64_t first = static_cast<int64_t>(index) * kPanel, last = std::min<int64_t>(first + kPanel, s.n);
    if (last - first < kPanel) std::memset(panel, 0, panel_bytes(s));
    for (int64_t row = first; row < last; ++row) pack_row(from, row, panel);
  });
}

void packed_product(const PackedMatrix& w, const FloatRows& x, float* out) {
  Output output{out, w.shape.n, w.shape.n};
  over_panels(w.shape, x.m, [&](const Panels& panels) { kernels().packed_f32(w, x, panels, output); });
}

void packed_integer_product(const PackedMatrix& w, ActivationType type, const Norm& norm, const FloatRows& x,
                            float* out) {
  static thread_local IntegerScratch scratch;
  Output output{out, w.shape.n, w.shape.n};
  IntegerRows rows = scratch.rows(w.shape, x.m, type == ActivationType::int8 ? 1 : 2);
  quantize_rows(norm, x, rows);
  over_panels(w.shape, x.m, [&](const Panels& panels) { kernels().packed_integer(w, rows, panels, output); });
}

void packed_row(const PackedMatrix& w, int64_t row, float* out) {
  const auto& s = w.shape;
  int r = static_cast<int>(row % kPanel), first = first_plane(s.bits);
  const uint8_t* group = w.panels + row / kPanel * panel_bytes(s);
  for (int g = 0; g < s.k / s.group; ++g, group += group_bytes(s)) {
    size_t number = number_bytes(s.scales);
    float scale = read_number(s.scales, group + r * number);
    float bias = read_number(s.scales, group + scales_bytes(s) + r * number);
    for (int column = 0; column < s.group; ++column) {
      const uint8_t* chunk = group + 2 * scales_bytes(s) + column / kChunk * chunk_bytes(s.bits);
      int quad = column % kChunk / kQuad, byte = r * kQuad + column % kQuad;
      int q = read_plane(chunk, first, quad, byte);
      if (first < s.bits) q |= read_plane(chunk + first * kVector, s.bits - first, quad, byte) << first;
      *out++ = scale * static_cast<float>(q) + bias;
    }
  }
}

}  // namespace troupe
