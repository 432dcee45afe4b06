// SPDX-License-Identifier: Apache-2.0
// Copies to and from the host's memory run beside kernels.
//
//   before, forward:    layer 1   offload a   wait a      layer 2   offload b   wait b
//   after, forward:     layer 1   offload a   layer 2     wait a    offload b   ...
//
//   before, backward:   prefetch b   wait b       back 2   prefetch a   wait a   back 1
//   after, backward:    prefetch b   prefetch a   wait b   back 2       wait a   back 1
//
// What is copied out stays on the device for one layer more; what a layer's backward needs is fetched while that of the
// layer behind it runs, within a microbatch. So no more than two layers' values of a microbatch are there at a time.
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Returns how many copies have kernels beside them that had none.
int64_t copyBeside(package::FlatProgram &flat);

} // namespace kerf::steps
