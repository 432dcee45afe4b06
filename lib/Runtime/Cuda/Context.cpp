// SPDX-License-Identifier: Apache-2.0
#include "Context.h"
#include "CublasLt.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr int kLowestCapability = 80; // major * 10 + minor: the kernels' PTX is for sm_80 (Ampere) and newer
} // namespace

Result<std::shared_ptr<Context>> Context::open(int number) {
  auto driver = loadDriver();
  if (!driver)
    return driver.error();
  const Driver &d = **driver;
  auto failed = [&](DriverResult result, std::string_view what) { return driverError(d, result, number, what); };
  int count = 0, major = 0, minor = 0;
  if (DriverResult result = d.deviceGetCount(&count))
    return driverError(d, result, -1, "count the GPUs");
  if (number < 0 || number >= count)
    return Error{fmt::format("there is no GPU {}: this machine has {} (0 to {}); use as many ranks on a machine as it "
                             "has GPUs, or name one as cuda:0",
                             number, count, count - 1),
                 ExitStatus::Infeasible};
  DeviceNumber handle = 0;
  DriverContext context = nullptr;
  if (DriverResult result = d.deviceGet(&handle, number))
    return failed(result, "be opened");
  if (DriverResult result = d.deviceGetAttribute(&major, kMajorVersion, handle))
    return failed(result, "tell its capability");
  if (DriverResult result = d.deviceGetAttribute(&minor, kMinorVersion, handle))
    return failed(result, "tell its capability");
  if (10 * major + minor < kLowestCapability)
    return Error{
        fmt::format("GPU {} has compute capability {}.{}, but {}.{} is the lowest that Kerf runs on; use a GPU "
                    "of the generation Ampere or newer",
                    number, major, minor, kLowestCapability / 10, kLowestCapability % 10),
        ExitStatus::Infeasible};
  if (DriverResult result = d.devicePrimaryCtxRetain(&context, handle))
    return failed(result, "be opened");
  return std::shared_ptr<Context>(new Context(d, number, 10 * major + minor, handle, context));
}

std::shared_ptr<Context> Context::planned(int capability) {
  static const Driver none;
  return std::shared_ptr<Context>(new Context(none, -1, capability, 0, nullptr));
}

Status Context::use() const {
  if (isPlanned())
    return Error{"the GPU is there only to plan memory, and a call of the driver is asked of it",
                 ExitStatus::InternalCheck};
  return check(driver.ctxSetCurrent(context), "be used");
}

Context::~Context() {
  if (isPlanned())
    return;
  driver.ctxSetCurrent(context); // the libraries free what they have on the GPU
  cublas.reset();
  cudnn.reset();
  driver.devicePrimaryCtxRelease(handle);
}

Status Context::check(DriverResult result, std::string_view what) const {
  if (result == 0)
    return ok();
  return driverError(driver, result, deviceNumber, what);
}

Result<std::shared_ptr<std::byte>> allocateOfGpu(const std::shared_ptr<Context> &context, int64_t bytes) {
  if (Status status = context->use(); !status)
    return status.error();
  if (bytes == 0)
    return std::shared_ptr<std::byte>();
  DeviceAddress address = 0;
  if (DriverResult result = context->driver.memAlloc(&address, size_t(bytes))) {
    size_t free = 0, total = 0;
    context->driver.memGetInfo(&free, &total);
    return driverError(context->driver, result, context->number(),
                       fmt::format("allocate {} bytes ({} of its {} bytes are free)", bytes, free, total));
  }
  return std::shared_ptr<std::byte>(reinterpret_cast<std::byte *>(address), [context](std::byte *memory) {
    if (context->use())
      context->driver.memFree(reinterpret_cast<DeviceAddress>(memory));
  });
}

Result<std::shared_ptr<std::byte>> allocatePinned(const std::shared_ptr<Context> &context, int64_t bytes) {
  if (Status status = context->use(); !status)
    return status.error();
  if (bytes == 0)
    return std::shared_ptr<std::byte>();
  void *memory = nullptr;
  if (Status status = context->check(context->driver.memHostAlloc(&memory, size_t(bytes), kPortableHostMemory),
                                     fmt::format("lock {} bytes of host memory for copies", bytes));
      !status)
    return status.error();
  return std::shared_ptr<std::byte>(static_cast<std::byte *>(memory), [context](std::byte *memory) {
    if (context->use())
      context->driver.memFreeHost(memory);
  });
}

Modules::~Modules() {
  if (context->use())
    for (auto &[key, module] : modules)
      context->driver.moduleUnload(module);
}

Result<DriverModule> Modules::load(std::string_view file, DType type) {
  auto [found, isNew] = modules.try_emplace({std::string(file), type}, nullptr);
  if (!isNew)
    return found->second;
  BindTimer timer(*context, "ptx");
  std::string text = kernelText(file, type), log(4096, '\0');
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  DriverModule module = nullptr;
  DriverResult result = context->driver.moduleLoadDataEx(&module, text.c_str(), 2, options, values);
  if (result != 0) {
    modules.erase(found);
    return driverError(context->driver, result, context->number(),
                       fmt::format("compile the kernels {} for {} ({})", file, toString(type), log.c_str()));
  }
  found->second = module;
  return module;
}

Result<DriverFunction> Modules::find(std::string_view file, DType type, std::string_view entry) {
  if (Status status = context->use(); !status)
    return status.error();
  auto module = load(file, type);
  if (!module)
    return module.error();
  DriverFunction function = nullptr;
  if (Status status = context->check(context->driver.moduleGetFunction(&function, *module, std::string(entry).c_str()),
                                     fmt::format("find the kernel {} of {}", entry, file));
      !status)
    return status.error();
  return function;
}

} // namespace kerf::runtime::cuda
