// SPDX-License-Identifier: Apache-2.0
// Generates placement problems that resemble the training step of a transformer on a mesh of two axes, with any number
// of nodes.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf::benchmarks {

/// Returns a problem with about `nodes` nodes, in complete layers. `limitOverLeast` is the memory limit relative to the
/// smallest possible peak memory.
Problem transformerProblem(int nodes, double limitOverLeast, uint64_t seed);

} // namespace kerf::benchmarks
