// SPDX-License-Identifier: Apache-2.0
// Tensors of the libraries and arrays of Python (NumPy, or anything with DLPack), without copies where possible.
#pragma once

#include "kerf/Package/TensorFile.h"
#include <nanobind/nanobind.h>

namespace kerf::python {

/// Returns the arrays of a dictionary as tensors. A tensor shares the memory of its array and keeps the array alive; an
/// array that is not contiguous is copied. Throws KerfError for an array of another device or of a type that Kerf does
/// not have, and for a value that is no array.
TensorMap tensorsFrom(const nanobind::dict &arrays);

/// Returns the tensors as a dictionary of NumPy arrays that share their memory and cannot be written. NumPy has no
/// bf16: such tensors become f32.
nanobind::dict arraysOf(const TensorMap &tensors);

} // namespace kerf::python
