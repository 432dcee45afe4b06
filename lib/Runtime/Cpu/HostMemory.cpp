// SPDX-License-Identifier: Apache-2.0
#include "HostMemory.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/mman.h>

namespace kerf::runtime {

Result<std::shared_ptr<std::byte>> allocateOfHost(int64_t bytes) {
  // Large allocations come directly from the system, which provides pages when they are first written. The arena of a
  // step therefore occupies no memory while weights are read.
  constexpr int64_t kLarge = int64_t(1) << 20;
  size_t rounded = size_t(std::max<int64_t>((bytes + kHostAlignment - 1) / kHostAlignment, 1) * kHostAlignment);
  bool large = bytes >= kLarge;
  void *memory = large ? mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                       : std::aligned_alloc(size_t(kHostAlignment), rounded);
  if (!memory || memory == MAP_FAILED)
    return Error{
        fmt::format("cannot allocate {} bytes for one rank; use more ranks, or a plan that needs less memory", rounded),
        ExitStatus::Infeasible};
  auto *first = static_cast<std::byte *>(memory);
  if (large)
    return std::shared_ptr<std::byte>(first, [rounded](std::byte *bytes) { munmap(bytes, rounded); });
  return std::shared_ptr<std::byte>(first, [](std::byte *bytes) { std::free(bytes); });
}

} // namespace kerf::runtime
