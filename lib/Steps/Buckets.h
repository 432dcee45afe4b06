// SPDX-License-Identifier: Apache-2.0
// Collectives put together, in the order in which their operands are ready.
//
//   before: g0 = …   r0 = reduce g0   g1 = …   r1 = reduce g1   …   w0 = wait r0   update w0   w1 = wait r1   update w1
//   after:  g0 = …   g1 = …   r0, r1 = reduce g0, g1   …            w0 = wait r0   update w0   w1 = wait r1   update w1
//
// A bucket of gradients, or of gathers of what the step leaves behind, goes when it has its bytes and a kernel comes
// next, or when the next instruction needs what it makes: what is ready at the same moment, as a layer's gradients are,
// is never parted. Of other collectives only neighbours are one.
//
// Where each microbatch's gradients are reduced and then added up (optimizer sharding 2 and 3), the waits and sums of a
// bucket are put off until the next bucket begins, so that kernels run between: one bucket at a time is on its way.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Returns how many collectives joined another.
int64_t fillBuckets(package::FlatProgram &flat, int64_t bucketBytes);

} // namespace kerf::steps
