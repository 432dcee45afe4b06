// SPDX-License-Identifier: Apache-2.0
// Host memory for tensors.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"

namespace kerf::runtime {

/// Allocates `bytes` bytes of host memory with undefined content, aligned to kHostAlignment. Fails if the machine has
/// not enough memory.
Result<std::shared_ptr<std::byte>> allocateOfHost(int64_t bytes);

} // namespace kerf::runtime
