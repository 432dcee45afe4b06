// SPDX-License-Identifier: Apache-2.0
#include "Launches.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

Result<std::vector<Launch>> launchesOf(Modules &modules, std::vector<Call> calls) {
  std::vector<Launch> launches;
  for (Call &call : calls) {
    if (auto *library = std::get_if<LibraryCall>(&call)) {
      launches.push_back(std::move(*library));
      continue;
    }
    auto &kernel = std::get<KernelCall>(call);
    auto function = modules.find(kernel.file, kernel.type, kernel.entry);
    if (!function)
      return function.error();
    launches.push_back(
        KernelLaunch{*function, unsigned(kernel.blocks), unsigned(kernel.threads), std::move(kernel.parameters)});
  }
  return launches;
}

namespace {
Status launchKernel(KernelLaunch &launch, CudaStream &stream) {
  void *parameters[] = {launch.parameters.data()};
  DriverResult result = stream.context->driver.launchKernel(launch.function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                                            0, stream.stream, parameters, nullptr);
  return result == 0 ? ok() : stream.context->check(result, "launch a kernel");
}
} // namespace

Status launchAll(std::vector<Launch> &launches, CudaStream &stream) {
  if (Status status = stream.context->use(); !status)
    return status;
  for (Launch &launch : launches) {
    auto *kernel = std::get_if<KernelLaunch>(&launch);
    if (Status status = kernel ? launchKernel(*kernel, stream) : std::get<LibraryCall>(launch)(stream); !status)
      return status;
  }
  return ok();
}

} // namespace kerf::runtime::cuda
