// SPDX-License-Identifier: Apache-2.0
// Changes of one variable at a time: back under the memory limit, and downhill. Private to Search.
#pragma once

#include "Network.h"

namespace kerf::search {

/// Moves `labels` under the limit, each step the change that frees the most bytes of overflow per second it costs.
/// False when it gets stuck or `steps` run out.
bool repair(const Network &network, Labels &labels, int64_t &steps);

/// Takes every change of one label that saves seconds and keeps (or stays) under the limit, until there is none.
void descend(const Network &network, Labels &labels, int64_t &steps);

} // namespace kerf::search
