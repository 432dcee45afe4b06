// SPDX-License-Identifier: Apache-2.0
// A lock on a checkpoint folder, so that only one run at a time writes there. A file in the folder names the process
// that holds the lock. The operating system also locks that file (flock) and releases it when the process ends, so a
// killed run does not block the next one.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kerf::runtime {

/// The process that holds a lock, as its lock file describes it.
struct LockOwner {
  std::string host;  // name of the machine on which the process runs
  int64_t pid = 0;   // process number
  std::string start; // when the process took the lock, for example "2026-11-23T06:00:00Z"
  /// When the process started, in clock ticks since boot; distinguishes it from a later process of the same number.
  int64_t startTick = 0;
  bool operator==(const LockOwner &) const = default;
};

/// Describes the calling process, with the present time as LockOwner::start.
LockOwner thisProcess();
/// Returns the text of a lock file.
std::string writeOwner(const LockOwner &owner);
/// Parses the text of a lock file. Returns nothing for a text that `writeOwner` did not write.
std::optional<LockOwner> readOwner(std::string_view text);

/// Name of the lock file in a checkpoint folder.
inline constexpr const char *kLockFile = ".lock";

/// A lock on a checkpoint folder, held for the lifetime of the object.
class FolderLock {
public:
  /// Takes the lock. Fails if another run holds it, or may hold it because that run is on another host, whose processes
  /// cannot be seen from here. Tests set `useFlock` to false to simulate a file system without flock.
  static Result<FolderLock> take(const std::string &folder, bool useFlock = true);
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&) = delete;
  /// Removes the lock file.
  ~FolderLock();

  /// Returns the process whose lock was taken over because the process has ended, or nothing if the folder
  /// was not locked.
  const std::optional<LockOwner> &recovered() const { return left; }

private:
  FolderLock(std::string path, int descriptor) : path(std::move(path)), descriptor(descriptor) {}
  Status writeThisProcess();

  std::string path;
  int descriptor;
  bool isOwn = false; // whether the destructor removes the lock file; false: it only closes the file
  std::optional<LockOwner> left;
};

} // namespace kerf::runtime
