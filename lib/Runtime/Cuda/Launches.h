// SPDX-License-Identifier: Apache-2.0
// Calls of kernels, ready to be enqueued.
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

/// One launch of a kernel.
struct Launch {
  DriverFunction function;
  unsigned blocks, threads;
  std::vector<std::byte> parameters;
};

/// Finds the kernels of the calls in their modules, which are loaded where necessary.
Result<std::vector<Launch>> launchesOf(Modules &modules, std::vector<KernelCall> calls);
/// Enqueues the launches, one after the other.
Status launchAll(std::vector<Launch> &launches, CudaStream &stream);

} // namespace kerf::runtime::cuda
