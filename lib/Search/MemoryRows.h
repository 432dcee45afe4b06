// SPDX-License-Identifier: Apache-2.0
// The moments at which memory can be the largest. Private to Search.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf::search {

/// A live set: how many buffers of each usage (sorted by usage) live at one moment.
using LiveSet = std::vector<std::pair<int, int64_t>>; // (usage, count)

/// The live sets that no other contains. Every moment's bytes are at most those of one of these, whatever the choice.
std::vector<LiveSet> maximalLiveSets(const std::vector<MemoryUsage> &usages);

} // namespace kerf::search
