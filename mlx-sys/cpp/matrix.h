// What the bridge says of matrices, in the kernels' terms.
#pragma once

#include "bridge.h"

#include <optional>

#include "cpu/dense.h"
#include "cpu/packed.h"

namespace troupe {

// Nothing for a type that the kernels do not read.
std::optional<Number> number_of(mlx::core::Dtype dtype);

// Throws std::invalid_argument for a type of scales that the kernels do not read.
PackedShape packed_shape(const PackedLayout& layout);

ActivationType activation_type(Activations activations);

// The panels in an array that pack_affine made.
PackedMatrix packed_matrix(const array& data, const PackedShape& shape);

// Throws std::invalid_argument for a type that the kernels do not read.
DenseShape dense_shape(const DenseLayout& layout);

// The panels in an array that pack_dense made.
DensePanels dense_panels(const array& data, const DenseShape& shape);

}  // namespace troupe
