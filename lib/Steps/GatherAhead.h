// SPDX-License-Identifier: Apache-2.0
// Parameters in pieces (optimizer sharding 3) are gathered a layer ahead, all of a layer at once.
//
//   before: layer 1: a = gather p  wait a  use a   b = gather q  wait b  use b    layer 2: c = gather r  wait c  use c
//   after:  a, b = gather p, q     layer 1: c = gather r  wait a  use a   wait b  use b      layer 2: wait c  use c
//
// The next layer's begins where a layer first waits for its own, so that no more than two layers' are whole at a time.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Returns how many gathers begin before their layer.
int64_t gatherAhead(package::FlatProgram &flat);

} // namespace kerf::steps
