// SPDX-License-Identifier: Apache-2.0
// Memory of the host for tensors.
#pragma once

#include "kerf/Runtime/Cpu/Kernels.h"

namespace kerf::runtime {

/// Returns memory aligned to kHostAlignment; an Error when the machine has not that much.
Result<std::shared_ptr<std::byte>> allocateOfHost(int64_t bytes);

} // namespace kerf::runtime
