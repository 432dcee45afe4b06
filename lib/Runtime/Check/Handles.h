// SPDX-License-Identifier: Apache-2.0
// Addresses that stand for device memory but cannot be read or written: the system ends a process that does. Offsets
// from such an address stand for the same offsets in the memory.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace kerf::runtime {

/// The table of allocations of one check device: it maps the addresses that users see to the actual memory.
class Handles : public std::enable_shared_from_this<Handles> {
public:
  /// Allocates `bytes` bytes of memory filled with kPoison, and returns an address that stands for the memory. The
  /// memory is freed with the result's last copy.
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes);
  /// Allocates `bytes` bytes of readable host memory filled with kPoison, and registers the memory for `hostMemory`.
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes);

  /// Returns the actual memory behind an address that `allocate` returned, or behind an address within such an
  /// allocation. Fails if the `bytes` bytes from there on do not lie in one allocation. Returns null if `bytes` is 0.
  Result<void *> deviceMemory(const void *address, int64_t bytes) const;
  /// Returns `address`. Fails if the `bytes` bytes from there on do not lie in one allocation of `allocateHost`.
  /// Returns null if `bytes` is 0.
  Result<void *> hostMemory(const void *address, int64_t bytes) const;

private:
  struct Range {
    int64_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  using Ranges = std::map<uintptr_t, Range>; // allocations by the first address that users see
  Result<void *> find(const Ranges &ranges, const void *address, int64_t bytes, const char *what) const;
  std::shared_ptr<std::byte> add(Ranges Handles::*ranges, std::byte *address, int64_t bytes,
                                 std::shared_ptr<std::byte> memory, size_t reserved);

  mutable std::mutex mutex;
  Ranges device, host;
};

/// The value of each byte of memory that no one has written. Floating-point numbers of such bytes are NaN, and
/// integers are -1.
inline constexpr std::byte kPoison{0xff};

} // namespace kerf::runtime
