#include "pages_ahead.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "large_pages.h"

namespace troupe {
namespace {

size_t stride_of(const std::vector<BlockMemory>& slabs) {
  size_t largest = 1;
  for (const auto& slab : slabs) largest = std::max(largest, slab.block_bytes);
  return std::max<size_t>(1, static_cast<size_t>(kLargePage) / largest);
}

std::vector<BlockMemory> memory_of(const std::vector<mlx::core::array>& slabs) {
  std::vector<BlockMemory> memory;
  for (const auto& slab : slabs) {
    if (slab.ndim() == 0 || slab.size() == 0) continue;
    auto count = static_cast<size_t>(slab.shape(0));
    memory.push_back({const_cast<char*>(slab.data<char>()), slab.nbytes() / count, count});
  }
  return memory;
}

}  // namespace

PagePopulator::PagePopulator(std::vector<BlockMemory> slabs)
    : slabs_(std::move(slabs)), stride_(stride_of(slabs_)), wanted_(stride_), thread_([this] { run(); }) {}

PagePopulator::~PagePopulator() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// From the middle of a page on, the next one is wanted.
void PagePopulator::used(size_t blocks) {
  size_t wanted = ((blocks + stride_ / 2) / stride_ + 1) * stride_;
  {
    std::lock_guard lock(mutex_);
    if (wanted <= wanted_) return;
    wanted_ = wanted;
  }
  changed_.notify_all();
}

size_t PagePopulator::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return refused_ || present_ == wanted_; });
  return present_;
}

void PagePopulator::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || present_ < wanted_; });
    if (stop_) return;
    size_t first = present_, last = first + stride_;
    for (const auto& slab : slabs_) {
      lock.unlock();
      bool done = populate(slab, first, last);
      lock.lock();
      if (stop_) return;
      if (!done) {
        // Pages come when they are written to, as they would have without this.
        refused_ = true;
        changed_.notify_all();
        return;
      }
    }
    present_ = last;
    changed_.notify_all();
  }
}

// Makes the pages of blocks first..last present without a change to what is in them. Answers whether the system can.
bool PagePopulator::populate(const BlockMemory& slab, size_t first, size_t last) const {
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
  first = std::min(first, slab.count), last = std::min(last, slab.count);
  if (first == last) return true;
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), start = reinterpret_cast<uintptr_t>(slab.data);
  uintptr_t from = (start + first * slab.block_bytes) / page * page, to = start + last * slab.block_bytes;
  return madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE) == 0;
#else
  static_cast<void>(slab), static_cast<void>(first), static_cast<void>(last);
  return false;
#endif
}

PagesAhead::PagesAhead(const std::vector<mlx::core::array>& slabs) : slabs_(slabs), populator_(memory_of(slabs)) {}

void PagesAhead::used(size_t blocks) const { populator_.used(blocks); }

size_t PagesAhead::settle() const { return populator_.settle(); }

std::unique_ptr<PagesAhead> pages_ahead(const std::vector<mlx::core::array>& slabs) {
  return std::make_unique<PagesAhead>(slabs);
}

}  // namespace troupe
