// SPDX-License-Identifier: Apache-2.0
// Placement problems with the outline of a transformer's train step on a mesh of two axes, of any number of nodes.
#pragma once

#include "kerf/Search/Problem.h"

namespace kerf::benchmarks {

/// Whole layers only: the number of nodes is near `nodes`. `limitOverLeast`: the limit, in least peaks.
Problem transformerProblem(int nodes, double limitOverLeast, uint64_t seed);

} // namespace kerf::benchmarks
