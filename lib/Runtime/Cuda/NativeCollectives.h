// SPDX-License-Identifier: Apache-2.0
// Collectives that NCCL computes with one call (Host/NativeCollective.h).
#pragma once

#include "../Host/NativeCollective.h"
#include "Nccl.h"

namespace kerf::runtime::cuda {

/// Returns NCCL's numbers: those of ncclDataType_t and ncclRedOp_t.
const LibraryNumbers &ncclNumbers();

} // namespace kerf::runtime::cuda
