// SPDX-License-Identifier: Apache-2.0
// The kernels of take_along and of its gradient.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

Result<Planned> planTakeAlong(const BindRequest &request);
Result<Planned> planTakeAlongBackward(const BindRequest &request);

} // namespace kerf::runtime::kernels
