// SPDX-License-Identifier: Apache-2.0
#include "Driver.h"
#include "Library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Result<Driver> resolveDriver() {
  auto library = openLibrary("libcuda.so.1");
  if (!library)
    return Error{fmt::format("the NVIDIA driver's library cannot be loaded ({}); install the driver on this machine "
                             "(nvidia-smi must work), or train on another device",
                             library.error().message),
                 ExitStatus::Infeasible};
  Driver driver;
#define KERF_LOAD(name, exported, ...)                                                                                 \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library->handle, exported));                             \
  if (!driver.name)                                                                                                    \
    return Error{                                                                                                      \
        fmt::format("the NVIDIA driver's library {} has no function {}: it is older than CUDA {}; update the "         \
                    "driver",                                                                                          \
                    library->file, exported, versionText(kLowestDriver)),                                              \
        ExitStatus::Infeasible};
  KERF_DRIVER_FUNCTIONS(KERF_LOAD)
#undef KERF_LOAD
  if (DriverResult result = driver.init(0))
    return driverError(driver, result, -1, "start the driver");
  if (DriverResult result = driver.driverGetVersion(&driver.version))
    return driverError(driver, result, -1, "read the driver's version");
  if (driver.version < kLowestDriver)
    return Error{fmt::format("the NVIDIA driver supports CUDA {}, but {} is the oldest that Kerf runs on; update the "
                             "driver",
                             versionText(driver.version), versionText(kLowestDriver)),
                 ExitStatus::Infeasible};
  return driver;
}

/// Returns the way out of an error, with the separator in front; empty if there is no special one.
const char *wayOut(DriverResult result) {
  switch (result) {
  case kOutOfMemory:
    return "; use more ranks, a plan that needs less memory, or end the other programs on this GPU (nvidia-smi lists "
           "them)";
  case kNoDevice:
    return "; check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES names it";
  case kDeviceUnavailable:
    return "; another program has this GPU for itself: choose another GPU (CUDA_VISIBLE_DEVICES), or end that program";
  case kUncorrectable:
    return "; its memory is damaged: reset or replace the GPU, and resume from the last checkpoint";
  default:
    return "";
  }
}
} // namespace

Result<const Driver *> loadDriver() {
  static const Result<Driver> driver = resolveDriver();
  if (!driver)
    return driver.error();
  return &*driver;
}

Error driverError(const Driver &driver, DriverResult result, int device, std::string_view what) {
  const char *name = nullptr, *text = nullptr;
  if (driver.getErrorName(result, &name) || !name)
    name = "an unknown error";
  if (driver.getErrorString(result, &text) || !text)
    text = "no description";
  std::string where = device < 0 ? std::string("the NVIDIA driver") : fmt::format("GPU {}", device);
  bool infeasible = result == kOutOfMemory || result == kNoDevice || result == kDeviceUnavailable;
  return Error{fmt::format("{} cannot {}: {} ({}, {}){}", where, what, text, name, result, wayOut(result)),
               infeasible ? ExitStatus::Infeasible : ExitStatus::BadInput};
}

} // namespace kerf::runtime::cuda
