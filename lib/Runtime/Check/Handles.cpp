// SPDX-License-Identifier: Apache-2.0
#include "Handles.h"
#include "../Cpu/HostMemory.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>

namespace kerf::runtime {

namespace {
constexpr int64_t kPage = 4096; // bytes; one page is reserved behind each allocation, so that no two are adjacent

Result<std::shared_ptr<std::byte>> poisoned(int64_t bytes) {
  auto memory = allocateOfHost(bytes);
  if (memory)
    std::fill_n(memory->get(), bytes, kPoison);
  return memory;
}
} // namespace

Result<std::shared_ptr<std::byte>> Handles::allocate(int64_t bytes) {
  auto memory = poisoned(bytes);
  if (!memory)
    return memory.error();
  size_t reserved = size_t((bytes / kPage + 2) * kPage);
  void *address = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return Error{
        fmt::format("cannot reserve {} bytes of addresses; raise the limit (`ulimit -v`), or use more ranks", reserved),
        ExitStatus::Infeasible};
  return add(&Handles::device, static_cast<std::byte *>(address), bytes, std::move(*memory), reserved);
}

Result<std::shared_ptr<std::byte>> Handles::allocateHost(int64_t bytes) {
  auto memory = poisoned(bytes);
  if (!memory)
    return memory.error();
  std::byte *address = memory->get();
  return add(&Handles::host, address, bytes, std::move(*memory), 0);
}

std::shared_ptr<std::byte> Handles::add(Ranges Handles::*ranges, std::byte *address, int64_t bytes,
                                        std::shared_ptr<std::byte> memory, size_t reserved) {
  {
    std::lock_guard lock(mutex);
    (this->*ranges)[reinterpret_cast<uintptr_t>(address)] = {bytes, std::move(memory)};
  }
  return {address, [self = shared_from_this(), ranges, reserved](std::byte *address) {
            std::lock_guard lock(self->mutex);
            (self.get()->*ranges).erase(reinterpret_cast<uintptr_t>(address));
            if (reserved > 0)
              munmap(address, reserved);
          }};
}

Result<void *> Handles::find(const Ranges &ranges, const void *address, int64_t bytes, const char *what) const {
  if (bytes == 0)
    return static_cast<void *>(nullptr);
  auto number = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex);
  auto behind = ranges.upper_bound(number);
  if (behind != ranges.begin()) {
    const auto &[first, range] = *std::prev(behind);
    auto offset = int64_t(number - first);
    if (offset + bytes <= range.bytes)
      return static_cast<void *>(range.memory.get() + offset);
  }
  return Error{
      fmt::format("{} bytes at address {} are not {}; report this plan, it is a bug of Kerf", bytes, address, what),
      ExitStatus::InternalCheck};
}

Result<void *> Handles::deviceMemory(const void *address, int64_t bytes) const {
  return find(device, address, bytes, "memory of the device");
}

Result<void *> Handles::hostMemory(const void *address, int64_t bytes) const {
  return find(host, address, bytes, "memory of the host that the device's streams may copy to and from");
}

} // namespace kerf::runtime
