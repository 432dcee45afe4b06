// SPDX-License-Identifier: Apache-2.0

// The pass "gather-ahead": with sharded parameters (optimizer sharding 3), the parameters of a layer are gathered in
// one bucket while the layer before runs.
//
//   before: layer 1: a = gather p  wait a  use a   b = gather q  wait b  use b    layer 2: c = gather r  wait c  use c
//   after:  a, b = gather p, q     layer 1: c = gather r  wait a  use a   wait b  use b      layer 2: wait c  use c
//
// The gather for the next layer starts where a layer first waits for its own parameters, so that the full parameters of
// at most two layers are in memory at a time.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Moves parameter gathers a layer ahead. Returns how many gathers start before the layer that uses them.
int64_t gatherAhead(package::FlatProgram &flat);

} // namespace kerf::steps
