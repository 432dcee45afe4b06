// SPDX-License-Identifier: Apache-2.0
// Replaces calls of kernels that a device has no compiled code for by the kernels' single ops.
#pragma once

#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// Replaces each call of a kernel that `code` (may be null) does not have by the instructions of the kernel's function.
/// Such a call is no longer joined with a product.
/// The new instructions get origins of their own, the same in each microbatch.
void expandKernels(package::FlatProgram &flat, const DeviceCode *code);

} // namespace kerf::runtime
