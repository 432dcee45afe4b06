// SPDX-License-Identifier: Apache-2.0
// A function for other stand-ins, which the real driver does not have: it finds the bytes behind a device address.
#include "CudaState.h"

/// Returns the host's address of the `bytes` bytes at a device address; null if they are not in one allocation.
extern "C" __attribute__((visibility("default"))) void *kerfStandinMemory(const void *address, size_t bytes) {
  return kerf::standin::cuda::Driver::get().deviceBytes(reinterpret_cast<uint64_t>(address), bytes);
}
