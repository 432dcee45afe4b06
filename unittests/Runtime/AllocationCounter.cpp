// SPDX-License-Identifier: Apache-2.0
// The replaced malloc and similar functions pass every call on to glibc. While counting, an allocation belongs to the
// innermost caller on the call stack that is either this program or oneDNN's library. The C++ library, the C library
// and fmt only work on behalf of one of the two.
#include "AllocationCounter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <memory>
#include <mutex>

namespace kerf::runtime::test {

namespace {
constexpr int kMostFrames = 48, kShownFrames = 10;
constexpr size_t kKeptStacks = 4;

struct Stack {
  std::array<void *, kMostFrames> frames;
  int begin = 0, end = 0;
};

std::atomic<bool> counting = false;
std::atomic<int64_t> byKerf = 0, byOneDnn = 0;
std::mutex keptMutex; // guards `kept` and `keptCount`
std::array<Stack, kKeptStacks> kept;
size_t keptCount = 0;
thread_local bool looking = false; // looking at a stack may allocate

const void *objectOf(const void *address) {
  Dl_info info;
  return dladdr(address, &info) ? info.dli_fbase : nullptr;
}

bool isOneDnn(const void *address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname && std::strstr(info.dli_fname, "libdnnl");
}

/// Counts an allocation. `caller` is the address from which malloc was called.
[[gnu::noinline]] void count(const void *caller) {
  if (!counting || looking)
    return;
  looking = true;
  static const void *const self = objectOf(reinterpret_cast<const void *>(&count));
  Stack stack;
  stack.end = backtrace(stack.frames.data(), kMostFrames);
  stack.begin = int(std::find(stack.frames.begin(), stack.frames.begin() + stack.end, caller) - stack.frames.begin());
  for (int i = stack.begin;; ++i) {
    if (i < stack.end && isOneDnn(stack.frames[size_t(i)])) {
      ++byOneDnn;
      break;
    }
    // No caller is found when a thread starts. Such allocations count as Kerf's, so that none is overlooked.
    if (i >= stack.end || objectOf(stack.frames[size_t(i)]) == self) {
      ++byKerf;
      std::lock_guard lock(keptMutex);
      if (keptCount < kept.size())
        kept[keptCount++] = stack;
      break;
    }
  }
  looking = false;
}

std::string textOf(const Stack &stack) {
  int shown = std::min(stack.end - stack.begin, kShownFrames);
  std::unique_ptr<char *, decltype(&std::free)> names(backtrace_symbols(stack.frames.data() + stack.begin, shown),
                                                      &std::free);
  std::string text;
  for (int i = 0; names && i < shown; ++i)
    text += std::string("  ") + names.get()[i] + "\n";
  return text;
}
} // namespace

#ifdef __SANITIZE_ADDRESS__
bool canCountAllocations() { return false; }
#else
bool canCountAllocations() { return true; }
#endif

void startCounting() {
  void *frame = nullptr;
  backtrace(&frame, 1); // the first call loads the library that walks stacks
  keptCount = 0;
  byKerf = byOneDnn = 0;
  counting = true;
}

Allocations stopCounting() {
  counting = false;
  Allocations allocations{byKerf, byOneDnn, {}};
  for (size_t i = 0; i < keptCount; ++i)
    allocations.first.push_back(textOf(kept[i]));
  return allocations;
}

} // namespace kerf::runtime::test

#ifndef __SANITIZE_ADDRESS__
extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **out, size_t alignment, size_t bytes) {
  kerf::runtime::test::count(__builtin_return_address(0));
  void *memory = __libc_memalign(alignment, bytes);
  if (!memory)
    return ENOMEM;
  *out = memory;
  return 0;
}
}
#endif
