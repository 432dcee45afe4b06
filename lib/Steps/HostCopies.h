// SPDX-License-Identifier: Apache-2.0

// The pass "copy-beside", which overlaps copies between device and host memory with the kernels of the next layer.
//
//   before, forward:    layer 1   offload a   wait a      layer 2   offload b   wait b
//   after, forward:     layer 1   offload a   layer 2     wait a    offload b   ...
//
//   before, backward:   prefetch b   wait b       back 2   prefetch a   wait a   back 1
//   after, backward:    prefetch b   prefetch a   wait b   back 2       wait a   back 1
//
// An offloaded value stays on the device for one more layer, and the values of a layer's backward pass are fetched
// while the backward pass before it runs, within one microbatch. At most two layers' offloaded values of a microbatch
// are therefore on the device at a time.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Delays the waits for offloads and advances prefetches. Returns how many copies now overlap with kernels.
int64_t overlapHostCopies(package::FlatProgram &flat);

} // namespace kerf::steps
