// The product of linear layers on our threads.
#pragma once

#include "cpu/kernels/kernels.h"

namespace troupe {

void linear(const Linear& product);

}  // namespace troupe
