// SPDX-License-Identifier: Apache-2.0
// Attributes of instructions as values, checked: a program may be hand-edited.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::runtime {

Result<int64_t> integerAttribute(const package::Instruction &instruction, const char *key);
/// Axes as flat triples (axis index in the mesh, before, size), major first; each fits in its mesh axis and none occurs
/// twice.
Result<std::vector<AxisRef>> axesAttribute(const package::Instruction &instruction, const char *key, const Mesh &mesh);
/// The axes of each dimension: number of dimensions, then for each the count of triples and the triples.
Result<std::vector<std::vector<AxisRef>>> layoutAttribute(const package::Instruction &instruction, const char *key,
                                                          const Mesh &mesh);

} // namespace kerf::runtime
