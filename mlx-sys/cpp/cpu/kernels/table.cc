#include "cpu/kernels/table.h"

namespace troupe::TROUPE_ISA {

extern const Kernels kTable;
const Kernels kTable = {linear, quantize_row, packed_integer, packed_f32, dense,      attend,
                        total,  rms_norm,     layer_norm,     silu_times, gelu_times, rotate};

}  // namespace troupe::TROUPE_ISA
