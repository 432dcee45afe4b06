// SPDX-License-Identifier: Apache-2.0
// Calls, ready to be enqueued.
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

/// One launch of a kernel.
struct KernelLaunch {
  DriverFunction function;
  unsigned blocks, threads;
  std::vector<std::byte> parameters;
};
/// One thing to enqueue.
using Launch = std::variant<KernelLaunch, LibraryCall>;

/// Finds the kernels of the calls in their modules, which are loaded where necessary.
Result<std::vector<Launch>> launchesOf(Modules &modules, std::vector<Call> calls);
/// Enqueues the launches, one after the other.
Status launchAll(std::vector<Launch> &launches, CudaStream &stream);

} // namespace kerf::runtime::cuda
