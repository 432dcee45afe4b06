// SPDX-License-Identifier: Apache-2.0
// Addresses that stand for memory. Nothing is mapped where they point: whoever reads or writes there is ended by the
// system. They have the same arithmetic as the memory that they stand for.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace kerf::runtime {

class Handles : public std::enable_shared_from_this<Handles> {
public:
  /// Returns the address that stands for `bytes` bytes, which are full of kPoison. The memory lives as long as what is
  /// returned.
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes);
  /// Returns memory of the host itself, full of kPoison, that `hostMemory` knows.
  Result<std::shared_ptr<std::byte>> allocateHost(int64_t bytes);

  /// Returns the memory that an address stands for: `bytes` bytes from there on must lie in one allocation. Null for no
  /// bytes.
  Result<void *> deviceMemory(const void *address, int64_t bytes) const;
  /// Returns `address`, from where on `bytes` bytes must lie in one allocation of `allocateHost`.
  Result<void *> hostMemory(const void *address, int64_t bytes) const;

private:
  struct Range {
    int64_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  using Ranges = std::map<uintptr_t, Range>; // by first address
  Result<void *> find(const Ranges &ranges, const void *address, int64_t bytes, const char *what) const;
  std::shared_ptr<std::byte> add(Ranges Handles::*ranges, std::byte *address, int64_t bytes,
                                 std::shared_ptr<std::byte> memory, size_t reserved);

  mutable std::mutex mutex;
  Ranges device, host;
};

/// A byte of memory that nobody has written: floating numbers of such bytes are NaN, indices are -1.
inline constexpr std::byte kPoison{0xff};

} // namespace kerf::runtime
