// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kerf/Package/Epilogue.h"

namespace kerf::package {

/// Returns a group as one instruction, with the group as its `parts`. A product that only the group uses is none of its
/// results. The group must be an epilogue (epilogueOf).
FlatInstruction joinedInstruction(const std::vector<Value> &values, std::span<const FlatInstruction> group);

} // namespace kerf::package
