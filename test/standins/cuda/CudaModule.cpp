// SPDX-License-Identifier: Apache-2.0
// Modules, their kernels and variables, and launches.
#include "CudaState.h"
#include "CudaTraffic.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace kerf::standin::cuda {

namespace {

constexpr size_t kDefaultSharedBytes = 49152, kMostSharedBytes = 232448, kSharedOfMultiprocessor = 233472;
constexpr size_t kReservedSharedBytes = 1024; // of every block
constexpr unsigned kMostThreads = 1024, kThreadsOfMultiprocessor = 2048, kBlocksOfMultiprocessor = 32;

/// Returns the number behind a directive, `8.7` as 87 and `sm_90a` as 90, or 0.
int directiveNumber(std::string_view text, std::string_view directive) {
  size_t at = text.find(directive);
  if (at == std::string_view::npos)
    return 0;
  at = text.find_first_of("0123456789", at);
  int number = 0;
  for (; at < text.size() && (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '.'); ++at)
    if (text[at] != '.')
      number = number * 10 + (text[at] - '0');
  return number;
}

/// Returns the newest version of PTX that a driver reads, as 87 for 8.7: CUDA 12.4 reads 8.4, from 12.6 one less.
int newestPtx(int driverVersion) {
  int major = driverVersion / 1000, minor = driverVersion % 1000 / 10;
  if (major == 12)
    return 80 + (minor >= 6 ? minor - 1 : minor);
  return (major - 4) * 10 + minor;
}

/// Fails if the text needs a newer driver or another device.
int checkTarget(std::string_view text, const Settings &settings) {
  if (directiveNumber(text, ".version") > newestPtx(settings.driverVersion))
    return kUnsupportedPtxVersion;
  int target = directiveNumber(text, "sm_"), capability = settings.major * 10 + settings.minor;
  size_t end = text.find("sm_");
  end = end == std::string_view::npos ? end : text.find_first_not_of("0123456789", end + 3);
  bool isSpecific = end != std::string_view::npos && text[end] == 'a';
  return target > capability || (isSpecific && target != capability) ? kNoBinary : kSuccess;
}

/// Buffers that the options of cuModuleLoadDataEx name.
struct JitLog {
  char *buffer = nullptr;
  size_t bytes = 0;

  void write(const std::string &text) const {
    if (buffer && bytes)
      std::snprintf(buffer, bytes, "%s", text.c_str());
  }
};

/// Allocates the variables of a module and fills in their values.
int placeVariables(Device &device, Module &module) {
  Driver &driver = Driver::get();
  for (auto &variable : module.code->variables) {
    if (variable->space == ptx::Space::Shared)
      continue;
    if (int error = driver.allocate(device, std::max<size_t>(variable->bytes, 1), &variable->address))
      return error;
    module.memory.push_back(variable->address);
  }
  for (auto &variable : module.code->variables)
    if (variable->space != ptx::Space::Shared) {
      auto bytes = module.code->image(*variable);
      std::memcpy(driver.deviceBytes(variable->address, bytes.size()), bytes.data(), bytes.size());
    }
  module.code->link();
  return kSuccess;
}

std::shared_ptr<Kernel> kernelOf(void *handle) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto found = driver.kernels.find(handle);
  return found == driver.kernels.end() ? nullptr : found->second;
}

std::shared_ptr<Module> moduleOf(void *handle) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto found = driver.modules.find(handle);
  return found == driver.modules.end() ? nullptr : found->second;
}

/// Finds the allocation for a kernel that runs on `device`; other devices' memory is out of its reach.
bool findRegion(Device &device, uint64_t address, ptx::Region &region) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  auto behind = driver.allocations.upper_bound(address);
  if (behind == driver.allocations.begin())
    return false;
  const auto &[first, allocation] = *std::prev(behind);
  if (allocation.device != &device || address - first >= allocation.bytes)
    return false;
  region = {first, allocation.bytes, allocation.host};
  return true;
}

/// A launch with its own copy of the arguments.
struct LaunchRequest {
  std::shared_ptr<Module> module; // keeps the code alive
  const ptx::Function *function = nullptr;
  ptx::Extent grid, block;
  uint32_t sharedBytes = 0;
  std::vector<std::byte> arguments;
};

int execute(Device &device, const LaunchRequest &request) {
  Driver &driver = Driver::get();
  {
    std::lock_guard lock(driver.mutex);
    if (++driver.launches == driver.settings.eccLaunch)
      return kEccUncorrectable;
  }
  ptx::Launch launch;
  launch.grid = request.grid;
  launch.block = request.block;
  launch.dynamicSharedBytes = request.sharedBytes;
  launch.arguments = request.arguments;
  launch.find = [&device](uint64_t address, ptx::Region &region) { return findRegion(device, address, region); };
  ptx::TrafficCounter counter;
  if (countsTraffic())
    launch.traffic = &counter;
  auto fault = ptx::run(*request.function, launch);
  if (launch.traffic)
    addTraffic(ptx::nameOf(*request.function), counter);
  if (!fault)
    return kSuccess;
  std::fprintf(stderr, "libcuda stand-in: %s\n", fault->text.c_str());
  std::lock_guard lock(driver.mutex);
  driver.lastFault = fault->text;
  return int(fault->code);
}

/// Copies the arguments of a launch from `kernelParams`, or from the buffer that `extra` describes.
int copyArguments(LaunchRequest &request, void **parameters, void **extra) {
  constexpr uintptr_t kEnd = 0, kBufferPointer = 1, kBufferSize = 2;
  request.arguments.resize(ptx::parameterBytesOf(*request.function));
  if (extra) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (size_t i = 0; reinterpret_cast<uintptr_t>(extra[i]) != kEnd; i += 2) {
      if (reinterpret_cast<uintptr_t>(extra[i]) == kBufferPointer)
        buffer = extra[i + 1];
      else if (reinterpret_cast<uintptr_t>(extra[i]) == kBufferSize)
        bytes = *static_cast<size_t *>(extra[i + 1]);
    }
    if (parameters || !buffer || bytes < request.arguments.size())
      return kInvalidValue;
    std::memcpy(request.arguments.data(), buffer, request.arguments.size());
    return kSuccess;
  }
  const auto &declared = ptx::parametersOf(*request.function);
  if (!declared.empty() && !parameters)
    return kInvalidValue;
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!parameters[i])
      return kInvalidValue;
    std::memcpy(request.arguments.data() + declared[i].offset, parameters[i], declared[i].bytes);
  }
  return kSuccess;
}

int launchKernel(Device &device, void *handle, ptx::Extent grid, ptx::Extent block, uint32_t sharedBytes, void *stream,
                 void **parameters, void **extra) {
  auto kernel = kernelOf(handle);
  if (!kernel || kernel->module->device != &device)
    return kInvalidHandle;
  uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || threads == 0 || threads > kMostThreads || block.z > 64 || grid.x > 0x7FFFFFFF ||
      grid.y > 65535 || grid.z > 65535)
    return kInvalidValue;
  if (threads > ptx::maxThreadsOf(*kernel->function))
    return kLaunchOutOfResources;
  size_t fixedBytes = ptx::staticSharedBytesOf(*kernel->function);
  size_t limit = std::max<size_t>(size_t(kernel->dynamicSharedLimit) + fixedBytes, kDefaultSharedBytes);
  if (fixedBytes + sharedBytes > limit)
    return kInvalidValue;
  LaunchRequest request{moduleOf(kernel->module), kernel->function, grid, block, sharedBytes, {}};
  if (int error = copyArguments(request, parameters, extra))
    return error;
  return Driver::get().submit(stream, device, [&device, request] { return execute(device, request); });
}

/// CUlaunchConfig of the driver's API.
struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void *stream;
  struct Attribute {
    int id;
    char padding[4];
    unsigned value[16];
  } *attributes;
  unsigned attributeCount;
};

} // namespace

KERF_CUDA_API cuModuleLoadDataEx(void **handle, const void *image, unsigned int count, int *options, void **values) {
  KERF_CUDA_ENTER(device);
  constexpr int kErrorLogBuffer = 5, kErrorLogBytes = 6;
  Driver &driver = Driver::get();
  if (int error = driver.checkNoCapture())
    return error;
  if (!handle || !image)
    return kInvalidValue;
  JitLog log;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == kErrorLogBuffer)
      log.buffer = static_cast<char *>(values[i]);
    else if (options[i] == kErrorLogBytes)
      log.bytes = uint32_t(reinterpret_cast<uintptr_t>(values[i]));
  }
  log.write("");
  if (std::memcmp(image,
                  "\x7F"
                  "ELF",
                  4) == 0 ||
      std::memcmp(image, "\x50\xED\x55\xBA", 4) == 0)
    return kInvalidImage; // machine code, which the stand-in cannot run
  std::string_view text = static_cast<const char *>(image);
  if (int error = checkTarget(text, driver.settings))
    return error;
  auto module = std::make_shared<Module>();
  module->device = device;
  try {
    module->code = ptx::Module::parse(text);
  } catch (const ptx::ParseError &error) {
    log.write(std::string("ptxas application ptx input, ") + error.what() + "\nptxas fatal   : Ptx assembly aborted");
    return kInvalidPtx;
  }
  int error = placeVariables(*device, *module);
  if (error) {
    for (uint64_t address : module->memory)
      driver.release(address);
    return error;
  }
  std::lock_guard lock(driver.mutex);
  *handle = module.get();
  driver.modules[module.get()] = module;
  return kSuccess;
}

KERF_CUDA_API cuModuleLoadData(void **handle, const void *image) {
  return cuModuleLoadDataEx(handle, image, 0, nullptr, nullptr);
}

KERF_CUDA_API cuModuleUnload(void *handle) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  if (int error = driver.checkNoCapture())
    return error;
  auto module = moduleOf(handle);
  if (!module)
    return kInvalidHandle;
  driver.drain(*module->device);
  for (uint64_t address : module->memory)
    driver.release(address);
  std::lock_guard lock(driver.mutex);
  std::erase_if(driver.kernels, [&](const auto &entry) { return entry.second->module == module.get(); });
  driver.modules.erase(handle);
  return device->error;
}

KERF_CUDA_API cuModuleGetFunction(void **handle, void *moduleHandle, const char *name) {
  KERF_CUDA_ENTER(device);
  if (!handle || !name)
    return kInvalidValue;
  auto module = moduleOf(moduleHandle);
  if (!module)
    return kInvalidHandle;
  const ptx::Function *function = module->code->entry(name);
  if (!function)
    return kNotFound;
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  for (auto &[known, kernel] : driver.kernels)
    if (kernel->function == function) {
      *handle = known;
      return kSuccess;
    }
  auto kernel = std::make_shared<Kernel>();
  kernel->module = module.get();
  kernel->function = function;
  *handle = kernel.get();
  driver.kernels[kernel.get()] = kernel;
  return kSuccess;
}

KERF_CUDA_API cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, void *moduleHandle, const char *name) {
  KERF_CUDA_ENTER(device);
  auto module = moduleOf(moduleHandle);
  if (!module || !name)
    return !module ? kInvalidHandle : kInvalidValue;
  const ptx::Variable *variable = module->code->variable(name);
  if (!variable || variable->space == ptx::Space::Shared)
    return kNotFound;
  if (address)
    *address = variable->address;
  if (bytes)
    *bytes = variable->bytes;
  return kSuccess;
}

KERF_CUDA_API cuFuncSetAttribute(void *handle, int attribute, int value) {
  KERF_CUDA_ENTER(device);
  constexpr int kMaxDynamicShared = 8, kSharedCarveout = 9, kPortableCluster = 14;
  auto kernel = kernelOf(handle);
  if (!kernel)
    return kInvalidHandle;
  if (attribute == kSharedCarveout || attribute == kPortableCluster)
    return kSuccess;
  if (attribute != kMaxDynamicShared || value < 0 ||
      size_t(value) + ptx::staticSharedBytesOf(*kernel->function) > kMostSharedBytes)
    return kInvalidValue;
  kernel->dynamicSharedLimit = value;
  return kSuccess;
}

KERF_CUDA_API cuFuncGetAttribute(int *value, int attribute, void *handle) {
  KERF_CUDA_ENTER(device);
  auto kernel = kernelOf(handle);
  if (!kernel || !value)
    return !kernel ? kInvalidHandle : kInvalidValue;
  const Settings &settings = Driver::get().settings;
  switch (attribute) {
  case 0:
    *value = int(ptx::maxThreadsOf(*kernel->function));
    break;
  case 1:
    *value = int(ptx::staticSharedBytesOf(*kernel->function));
    break;
  case 2:
    *value = 0;
    break; // constant memory
  case 3:
    *value = int(ptx::localBytesOf(*kernel->function));
    break;
  case 4:
    *value = ptx::registersOf(*kernel->function);
    break;
  case 5:
  case 6:
    *value = settings.major * 10 + settings.minor;
    break;
  case 8:
    *value = kernel->dynamicSharedLimit ? kernel->dynamicSharedLimit
                                        : int(kDefaultSharedBytes - ptx::staticSharedBytesOf(*kernel->function));
    break;
  default:
    return kInvalidValue;
  }
  return kSuccess;
}

KERF_CUDA_API cuLaunchKernel(void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                             unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *stream, void **parameters,
                             void **extra) {
  KERF_CUDA_ENTER(device);
  return launchKernel(*device, function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, stream,
                      parameters, extra);
}

KERF_CUDA_API cuLaunchKernelEx(const LaunchConfig *config, void *function, void **parameters, void **extra) {
  KERF_CUDA_ENTER(device);
  constexpr int kClusterDimension = 4;
  if (!config)
    return kInvalidValue;
  for (unsigned i = 0; i < config->attributeCount; ++i) {
    const auto &attribute = config->attributes[i];
    if (attribute.id == kClusterDimension && attribute.value[0] * attribute.value[1] * attribute.value[2] != 1)
      return kNotSupported;
  }
  return launchKernel(*device, function, {config->gridX, config->gridY, config->gridZ},
                      {config->blockX, config->blockY, config->blockZ}, config->sharedBytes, config->stream, parameters,
                      extra);
}

KERF_CUDA_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int blockSize,
                                                          size_t sharedBytes) {
  KERF_CUDA_ENTER(device);
  auto kernel = kernelOf(handle);
  if (!kernel || !blocks || blockSize <= 0)
    return !kernel ? kInvalidHandle : kInvalidValue;
  unsigned threads = (unsigned(blockSize) + 31) / 32 * 32;
  size_t shared = ptx::staticSharedBytesOf(*kernel->function) + sharedBytes;
  bool fits = threads <= ptx::maxThreadsOf(*kernel->function) && shared <= kMostSharedBytes;
  size_t byShared = kSharedOfMultiprocessor / (shared + kReservedSharedBytes);
  *blocks = fits ? int(std::min<size_t>({kThreadsOfMultiprocessor / threads, byShared, kBlocksOfMultiprocessor})) : 0;
  return kSuccess;
}

} // namespace kerf::standin::cuda
