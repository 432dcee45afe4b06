// SPDX-License-Identifier: Apache-2.0
// Initialization, devices, contexts and the names of errors.
#include "CudaState.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace kerf::standin::cuda {

thread_local Device *currentDevice = nullptr;

namespace {

int64_t integerFromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

Settings readSettings() {
  Settings result;
  result.devices = int(integerFromEnvironment("KERF_STANDIN_DEVICES", result.devices));
  result.driverVersion = int(integerFromEnvironment("KERF_STANDIN_DRIVER", result.driverVersion));
  result.memoryBytes = uint64_t(integerFromEnvironment("KERF_STANDIN_MEMORY", int64_t(result.memoryBytes)));
  result.eccLaunch = integerFromEnvironment("KERF_STANDIN_ECC", 0);
  result.failingCapture = integerFromEnvironment("KERF_STANDIN_CAPTURE", 0);
  result.busy = integerFromEnvironment("KERF_STANDIN_BUSY", 0) != 0;
  if (const char *text = std::getenv("KERF_STANDIN_CAPABILITY"); text && *text) {
    const char *dot = std::strchr(text, '.');
    result.major = std::atoi(text);
    result.minor = dot ? std::atoi(dot + 1) : 0;
  }
  result.seed = uint64_t(integerFromEnvironment("KERF_STANDIN_SEED", int64_t(std::random_device()())));
  return result;
}

struct ErrorName {
  int code;
  const char *name, *text;
};
constexpr ErrorName kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kDeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinary, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "capture was not ended by the thread that began it"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const ErrorName *findError(int code) {
  for (const ErrorName &row : kErrors)
    if (row.code == code)
      return &row;
  return nullptr;
}

/// Attributes of devices by their number in CUdevice_attribute.
struct Attribute {
  int number, value;
};
constexpr Attribute kAttributes[] = {
    {1, 1024},       // threads of a block
    {2, 1024},       // width of a block
    {3, 1024},       // height of a block
    {4, 64},         // depth of a block
    {5, 2147483647}, // width of a grid
    {6, 65535},      // height of a grid
    {7, 65535},      // depth of a grid
    {8, 49152},      // shared memory of a block
    {9, 65536},      // constant memory
    {10, 32},        // lanes of a warp
    {12, 65536},     // registers of a block
    {13, 1980000},   // clock in kHz
    {16, 16},        // multiprocessors
    {18, 0},         // integrated
    {19, 1},         // can map host memory
    {20, 0},         // compute mode: default
    {31, 1},         // concurrent kernels
    {32, 1},         // ECC
    {33, 0},         // PCI bus
    {36, 2619000},   // memory clock in kHz
    {37, 5120},      // memory bus width in bits
    {38, 52428800},  // bytes of the L2 cache
    {39, 2048},      // threads of a multiprocessor
    {40, 3},         // copy engines
    {41, 1},         // unified addressing
    {50, 0},         // PCI domain
    {78, 1},         // stream priorities
    {81, 233472},    // shared memory of a multiprocessor
    {82, 65536},     // registers of a multiprocessor
    {83, 1},         // managed memory
    {88, 0},         // pageable memory access
    {89, 0},         // concurrent managed access
    {91, 1},         // host pointers can be used for registered memory
    {95, 1},         // cooperative launch
    {97, 232448},    // shared memory of a block on request
    {102, 0},        // virtual memory management
    {106, 32},       // blocks of a multiprocessor
    {111, 1024},     // reserved shared memory of a block
    {115, 0},        // memory pools
};

} // namespace

Driver &Driver::get() {
  static Driver *driver = new Driver; // never destroyed: threads may still use it when the process ends
  return *driver;
}

namespace {
/// Writes, at the end of the process, the numbers of launches to the file that the variable KERF_STANDIN_REPORT names.
void writeReport() {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  if (FILE *file = std::fopen(std::getenv("KERF_STANDIN_REPORT"), "w")) {
    std::fprintf(file, "{\"kernels\": %lld, \"graphs\": %lld}\n", static_cast<long long>(driver.launches),
                 static_cast<long long>(driver.graphLaunches));
    std::fclose(file);
  }
}
} // namespace

int Driver::initialize() {
  std::lock_guard lock(mutex);
  if (initialized)
    return kSuccess;
  settings = readSettings();
  random.seed(settings.seed);
  if (settings.devices <= 0)
    return kNoDevice;
  for (int i = 0; i < settings.devices; ++i) {
    devices.push_back(std::make_unique<Device>());
    devices.back()->ordinal = i;
  }
  initialized = true;
  if (std::getenv("KERF_STANDIN_REPORT"))
    std::atexit(writeReport);
  return kSuccess;
}

Device *Driver::enter(int *error) {
  *error = kSuccess;
  if (!initialized)
    *error = kNotInitialized;
  else if (!currentDevice)
    *error = kInvalidContext;
  else
    *error = currentDevice->error;
  return *error ? nullptr : currentDevice;
}

namespace {

/// Returns the device with this ordinal, or null and the error.
Device *deviceOf(int ordinal, int *error) {
  Driver &driver = Driver::get();
  *error = !driver.initialized ? kNotInitialized : kSuccess;
  if (!*error && (ordinal < 0 || size_t(ordinal) >= driver.devices.size()))
    *error = kInvalidDevice;
  return *error ? nullptr : driver.devices[size_t(ordinal)].get();
}

} // namespace

KERF_CUDA_API cuInit(unsigned int flags) { return flags ? int(kInvalidValue) : Driver::get().initialize(); }

KERF_CUDA_API cuDriverGetVersion(int *version) {
  if (!version)
    return kInvalidValue;
  *version = readSettings().driverVersion;
  return kSuccess;
}

KERF_CUDA_API cuGetProcAddress_v2(const char *symbol, void **function, int, uint64_t, int *status) {
  if (!symbol || !function)
    return kInvalidValue;
  static void *self = [] {
    Dl_info info;
    bool found = dladdr(reinterpret_cast<void *>(&cuInit), &info) && info.dli_fname;
    void *handle = found ? dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
    return handle ? handle : RTLD_DEFAULT;
  }();
  *function = nullptr;
  for (const char *suffix : {"_v3", "_v2", ""})
    if (!*function)
      *function = dlsym(self, (std::string(symbol) + suffix).c_str());
  if (status)
    *status = *function ? 0 : 1;
  return *function ? kSuccess : kNotFound;
}

KERF_CUDA_API cuDeviceGetCount(int *count) {
  if (!Driver::get().initialized)
    return kNotInitialized;
  if (!count)
    return kInvalidValue;
  *count = int(Driver::get().devices.size());
  return kSuccess;
}

KERF_CUDA_API cuDeviceGet(int *device, int ordinal) {
  int error;
  if (!deviceOf(ordinal, &error))
    return error;
  *device = ordinal;
  return kSuccess;
}

KERF_CUDA_API cuDeviceGetName(char *name, int length, int ordinal) {
  int error;
  if (!deviceOf(ordinal, &error))
    return error;
  if (!name || length <= 0)
    return kInvalidValue;
  std::snprintf(name, size_t(length), "Kerf stand-in GPU %d", ordinal);
  return kSuccess;
}

KERF_CUDA_API cuDeviceGetAttribute(int *value, int attribute, int ordinal) {
  int error;
  if (!deviceOf(ordinal, &error))
    return error;
  if (!value)
    return kInvalidValue;
  const Settings &settings = Driver::get().settings;
  if (attribute == 75 || attribute == 76) {
    *value = attribute == 75 ? settings.major : settings.minor;
    return kSuccess;
  }
  if (attribute == 34) { // PCI device
    *value = ordinal;
    return kSuccess;
  }
  for (const Attribute &row : kAttributes)
    if (row.number == attribute) {
      *value = row.value;
      return kSuccess;
    }
  *value = 0;
  return attribute > 0 && attribute < 160 ? kSuccess : kInvalidValue;
}

KERF_CUDA_API cuDeviceTotalMem_v2(size_t *bytes, int ordinal) {
  int error;
  if (!deviceOf(ordinal, &error))
    return error;
  *bytes = Driver::get().settings.memoryBytes;
  return kSuccess;
}

KERF_CUDA_API cuDeviceGetUuid_v2(void *uuid, int ordinal) {
  int error;
  if (!deviceOf(ordinal, &error))
    return error;
  char bytes[16] = {'k', 'e', 'r', 'f', ' ', 's', 't', 'a', 'n', 'd', '-', 'i', 'n', ' ', 0, char(ordinal)};
  std::memcpy(uuid, bytes, sizeof bytes);
  return kSuccess;
}

KERF_CUDA_API cuDeviceCanAccessPeer(int *can, int ordinal, int peer) {
  int error;
  if (!deviceOf(ordinal, &error) || !deviceOf(peer, &error))
    return error;
  *can = ordinal != peer;
  return kSuccess;
}

KERF_CUDA_API cuDevicePrimaryCtxRetain(void **context, int ordinal) {
  int error;
  Device *device = deviceOf(ordinal, &error);
  if (!device)
    return error;
  Driver &driver = Driver::get();
  if (driver.settings.busy)
    return kDeviceUnavailable;
  if (device->error)
    return device->error;
  std::lock_guard lock(driver.mutex);
  ++device->retained;
  *context = device;
  return kSuccess;
}

KERF_CUDA_API cuDevicePrimaryCtxRelease_v2(int ordinal) {
  int error;
  Device *device = deviceOf(ordinal, &error);
  if (!device)
    return error;
  std::lock_guard lock(Driver::get().mutex);
  if (device->retained == 0)
    return kInvalidContext;
  --device->retained;
  return kSuccess;
}

KERF_CUDA_API cuCtxSetCurrent(void *context) {
  Driver &driver = Driver::get();
  if (!driver.initialized)
    return kNotInitialized;
  bool known = !context || std::any_of(driver.devices.begin(), driver.devices.end(),
                                       [&](const auto &device) { return device.get() == context; });
  if (!known)
    return kInvalidContext;
  currentDevice = static_cast<Device *>(context);
  return currentDevice ? int(currentDevice->error) : int(kSuccess);
}

KERF_CUDA_API cuCtxGetCurrent(void **context) {
  *context = currentDevice;
  return Driver::get().initialized ? kSuccess : kNotInitialized;
}

KERF_CUDA_API cuCtxSynchronize() {
  KERF_CUDA_ENTER(device);
  Driver::get().drain(*device);
  return device->error;
}

KERF_CUDA_API cuGetErrorName(int code, const char **text) {
  const ErrorName *row = findError(code);
  *text = row ? row->name : nullptr;
  return row ? kSuccess : kInvalidValue;
}

KERF_CUDA_API cuGetErrorString(int code, const char **text) {
  const ErrorName *row = findError(code);
  *text = row ? row->text : nullptr;
  return row ? kSuccess : kInvalidValue;
}

KERF_CUDA_API cuTensorMapEncodeTiled(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                                     const uint32_t *, const uint32_t *, int, int, int, int) {
  return kNotSupported;
}

/// Copies the text of the last kernel's error, which no function of the real driver gives. Returns its length.
KERF_CUDA_API kerfStandinLastFault(char *text, size_t bytes) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  if (bytes > 0)
    std::snprintf(text, bytes, "%s", driver.lastFault.c_str());
  return int(driver.lastFault.size());
}

} // namespace kerf::standin::cuda
