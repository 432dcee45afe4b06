// SPDX-License-Identifier: Apache-2.0
// Attributes of a kernel's instructions, as the two kinds of iteration spaces read them.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Returns the list of dimensions in an attribute: -1 for an item that is no integer, and an empty list where the
/// attribute is missing or no list.
std::vector<int64_t> dimensionsOf(const Instruction &instruction, std::string_view attribute);

} // namespace kerf::package
