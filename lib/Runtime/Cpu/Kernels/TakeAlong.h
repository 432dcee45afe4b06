// SPDX-License-Identifier: Apache-2.0
// The plan functions of take_along (a lookup by indices of each batch entry) and of its gradient.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// Checks a take_along instruction and builds its kernel.
Result<PlannedKernel> planTakeAlong(const BindRequest &request);
/// Checks a take_along_backward instruction and builds its kernel.
Result<PlannedKernel> planTakeAlongBackward(const BindRequest &request);

} // namespace kerf::runtime::kernels
