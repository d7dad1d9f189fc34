#include "panels.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cpu/kernels/packed.h"
#include "cpu/pool.h"
#include "cpu_node.h"
#include "large_pages.h"

namespace troupe {
namespace mx = mlx::core;
using mx::array;

namespace {

constexpr int64_t kBlock = 16 * kLargePage;

int64_t rounded_up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

// Rows of kVector bytes, since one axis would be too long for the largest of matrices.
mx::Shape shape_of(int64_t bytes) { return {static_cast<int>(bytes / kVector), kVector}; }

// Memory of MLX's allocator, so that what is in use is counted. What is not touched takes none.
class Block {
 public:
  explicit Block(int64_t bytes)
      : memory_(mx::allocator::malloc(bytes + kLargePage), shape_of(bytes + kLargePage), mx::uint8), size_(bytes) {
    auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory_.data<uint8_t>()));
    start_ = rounded_up(address, kLargePage) - address;
    use_large_pages(memory_.data<uint8_t>() + start_, static_cast<size_t>(bytes));
  }

  bool fits(int64_t bytes) const { return bytes <= size_ - used_; }

  // The next `bytes`, a multiple of kVector that fits.
  array take(int64_t bytes) {
    array part(shape_of(bytes), mx::uint8, nullptr, {});
    auto flags = memory_.flags();
    part.copy_shared_buffer(memory_, {kVector, 1}, flags, static_cast<size_t>(bytes), start_ + used_);
    part.set_status(array::Status::available);
    used_ += bytes;
    return part;
  }

 private:
  array memory_;
  int64_t start_, size_, used_ = 0;
};

}  // namespace

array panel_memory(size_t size) {
  // The block that is being filled outlives its matrices; the next model goes on in it.
  static std::mutex mutex;
  // Never destroyed, since the allocator may be gone when the process ends.
  static auto& open = *new std::optional<Block>;

  auto bytes = rounded_up(static_cast<int64_t>(size), kVector);
  if (bytes > kBlock / 2) return Block(bytes).take(bytes);
  std::lock_guard<std::mutex> lock(mutex);
  if (!open || !open->fits(bytes)) open.emplace(kBlock);
  return open->take(bytes);
}

array rows_node(const char* name, const array& ids, const array& data, MatrixSize size, ReadRow read) {
  auto out = ids.shape();
  out.push_back(size.columns);
  auto input = mx::contiguous(mx::astype(ids, mx::int32));
  auto body = [name, size, read = std::move(read)](std::vector<array>& in, array& out) {
    const auto* ids = in[0].data<int32_t>();
    for (size_t i = 0; i < in[0].size(); ++i) {
      if (ids[i] >= 0 && ids[i] < size.rows) continue;
      auto text = "row " + std::to_string(ids[i]) + " of " + std::to_string(size.rows);
      throw std::out_of_range("[" + std::string(name) + "] " + text);
    }
    parallel_for(in[0].size(), [&](size_t i) { read(in[1], ids[i], out.data<float>() + i * size.columns); });
  };
  return cpu_node(name, std::move(out), {input, data}, std::move(body));
}

}  // namespace troupe
