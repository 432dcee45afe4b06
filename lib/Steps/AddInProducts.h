// SPDX-License-Identifier: Apache-2.0
// A pass over the list of steps of one stage: a matrix product whose result is only added to a sum over microbatches
// adds to the sum itself, from the second microbatch on. The two instructions
//   7: g = dot_general x, dy        12: s' = accumulate s, g
// become one at the place of the first:
//   7: s' = dot_general x, dy, s
// So g needs no memory, and no kernel reads g again. In the first microbatch there is no sum yet, and the product's
// result is where the sum begins.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Merges products with the sums of their results, in f32 and f64. Returns the number of merged products. A narrower
/// product keeps its `accumulate`, because merged it would not be rounded before it is added.
int64_t addInProducts(package::FlatProgram &flat);

} // namespace kerf::steps
