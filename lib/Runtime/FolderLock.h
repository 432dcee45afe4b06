// SPDX-License-Identifier: Apache-2.0
// One run at a time writes in a checkpoint folder. A file in the folder names the process that does; the kernel's lock
// on that file ends with the process, so that a run which was killed does not keep the next one out.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kerf::runtime {

/// What the lock file says of the process that wrote it.
struct LockOwner {
  std::string host;
  int64_t pid = 0;
  std::string start;     // when it took the folder, "2026-11-23T06:00:00Z"
  int64_t startTick = 0; // when the kernel started the process: another process may get its number later
  bool operator==(const LockOwner &) const = default;
};

LockOwner thisProcess();
std::string writeOwner(const LockOwner &owner);
/// Returns nothing for a text that `writeOwner` did not write.
std::optional<LockOwner> readOwner(std::string_view text);

inline constexpr const char *kLockFile = ".lock";

class FolderLock {
public:
  /// Fails when another run has the folder, or may have it because it runs on a host that cannot be asked. `useFlock`
  /// is off in the tests of file systems that do not know flock.
  static Result<FolderLock> take(const std::string &folder, bool useFlock = true);
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&) = delete;
  /// Removes the file.
  ~FolderLock();

  /// Returns whose lock was taken over because that process has ended, or nothing.
  const std::optional<LockOwner> &recovered() const { return left; }

private:
  FolderLock(std::string path, int descriptor) : path(std::move(path)), descriptor(descriptor) {}
  Status writeThisProcess();

  std::string path;
  int descriptor;
  bool isOwn = false; // else the destructor closes the file and leaves it
  std::optional<LockOwner> left;
};

} // namespace kerf::runtime
