// Large pages for memory that is read from one end to the other every step: they spare the translation of its addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace troupe {

constexpr int64_t kLargePage = 2 << 20;

// Asks for large pages where whole ones fit. Where the system refuses, small pages do.
inline void use_large_pages(void* data, size_t bytes) {
#if defined(__linux__)
  auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)), end = begin + static_cast<int64_t>(bytes);
  int64_t first = (begin + kLargePage - 1) / kLargePage * kLargePage, last = end / kLargePage * kLargePage;
  if (first < last) static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
#endif
}

}  // namespace troupe
