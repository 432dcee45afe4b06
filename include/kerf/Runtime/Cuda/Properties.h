// SPDX-License-Identifier: Apache-2.0
// The properties of this machine's NVIDIA GPUs, as the driver tells them.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <string>

namespace kerf::runtime {

/// The properties of a GPU.
struct GpuProperties {
  std::string name;        // the product's name as the driver gives it, without "NVIDIA"
  int64_t memoryBytes = 0; // bytes of its memory
  int64_t freeBytes = 0;   // bytes that no program has taken
  int64_t processors = 1;  // its streaming multiprocessors
};

/// Returns the number of this machine's GPUs. Fails if there is no driver.
Result<int64_t> gpuCount();
/// Returns the properties of GPU `number`. Fails if there is no such GPU or Kerf does not run on it.
Result<GpuProperties> gpuProperties(int number);

} // namespace kerf::runtime
