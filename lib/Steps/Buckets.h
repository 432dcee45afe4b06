// SPDX-License-Identifier: Apache-2.0

// The pass "fill-buckets", which joins collectives into buckets in the order in which their operands are ready.
//
//   before: g0 = …   r0 = reduce g0   g1 = …   r1 = reduce g1   …   w0 = wait r0   update w0   w1 = wait r1   update w1
//   after:  g0 = …   g1 = …   r0, r1 = reduce g0, g1   …            w0 = wait r0   update w0   w1 = wait r1   update w1
//
// A bucket of gradient reductions, or of gathers whose results leave the step, starts when it has its bytes and the
// next instruction is a kernel, or when the next instruction needs a result of the bucket. Collectives that are ready
// at the same moment, such as the gradients of one layer, therefore always share a bucket. Other collectives are joined
// only with their neighbours.
//
// With optimizer sharding 2 and 3, where each microbatch's gradients are reduced and then accumulated, the waits and
// sums of a bucket are delayed until the next bucket starts. Kernels then run while the bucket is exchanged, and only
// one bucket is under way at a time.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Joins collectives into buckets of `bucketBytes` bytes. Returns how many collectives were joined to an earlier one.
int64_t fillBuckets(package::FlatProgram &flat, int64_t bucketBytes);

} // namespace kerf::steps
