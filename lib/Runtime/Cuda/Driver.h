// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's driver that the device uses, with declarations of our own, and their table, which is filled
// when the first device is created. Nothing of CUDA is needed to build Kerf. The driver's reference documents the
// functions ("CUDA Driver API"); the names are those that libcuda.so.1 exports.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>

namespace kerf::runtime::cuda {

using DriverResult = int; // CUresult; 0 is success
using DeviceNumber = int; // CUdevice
using DeviceAddress = uint64_t;
using DriverContext = void *;
using DriverStream = void *;
using DriverEvent = void *;
using DriverModule = void *;
using DriverFunction = void *;
using DriverGraph = void *; // CUgraph and CUgraphExec

// Numbers of the driver's enumerations that the device uses.
inline constexpr DriverResult kOutOfMemory = 2, kDeviceUnavailable = 46, kNoDevice = 100, kUncorrectable = 214,
                              kNotReady = 600;
inline constexpr int kProcessors = 16, kMajorVersion = 75, kMinorVersion = 76; // CUdevice_attribute
inline constexpr unsigned kNonBlocking = 1;                                    // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kPortableHostMemory = 1;                             // CU_MEMHOSTALLOC_PORTABLE
inline constexpr int kThreadLocalCapture = 1;                                  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kErrorLog = 5, kErrorLogBytes = 6;                        // CUjit_option

/// The functions: KERF_DRIVER(name of the member, exported name, types of the parameters).
#define KERF_DRIVER_FUNCTIONS(KERF_DRIVER)                                                                             \
  KERF_DRIVER(init, "cuInit", unsigned)                                                                                \
  KERF_DRIVER(driverGetVersion, "cuDriverGetVersion", int *)                                                           \
  KERF_DRIVER(getErrorName, "cuGetErrorName", DriverResult, const char **)                                             \
  KERF_DRIVER(getErrorString, "cuGetErrorString", DriverResult, const char **)                                         \
  KERF_DRIVER(deviceGetCount, "cuDeviceGetCount", int *)                                                               \
  KERF_DRIVER(deviceGet, "cuDeviceGet", DeviceNumber *, int)                                                           \
  KERF_DRIVER(deviceGetName, "cuDeviceGetName", char *, int, DeviceNumber)                                             \
  KERF_DRIVER(deviceGetAttribute, "cuDeviceGetAttribute", int *, int, DeviceNumber)                                    \
  KERF_DRIVER(devicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", DriverContext *, DeviceNumber)                       \
  KERF_DRIVER(devicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", DeviceNumber)                                   \
  KERF_DRIVER(ctxSetCurrent, "cuCtxSetCurrent", DriverContext)                                                         \
  KERF_DRIVER(memGetInfo, "cuMemGetInfo_v2", size_t *, size_t *)                                                       \
  KERF_DRIVER(memAlloc, "cuMemAlloc_v2", DeviceAddress *, size_t)                                                      \
  KERF_DRIVER(memFree, "cuMemFree_v2", DeviceAddress)                                                                  \
  KERF_DRIVER(memHostAlloc, "cuMemHostAlloc", void **, size_t, unsigned)                                               \
  KERF_DRIVER(memFreeHost, "cuMemFreeHost", void *)                                                                    \
  KERF_DRIVER(memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", DeviceAddress, const void *, size_t, DriverStream)              \
  KERF_DRIVER(memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", void *, DeviceAddress, size_t, DriverStream)                    \
  KERF_DRIVER(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", DeviceAddress, DeviceAddress, size_t, DriverStream)             \
  KERF_DRIVER(memsetD8Async, "cuMemsetD8Async", DeviceAddress, unsigned char, size_t, DriverStream)                    \
  KERF_DRIVER(streamCreate, "cuStreamCreateWithPriority", DriverStream *, unsigned, int)                               \
  KERF_DRIVER(streamDestroy, "cuStreamDestroy_v2", DriverStream)                                                       \
  KERF_DRIVER(streamSynchronize, "cuStreamSynchronize", DriverStream)                                                  \
  KERF_DRIVER(streamQuery, "cuStreamQuery", DriverStream)                                                              \
  KERF_DRIVER(streamWaitEvent, "cuStreamWaitEvent", DriverStream, DriverEvent, unsigned)                               \
  KERF_DRIVER(eventCreate, "cuEventCreate", DriverEvent *, unsigned)                                                   \
  KERF_DRIVER(eventRecord, "cuEventRecord", DriverEvent, DriverStream)                                                 \
  KERF_DRIVER(eventElapsedTime, "cuEventElapsedTime", float *, DriverEvent, DriverEvent)                               \
  KERF_DRIVER(eventDestroy, "cuEventDestroy_v2", DriverEvent)                                                          \
  KERF_DRIVER(moduleLoadDataEx, "cuModuleLoadDataEx", DriverModule *, const void *, unsigned, int *, void **)          \
  KERF_DRIVER(moduleUnload, "cuModuleUnload", DriverModule)                                                            \
  KERF_DRIVER(moduleGetFunction, "cuModuleGetFunction", DriverFunction *, DriverModule, const char *)                  \
  KERF_DRIVER(launchKernel, "cuLaunchKernel", DriverFunction, unsigned, unsigned, unsigned, unsigned, unsigned,        \
              unsigned, unsigned, DriverStream, void **, void **)                                                      \
  KERF_DRIVER(streamBeginCapture, "cuStreamBeginCapture_v2", DriverStream, int)                                        \
  KERF_DRIVER(streamEndCapture, "cuStreamEndCapture", DriverStream, DriverGraph *)                                     \
  KERF_DRIVER(graphInstantiate, "cuGraphInstantiateWithFlags", DriverGraph *, DriverGraph, unsigned long long)         \
  KERF_DRIVER(graphLaunch, "cuGraphLaunch", DriverGraph, DriverStream)                                                 \
  KERF_DRIVER(graphExecDestroy, "cuGraphExecDestroy", DriverGraph)                                                     \
  KERF_DRIVER(graphDestroy, "cuGraphDestroy", DriverGraph)

/// The table of the driver's functions.
struct Driver {
#define KERF_MEMBER(name, exported, ...) DriverResult (*name)(__VA_ARGS__) = nullptr;
  KERF_DRIVER_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  int version = 0; // 1000 * major + 10 * minor of the CUDA version that the driver supports
};

/// Lowest CUDA version of a driver, in the driver's form (1000 * major + 10 * minor): it must take PTX 7.8.
inline constexpr int kLowestDriver = 12000;

/// Loads the driver's library on the first call, and returns its functions. Fails where there is no driver or it is too
/// old.
Result<const Driver *> loadDriver();

/// Returns the error for a driver's call that failed: `what` says what was tried, e.g. "copy 12 bytes".
Error driverError(const Driver &driver, DriverResult result, int device, std::string_view what);

} // namespace kerf::runtime::cuda
