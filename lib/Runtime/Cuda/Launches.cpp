// SPDX-License-Identifier: Apache-2.0
#include "Launches.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

Result<std::vector<Launch>> launchesOf(Modules &modules, std::vector<KernelCall> calls) {
  std::vector<Launch> launches;
  for (KernelCall &call : calls) {
    auto function = modules.find(call.file, call.type, call.entry);
    if (!function)
      return function.error();
    launches.push_back({*function, unsigned(call.blocks), unsigned(call.threads), std::move(call.parameters)});
  }
  return launches;
}

Status launchAll(std::vector<Launch> &launches, CudaStream &stream) {
  if (Status status = stream.context->use(); !status)
    return status;
  for (Launch &launch : launches) {
    void *parameters[] = {launch.parameters.data()};
    DriverResult result = stream.context->driver.launchKernel(launch.function, launch.blocks, 1, 1, launch.threads, 1,
                                                              1, 0, stream.stream, parameters, nullptr);
    if (result != 0)
      return stream.context->check(result, "launch a kernel");
  }
  return ok();
}

} // namespace kerf::runtime::cuda
