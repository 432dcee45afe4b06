// SPDX-License-Identifier: Apache-2.0
// The properties of this machine's Ascend NPUs, as AscendCL tells them.
#pragma once

#include "kerf/Runtime/DeviceProperties.h"
#include "kerf/Support/Result.h"

namespace kerf::runtime {

/// Returns the number of this machine's NPUs. Fails if CANN cannot be loaded.
Result<int64_t> npuCount();
/// Returns the properties of NPU `number`. Fails if there is no such NPU or Kerf does not run on it.
Result<DeviceProperties> npuProperties(int number);

} // namespace kerf::runtime
