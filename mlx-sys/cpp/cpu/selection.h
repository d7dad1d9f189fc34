// Selection by value without sorting: a radix search over the bits of floats.
#pragma once

#include <cstddef>

namespace troupe {

// The least of `values` for which the masses of all values above it add up to less than `limit`; the least of all if
// the whole mass is less. Without masses each value has mass one, so that a limit of k gives the k-th largest value.
// Equal values share a fate. There is at least one value and none is NaN; a limit is positive, a mass not negative.
float least_kept(const float* values, const float* masses, size_t count, double limit);

}  // namespace troupe
