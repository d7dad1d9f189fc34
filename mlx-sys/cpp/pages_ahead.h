// Memory that is used from its beginning on, made present before it is.
//
// The first write to a page makes the system find and clear one. Slabs of all layers are filled side by side, so all of
// them come to a new large page within the same step, which then takes a tenth of a second and more. A thread of its own
// touches the pages before a step does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mlx/mlx.h"

namespace troupe {

// A slab: `count` blocks of `block_bytes` each.
struct BlockMemory {
  char* data;
  size_t block_bytes;
  size_t count;
};

class PagePopulator {
 public:
  // Begins with the first large page of each slab. The memory must outlive this.
  explicit PagePopulator(std::vector<BlockMemory> slabs);
  PagePopulator(const PagePopulator&) = delete;
  PagePopulator& operator=(const PagePopulator&) = delete;
  // Waits for a page that is being made, not for what else is wanted.
  ~PagePopulator();

  // The first `blocks` blocks are in use: those that come next will be wanted soon. Does not wait.
  void used(size_t blocks);

  // Waits until the thread has nothing left to do. Answers how many blocks of each slab are present.
  size_t settle();

 private:
  void run();

  const std::vector<BlockMemory> slabs_;
  size_t stride_;  // blocks whose part of the largest slab fills a large page
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t wanted_, present_ = 0;  // blocks
  bool stop_ = false;
  std::thread thread_;
};

// The same of arrays of blocks, which it holds on to.
class PagesAhead {
 public:
  explicit PagesAhead(const std::vector<mlx::core::array>& slabs);
  void used(size_t blocks) const;
  size_t settle() const;

 private:
  std::vector<mlx::core::array> slabs_;
  mutable PagePopulator populator_;
};

std::unique_ptr<PagesAhead> pages_ahead(const std::vector<mlx::core::array>& slabs);

}  // namespace troupe
