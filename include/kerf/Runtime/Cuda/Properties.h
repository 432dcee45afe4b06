// SPDX-License-Identifier: Apache-2.0
// The properties of this machine's NVIDIA GPUs, as the driver tells them.
#pragma once

#include "kerf/Runtime/DeviceProperties.h"
#include "kerf/Support/Result.h"

namespace kerf::runtime {

/// Returns the number of this machine's GPUs. Fails if there is no driver.
Result<int64_t> gpuCount();
/// Returns the properties of GPU `number`; its name is without "NVIDIA". Fails if there is no such GPU or Kerf does not
/// run on it.
Result<DeviceProperties> gpuProperties(int number);

} // namespace kerf::runtime
