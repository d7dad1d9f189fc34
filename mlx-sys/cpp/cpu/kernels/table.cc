#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {

extern const Kernels kTable;
const Kernels kTable = {linear,     quantize_row, packed_integer, packed_f32, attend, total,     rms_norm,
                        silu_times, rotate,       lane_maxima,    weights,    mass,   masses,    places_of,
                        penalise};

}  // namespace troupe::TROUPE_ISA
