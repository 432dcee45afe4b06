// SPDX-License-Identifier: Apache-2.0
// Kernels that a device has no code for, op by op.
#pragma once

#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// Puts the instructions of every kernel that `code` does not have in the place of its call. They get origins of their
/// own, the same in each microbatch.
void expandKernels(package::FlatProgram &flat, const DeviceCode *code);

} // namespace kerf::runtime
