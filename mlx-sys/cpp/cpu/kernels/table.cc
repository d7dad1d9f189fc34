#include "cpu/kernels/table.h"

#include <climits>

namespace troupe::TROUPE_ISA {

extern const Kernels kTable;
const Kernels kTable = {
    .linear = linear,
    .quantize_row = quantize_row,
    .packed_integer = packed_integer,
    .packed_f32 = packed_f32,
    .dense = dense,
    .attend = attend,
    .merge = merge,
    .write_kv = write_kv,
    .widen_kv = widen_kv,
#if defined(__AVX2__)
    // Converting costs less than writing the floats and reading them back.
    .widen_from = INT_MAX,
#else
    .widen_from = 24,
#endif
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .silu_times = silu_times,
    .gelu_times = gelu_times,
    .rotate = rotate,
    .lane_maxima = lane_maxima,
    .weights = weights,
    .mass = mass,
    .masses = masses,
    .places_of = places_of,
    .penalise = penalise,
    .read = read,
    .multiply_add = multiply_add,
};

}  // namespace troupe::TROUPE_ISA
