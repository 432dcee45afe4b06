// SPDX-License-Identifier: Apache-2.0
// A reshard that always exists, but may be expensive: an all-reduce, then a gather of every dimension that differs,
// then local slices.
#pragma once

#include "kerf/Sharding/Reshard.h"

namespace kerf {

/// Returns the steps of the gather-then-slice reshard from `from` to `to`. Both shardings must be canonical, and
/// canReshard(from, to) must hold.
std::vector<ReshardStep> gatherThenSlice(const Mesh &mesh, const Sharding &from, const Sharding &to);

} // namespace kerf
