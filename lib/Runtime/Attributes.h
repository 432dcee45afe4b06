// SPDX-License-Identifier: Apache-2.0
// Reads and checks the attributes of instructions. The checks are needed because users may edit a program by hand.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::runtime {

/// Returns the integer attribute `key`. Fails if it is missing or no integer.
Result<int64_t> integerAttribute(const package::Instruction &instruction, const char *key);
/// Returns the sub-axes of the mesh that the attribute `key` lists. The attribute is a flat list of triples (index of
/// the axis in the mesh, before, size), the major sub-axis first. Fails if a sub-axis does not divide its mesh axis, or
/// if two sub-axes overlap.
Result<std::vector<AxisRef>> axesAttribute(const package::Instruction &instruction, const char *key, const Mesh &mesh);
/// Returns the sub-axes that cut each dimension of a tensor, from the attribute `key`. The attribute is a flat list:
/// the number of dimensions, then for each dimension the number of triples and the triples of axesAttribute.
Result<std::vector<std::vector<AxisRef>>> layoutAttribute(const package::Instruction &instruction, const char *key,
                                                          const Mesh &mesh);

} // namespace kerf::runtime
