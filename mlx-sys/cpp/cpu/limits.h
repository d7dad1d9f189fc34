// What the pool's threads can do at most with the instruction set in use, for benches to compare kernels with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

// Reads `count` bytes once, and answers a sum of them that nobody needs.
__attribute__((visibility("default"))) uint64_t read_once(const uint8_t* bytes, size_t count);

// Multiplies and adds f32 numbers in registers, `rounds` times in each of several chains, and answers how many
// operations that was: two for a product that is added.
__attribute__((visibility("default"))) int64_t multiply_and_add(int64_t rounds);

}  // namespace troupe
