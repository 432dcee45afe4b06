// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Cuda/Properties.h"
#include "Context.h"

namespace kerf::runtime {

Result<int64_t> gpuCount() {
  auto driver = cuda::loadDriver();
  if (!driver)
    return driver.error();
  int count = 0;
  if (cuda::DriverResult result = (*driver)->deviceGetCount(&count))
    return cuda::driverError(**driver, result, -1, "count the GPUs");
  return int64_t(count);
}

Result<DeviceProperties> gpuProperties(int number) {
  auto opened = cuda::Context::open(number);
  if (!opened)
    return opened.error();
  const cuda::Context &gpu = **opened;
  if (Status status = gpu.use(); !status)
    return status.error();
  cuda::DeviceNumber handle = 0;
  int processors = 0;
  char name[256] = "";
  size_t free = 0, total = 0;
  for (cuda::DriverResult result :
       {gpu.driver.deviceGet(&handle, number), gpu.driver.deviceGetName(name, sizeof name, handle),
        gpu.driver.deviceGetAttribute(&processors, cuda::kProcessors, handle), gpu.driver.memGetInfo(&free, &total)})
    if (Status status = gpu.check(result, "tell its properties"); !status)
      return status.error();
  std::string_view product = name;
  constexpr std::string_view kMaker = "NVIDIA ";
  if (product.starts_with(kMaker))
    product.remove_prefix(kMaker.size());
  return DeviceProperties{std::string(product), int64_t(total), int64_t(free), processors};
}

} // namespace kerf::runtime
