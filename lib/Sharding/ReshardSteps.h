// SPDX-License-Identifier: Apache-2.0
// The sequence that always exists: all-reduce, gather every dimension that differs, slice.
#pragma once

#include "kerf/Sharding/Reshard.h"

namespace kerf {

/// Asks for canonical shardings with canReshard(from, to).
std::vector<ReshardStep> gatherThenSlice(const Mesh &mesh, const Sharding &from, const Sharding &to);

} // namespace kerf
