// SPDX-License-Identifier: Apache-2.0
// The stand-in of libascendcl.so: errors, devices, contexts and memory.
#include "State.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

namespace kerf::standin::cann {

namespace {
thread_local std::string recent;
thread_local struct Context *current = nullptr;

/// An open device. AscendCL has one default context for each.
struct Context {
  int device;
  int users = 0; // calls of aclrtSetDevice without aclrtResetDevice
};

std::mutex mutex; // guards everything below
std::map<int, std::unique_ptr<Context>> contexts;
std::map<std::string, int64_t> counts, calls, sites; // sites: calls from one place, as in KERF_STANDIN_ASCEND_FAIL
bool isInitialized = false;

/// Distance of a device's addresses from the memory behind them. The sum is no address that a processor can use.
constexpr uintptr_t kDistance = uintptr_t(1) << 60;
struct Allocation {
  size_t bytes;
  int device;
};
std::map<uintptr_t, Allocation> deviceAllocations, hostAllocations; // by their first address
std::map<int, int64_t> taken, most;                                 // bytes of each device

const char *variable(const char *name) { return std::getenv(name); }
int64_t memoryOfDevice() {
  const char *text = variable("KERF_STANDIN_ASCEND_MEMORY");
  return text ? std::atoll(text) : int64_t(64) << 30;
}

/// At the end of the process, writes what the variable KERF_STANDIN_ASCEND_REPORT asks for: objects that were not
/// released, the most memory of each device, the calls of each function, and those from each place of the program.
struct Report {
  ~Report() {
    const char *file = variable("KERF_STANDIN_ASCEND_REPORT");
    std::FILE *out = file ? std::fopen(file, "w") : nullptr;
    if (!out)
      return;
    auto list = [&](const char *name, const auto &numbers, const char *end) {
      std::fprintf(out, "\"%s\": {", name);
      const char *separator = "";
      for (const auto &[key, number] : numbers) {
        std::ostringstream text;
        text << key;
        std::fprintf(out, "%s\"%s\": %lld", separator, text.str().c_str(), static_cast<long long>(number));
        separator = ", ";
      }
      std::fprintf(out, "}%s", end);
    };
    std::fprintf(out, "{");
    list("objects", counts, ",\n ");
    list("most", most, ",\n ");
    list("calls", calls, ",\n ");
    list("sites", sites, "}\n");
    std::fclose(out);
  }
} report;

/// Returns "function+address" with the address in the program to which the call of a stand-in returns; the function
/// alone where only stand-ins are on the stack, as for work on a stream.
std::string siteOf(const std::string &function) {
  void *frames[16];
  const int depth = backtrace(frames, 16);
  Dl_info own{}, caller{};
  dladdr(reinterpret_cast<void *>(&fail), &own);
  const std::string file = own.dli_fname, folder = file.substr(0, file.rfind('/') + 1);
  for (int i = 0; i < depth; ++i) {
    if (!dladdr(frames[i], &caller) || std::string(caller.dli_fname).starts_with(folder))
      continue;
    if (std::strstr(caller.dli_fname, "/libc.so") || std::strstr(caller.dli_fname, "/libstdc++.so"))
      break; // the start of a thread
    std::ostringstream text;
    text << function << '+' << std::hex << static_cast<char *>(frames[i]) - static_cast<char *>(caller.dli_fbase);
    return text.str();
  }
  return function;
}

std::atomic<bool> wasInjected = false;

const Allocation *allocationOf(const std::map<uintptr_t, Allocation> &all, uintptr_t address, size_t bytes) {
  auto next = all.upper_bound(address);
  if (next == all.begin())
    return nullptr;
  const auto &[first, allocation] = *--next;
  return address - first + bytes <= allocation.bytes ? &allocation : nullptr;
}
} // namespace

int fail(int code, const std::string &rule, const std::string &text) {
  recent = "rule " + rule + ": " + text;
  return code;
}

std::string takeText() { return std::exchange(recent, ""); }

bool hasInjected() { return wasInjected; }
int injected(const std::string &function) {
  static const char *const chosen = variable("KERF_STANDIN_ASCEND_FAIL");
  static const bool countsSites = chosen || variable("KERF_STANDIN_ASCEND_REPORT");
  const std::string site = countsSites ? siteOf(function) : function;
  std::lock_guard lock(mutex);
  const int64_t number = ++calls[function], ofSite = ++sites[site];
  if (!chosen)
    return 0;
  const std::string text = chosen;
  size_t second = text.rfind(':'), first = text.rfind(':', second - 1);
  const std::string name = text.substr(0, first);
  const int64_t wanted = std::atoll(text.c_str() + first + 1);
  if ((name != function || number != wanted) && (name != site || ofSite != wanted))
    return 0;
  wasInjected = true;
  return fail(std::atoi(text.c_str() + second + 1), "injection", function + " fails as it was asked to");
}

int needsContext(const char *function) {
  return current ? 0 : fail(kNoContext, "context", std::string(function) + " is called by a thread without a context");
}
int currentDevice() { return current ? current->device : -1; }

void *deviceMemory(const void *address, size_t bytes) {
  std::lock_guard lock(mutex);
  auto number = reinterpret_cast<uintptr_t>(address);
  return allocationOf(deviceAllocations, number, bytes) ? reinterpret_cast<void *>(number - kDistance) : nullptr;
}
bool isPinned(const void *address, size_t bytes) {
  std::lock_guard lock(mutex);
  return allocationOf(hostAllocations, reinterpret_cast<uintptr_t>(address), bytes);
}
void count(const char *kind, int64_t change) {
  std::lock_guard lock(mutex);
  counts[kind] += change;
}

#define KERF_BEGIN(name)                                                                                               \
  if (int code = injected(#name))                                                                                      \
    return code;
#define KERF_BEGIN_IN_CONTEXT(name)                                                                                    \
  KERF_BEGIN(name)                                                                                                     \
  if (int code = needsContext(#name))                                                                                  \
    return code;

extern "C" {
const char *aclGetRecentErrMsg() {
  static thread_local std::string last;
  last = recent;
  recent.clear();
  return last.c_str();
}
int aclInit(const char *) {
  KERF_BEGIN(aclInit)
  std::lock_guard lock(mutex);
  return std::exchange(isInitialized, true) ? 100002 : 0;
}
int aclFinalize() { return 0; }
int aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) {
  KERF_BEGIN(aclrtGetVersion)
  *major = 1, *minor = 15, *patch = 0;
  return 0;
}
struct aclCANNPackageVersion {
  char version[128], majorVersion[64], minorVersion[64], releaseVersion[64], patchVersion[64], reserved[128];
};
int aclsysGetCANNVersion(int package, aclCANNPackageVersion *version) {
  KERF_BEGIN(aclsysGetCANNVersion)
  if (package != 0)
    return fail(kInvalid, "option", "this stand-in knows the release of CANN alone");
  *version = {"8.2.RC1", "8", "2", "RC1", "", ""};
  return 0;
}
const char *aclrtGetSocName() {
  if (injected("aclrtGetSocName"))
    return nullptr;
  const char *name = variable("KERF_STANDIN_ASCEND_NAME");
  return name ? name : "Ascend910B3";
}
int aclrtGetDeviceCount(uint32_t *number) {
  KERF_BEGIN(aclrtGetDeviceCount)
  const char *text = variable("KERF_STANDIN_DEVICES");
  *number = text ? uint32_t(std::atoi(text)) : 8;
  return 0;
}
int aclGetDeviceCapability(uint32_t, int what, int64_t *value) {
  KERF_BEGIN_IN_CONTEXT(aclGetDeviceCapability)
  constexpr int64_t kCores = 24; // for products, of a 910B
  *value = kCores;
  return what == 0 ? 0 : fail(kInvalid, "option", "no such capability");
}
int aclrtSetDevice(int32_t device) {
  KERF_BEGIN(aclrtSetDevice)
  std::lock_guard lock(mutex);
  auto &context = contexts[device];
  if (!context)
    context = std::make_unique<Context>(Context{device});
  ++context->users;
  ++counts["devices"];
  current = context.get();
  return 0;
}
int aclrtResetDevice(int32_t device) {
  const int code = injected("aclrtResetDevice"); // functions that release do so even where they report an error
  std::lock_guard lock(mutex);
  auto found = contexts.find(device);
  if (found == contexts.end() || found->second->users == 0)
    return fail(kInvalid, "device", "aclrtResetDevice has no aclrtSetDevice");
  --counts["devices"];
  if (--found->second->users == 0 && taken[device] != 0)
    return fail(kInvalid, "device", "the device is left with memory that is not freed");
  return code;
}
int aclrtGetCurrentContext(void **context) {
  KERF_BEGIN_IN_CONTEXT(aclrtGetCurrentContext)
  *context = current;
  return 0;
}
int aclrtSetCurrentContext(void *context) {
  KERF_BEGIN(aclrtSetCurrentContext)
  std::lock_guard lock(mutex);
  for (const auto &[device, one] : contexts)
    if (one.get() == context && one->users > 0) {
      current = one.get();
      return 0;
    }
  return fail(kNoContext, "context", "the context does not exist or its device is reset");
}
int aclrtSetSysParamOpt(int option, int64_t value) {
  KERF_BEGIN_IN_CONTEXT(aclrtSetSysParamOpt)
  return option == 0 && (value == 0 || value == 1) ? 0 : fail(kInvalid, "option", "no such option");
}
int aclrtMallocAlign32(void **address, size_t bytes, int policy) {
  KERF_BEGIN_IN_CONTEXT(aclrtMallocAlign32)
  if (isCapturing())
    return fail(kCaptureFailed, "capture", "no memory is allocated by a thread that captures");
  if (bytes == 0 || policy != 0)
    return fail(kInvalid, "size", "no memory of 0 bytes");
  std::lock_guard lock(mutex);
  const int device = current->device;
  const size_t whole = (bytes + 31) / 32 * 32;
  if (int64_t(whole) < 0 || taken[device] + int64_t(whole) > memoryOfDevice())
    return fail(kNoMemory, "memory", "the device has not enough memory");
  constexpr size_t kAlignment = 512;
  void *memory = std::aligned_alloc(kAlignment, (whole + kAlignment - 1) / kAlignment * kAlignment);
  if (!memory)
    return fail(kNoMemory, "memory", "the machine has not enough memory");
  std::memset(memory, 0xa5, whole); // a number that is far from any result, where code reads what nothing has written
  auto number = reinterpret_cast<uintptr_t>(memory) + kDistance;
  deviceAllocations[number] = {whole, device};
  taken[device] += int64_t(whole);
  most[device] = std::max(most[device], taken[device]);
  counts["device memory"]++;
  *address = reinterpret_cast<void *>(number);
  return 0;
}
int aclrtFree(void *address) {
  const int injectedCode = injected("aclrtFree");
  if (int code = needsContext("aclrtFree"))
    return code;
  std::lock_guard lock(mutex);
  auto found = deviceAllocations.find(reinterpret_cast<uintptr_t>(address));
  if (found == deviceAllocations.end())
    return fail(kInvalid, "memory", "aclrtFree of an address that was not allocated");
  taken[found->second.device] -= int64_t(found->second.bytes);
  std::free(reinterpret_cast<void *>(found->first - kDistance));
  deviceAllocations.erase(found);
  counts["device memory"]--;
  return injectedCode;
}
int aclrtMallocHost(void **address, size_t bytes) {
  KERF_BEGIN_IN_CONTEXT(aclrtMallocHost)
  void *memory = bytes > 0 ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
  if (!memory)
    return fail(kNoMemory, "memory", "no host memory of this size");
  std::memset(memory, 0xa5, bytes);
  std::lock_guard lock(mutex);
  hostAllocations[reinterpret_cast<uintptr_t>(memory)] = {bytes, -1};
  counts["host memory"]++;
  *address = memory;
  return 0;
}
int aclrtFreeHost(void *address) {
  const int code = injected("aclrtFreeHost");
  std::lock_guard lock(mutex);
  if (hostAllocations.erase(reinterpret_cast<uintptr_t>(address)) == 0)
    return fail(kInvalid, "memory", "aclrtFreeHost of an address that was not allocated");
  std::free(address);
  counts["host memory"]--;
  return code;
}
int aclrtGetMemInfo(int attribute, size_t *free, size_t *total) {
  KERF_BEGIN_IN_CONTEXT(aclrtGetMemInfo)
  if (attribute != 1)
    return fail(kInvalid, "option", "the memory of an NPU is of kind 1 (HBM)");
  std::lock_guard lock(mutex);
  *total = size_t(memoryOfDevice());
  *free = *total - size_t(taken[current->device]);
  return 0;
}
}

} // namespace kerf::standin::cann
