#include "pages_ahead.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <unistd.h>

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

// Writes to the page of `address` what it holds: a zero that is there becomes a zero, in one access, so that nothing is
// lost of what others write meanwhile. A page that holds anything else at this place is present already.
void touch(uintptr_t address) {
  unsigned char zero = 0;
  auto* byte = reinterpret_cast<unsigned char*>(address);
  __atomic_compare_exchange_n(byte, &zero, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// Makes the pages of blocks first..last present. Each comes by a fault of its own, for which the system locks this mapping
// alone: asking for all in one call would hold up whoever maps memory meanwhile, and allocators do.
void populate(const BlockMemory& slab, size_t first, size_t last) {
  first = std::min(first, slab.count), last = std::min(last, slab.count);
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), start = reinterpret_cast<uintptr_t>(slab.data);
  uintptr_t from = start + first * slab.block_bytes, to = start + last * slab.block_bytes;
  for (uintptr_t address = from; address < to; address = (address / page + 1) * page) touch(address);
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
  changed_.wait(lock, [this] { return present_ == wanted_; });
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
      auto begun = std::chrono::steady_clock::now();
      populate(slab, first, last);
      auto took = std::chrono::steady_clock::now() - begun;
      lock.lock();
      // Clearing pages keeps a core busy: it is the others' for as long. At first there are none.
      auto rest = first > 0 ? took : took.zero();
      if (changed_.wait_for(lock, rest, [this] { return stop_; })) return;
    }
    present_ = last;
    changed_.notify_all();
  }
}

PagesAhead::PagesAhead(const std::vector<mlx::core::array>& slabs) : slabs_(slabs), populator_(memory_of(slabs)) {}

void PagesAhead::used(size_t blocks) const { populator_.used(blocks); }

size_t PagesAhead::settle() const { return populator_.settle(); }

std::unique_ptr<PagesAhead> pages_ahead(const std::vector<mlx::core::array>& slabs) {
  return std::make_unique<PagesAhead>(slabs);
}

}  // namespace troupe
