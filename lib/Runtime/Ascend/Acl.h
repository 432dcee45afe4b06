// SPDX-License-Identifier: Apache-2.0
// The functions of AscendCL and of the tensor library under the operators, with declarations of our own and their
// table, which is filled when the first device is created. Nothing of CANN is needed to build Kerf. The functions are
// documented in "AscendCL API (C)" of CANN's documentation; the names are those that libascendcl.so and libnnopbase.so
// export. Operators (aclnn*) are in Operators.h.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime::ascend {

using AclResult = int; // aclError and aclnnStatus; 0 is success
using AclStream = void *;
using AclEvent = void *;
using AclContext = void *;
using AclModel = void *; // aclmdlRI: captured work
using AclTensor = void;  // aclTensor and the other objects of operators are opaque
using AclHostFunction = void (*)(void *);

// Numbers of AscendCL's enumerations that the device uses.
inline constexpr int kHugePagesFirst = 0;                                       // aclrtMemMallocPolicy
inline constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3; // aclrtMemcpyKind
inline constexpr int kHighBandwidthMemory = 1;                                  // aclrtMemAttr
inline constexpr int kCoresForProducts = 0;                                     // aclDeviceInfo
inline constexpr int kStreamComplete = 0;                                       // aclrtStreamStatus
inline constexpr uint32_t kFastLaunch = 1, kFastSynchronize = 2;                // flags of streams
inline constexpr uint32_t kTimedEvent = 8;                                      // ACL_EVENT_TIME_LINE, a flag of events
inline constexpr uint32_t kWaitedEvent = 1;                                     // ACL_EVENT_SYNC
inline constexpr uint64_t kStopOnFailure = 1;                                   // mode of streams
inline constexpr int kDeterministic = 0;                                        // aclSysParamOpt
inline constexpr int kThreadLocalCapture = 1;                                   // aclmdlRICaptureMode
inline constexpr AclResult kAlreadyInitialized = 100002, kOutOfMemory = 207001; // aclError
inline constexpr int kFormatNchw = 0, kFormatNd = 2, kFormatNcdhw = 30, kFormatNcl = 47; // aclFormat

/// The functions: KERF_ACL(name of the member, exported name, types of the parameters).
#define KERF_ACL_FUNCTIONS(KERF_ACL)                                                                                   \
  KERF_ACL(init, "aclInit", const char *)                                                                              \
  KERF_ACL(getVersion, "aclrtGetVersion", int32_t *, int32_t *, int32_t *)                                             \
  KERF_ACL(getDeviceCount, "aclrtGetDeviceCount", uint32_t *)                                                          \
  KERF_ACL(getDeviceCapability, "aclGetDeviceCapability", uint32_t, int, int64_t *)                                    \
  KERF_ACL(setDevice, "aclrtSetDevice", int32_t)                                                                       \
  KERF_ACL(resetDevice, "aclrtResetDevice", int32_t)                                                                   \
  KERF_ACL(setCurrentContext, "aclrtSetCurrentContext", AclContext)                                                    \
  KERF_ACL(getCurrentContext, "aclrtGetCurrentContext", AclContext *)                                                  \
  KERF_ACL(setSysParamOpt, "aclrtSetSysParamOpt", int, int64_t)                                                        \
  KERF_ACL(malloc, "aclrtMallocAlign32", void **, size_t, int)                                                         \
  KERF_ACL(free, "aclrtFree", void *)                                                                                  \
  KERF_ACL(mallocHost, "aclrtMallocHost", void **, size_t)                                                             \
  KERF_ACL(freeHost, "aclrtFreeHost", void *)                                                                          \
  KERF_ACL(getMemInfo, "aclrtGetMemInfo", int, size_t *, size_t *)                                                     \
  KERF_ACL(memcpyAsync, "aclrtMemcpyAsync", void *, size_t, const void *, size_t, int, AclStream)                      \
  KERF_ACL(memsetAsync, "aclrtMemsetAsync", void *, size_t, int32_t, size_t, AclStream)                                \
  KERF_ACL(createStream, "aclrtCreateStreamWithConfig", AclStream *, uint32_t, uint32_t)                               \
  KERF_ACL(setStreamFailureMode, "aclrtSetStreamFailureMode", AclStream, uint64_t)                                     \
  KERF_ACL(destroyStream, "aclrtDestroyStream", AclStream)                                                             \
  KERF_ACL(synchronizeStream, "aclrtSynchronizeStream", AclStream)                                                     \
  KERF_ACL(streamAbort, "aclrtStreamAbort", AclStream)                                                                 \
  KERF_ACL(streamQuery, "aclrtStreamQuery", AclStream, int *)                                                          \
  KERF_ACL(createEvent, "aclrtCreateEventExWithFlag", AclEvent *, uint32_t)                                            \
  KERF_ACL(destroyEvent, "aclrtDestroyEvent", AclEvent)                                                                \
  KERF_ACL(recordEvent, "aclrtRecordEvent", AclEvent, AclStream)                                                       \
  KERF_ACL(streamWaitEvent, "aclrtStreamWaitEvent", AclStream, AclEvent)                                               \
  KERF_ACL(eventElapsedTime, "aclrtEventElapsedTime", float *, AclEvent, AclEvent)                                     \
  KERF_ACL(launchHostFunc, "aclrtLaunchHostFunc", AclStream, AclHostFunction, void *)                                  \
  KERF_ACL(captureBegin, "aclmdlRICaptureBegin", AclStream, int)                                                       \
  KERF_ACL(captureEnd, "aclmdlRICaptureEnd", AclStream, AclModel *)                                                    \
  KERF_ACL(executeAsync, "aclmdlRIExecuteAsync", AclModel, AclStream)                                                  \
  KERF_ACL(destroyModel, "aclmdlRIDestroy", AclModel)                                                                  \
  KERF_ACL(destroyTensor, "aclDestroyTensor", const AclTensor *)                                                       \
  KERF_ACL(destroyScalar, "aclDestroyScalar", const void *)                                                            \
  KERF_ACL(destroyIntArray, "aclDestroyIntArray", const void *)                                                        \
  KERF_ACL(destroyBoolArray, "aclDestroyBoolArray", const void *)                                                      \
  KERF_ACL(setRepeatable, "aclSetAclOpExecutorRepeatable", void *)                                                     \
  KERF_ACL(destroyExecutor, "aclDestroyAclOpExecutor", void *)

/// A version of CANN, aclCANNPackageVersion.
struct AclPackageVersion {
  char version[128]; // "8.2.RC1"
  char parts[4][64];
  char reserved[128];
};
inline constexpr int kPackageCann = 0; // aclCANNPackageName
/// Functions that some releases lack and that nothing but messages needs.
#define KERF_ACL_OPTIONAL_FUNCTIONS(KERF_ACL) KERF_ACL(getCannVersion, "aclsysGetCANNVersion", int, AclPackageVersion *)

/// The table of the functions.
struct Acl {
#define KERF_MEMBER(name, exported, ...) AclResult (*name)(__VA_ARGS__) = nullptr;
  KERF_ACL_FUNCTIONS(KERF_MEMBER)
  KERF_ACL_OPTIONAL_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  // Functions with another result: the text of the thread's last errors, the name of the processor, and objects.
  const char *(*getRecentErrMsg)() = nullptr;
  const char *(*getSocName)() = nullptr;
  AclTensor *(*createTensor)(const int64_t *dims, uint64_t dimsNum, int type, const int64_t *strides, int64_t offset,
                             int format, const int64_t *storageDims, uint64_t storageDimsNum, void *data) = nullptr;
  void *(*createScalar)(void *value, int type) = nullptr;
  void *(*createIntArray)(const int64_t *values, uint64_t size) = nullptr;
  void *(*createBoolArray)(const bool *values, uint64_t size) = nullptr;
  std::string release;           // behind "CANN" in messages: "8.2.RC1", or "with AscendCL 1.15.0" if it does not tell
  std::vector<void *> operators; // the libraries of operators, in the order in which they are searched
  std::string libraries;         // the names of `operators`
  std::string unopened;          // the first library of operators that could not be opened, and why; may be empty
};

/// Loads AscendCL on the first call, and returns its functions. Fails where a library or a function is missing.
Result<const Acl *> loadAcl();

/// Returns the error for a call that failed: `what` says what was tried, e.g. "copy 12 bytes". AscendCL's own text of
/// the calling thread's last errors is appended.
Error aclError(const Acl &acl, AclResult result, int device, std::string_view what);

} // namespace kerf::runtime::ascend
