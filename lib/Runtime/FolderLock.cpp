// SPDX-License-Identifier: Apache-2.0
#include "FolderLock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace kerf::runtime {

namespace {
using Json = nlohmann::ordered_json;

/// Most attempts to open a lock file that other processes remove at the same time.
constexpr int kAttempts = 100;

Error cannot(const char *verb, const std::string &path) {
  return {fmt::format("cannot {} '{}': {}", verb, path, std::strerror(errno))};
}

/// Returns when a process was started, in clock ticks since the machine's start; 0 if /proc does not tell.
int64_t startTickOf(int64_t pid) {
  int descriptor = open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return 0;
  char text[1024];
  ssize_t count = read(descriptor, text, sizeof text);
  close(descriptor);
  std::string_view fields(text, size_t(std::max<ssize_t>(count, 0)));
  // The command in parentheses may hold spaces. The state behind it is field 3, the start is field 22.
  size_t at = fields.rfind(')');
  for (int field = 2; field < 22 && at != std::string_view::npos; ++field)
    at = fields.find(' ', at + 1);
  return at == std::string_view::npos ? 0 : std::atoll(fields.data() + at + 1);
}

/// Returns whether the lock's owner, a process on this host, still runs or may still run. A process of another user may
/// not be visible.
bool isAlive(const LockOwner &owner) {
  if (kill(pid_t(owner.pid), 0) != 0 && errno == ESRCH)
    return false;
  int64_t tick = startTickOf(owner.pid);
  return tick == 0 || owner.startTick == 0 || tick == owner.startTick;
}

bool isSameFile(int descriptor, const std::string &path) {
  struct stat open, named;
  return fstat(descriptor, &open) == 0 && stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

std::string textIn(int descriptor) {
  char text[1024];
  ssize_t count = pread(descriptor, text, sizeof text, 0);
  return std::string(text, size_t(std::max<ssize_t>(count, 0)));
}

Error isTaken(const std::string &path, const std::optional<LockOwner> &owner) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (!owner)
    return {fmt::format("another run writes its checkpoints in '{}': wait for it, or give <checkpoint> another folder "
                        "(its lock '{}' does not say which process it is; where none runs, remove that file)",
                        folder, path)};
  if (owner->host != thisProcess().host)
    return {fmt::format("process {} of host {} writes its checkpoints in '{}' since {}: wait for it, or give "
                        "<checkpoint> another folder. Whether it still runs cannot be seen from here; where it does "
                        "not, remove '{}'",
                        owner->pid, owner->host, folder, owner->start, path)};
  return {fmt::format("process {} of this host ({}) writes its checkpoints in '{}' since {}: wait for it or end it, or "
                      "give <checkpoint> another folder",
                      owner->pid, owner->host, folder, owner->start)};
}

/// Removes the lock file of a dead process on a file system without flock. Returns whether the caller may try again.
/// Two runs may do this at the same time, so the file is renamed first and then compared with the open one: only the
/// file that was read may be removed.
bool removeStale(int descriptor, const std::string &path) {
  std::string aside = fmt::format("{}.{}.old", path, getpid());
  if (std::rename(path.c_str(), aside.c_str()) != 0)
    return true; // another run was faster; the next attempt reads its lock
  bool isSame = isSameFile(descriptor, aside);
  if (!isSame && link(aside.c_str(), path.c_str()) != 0) // restores the new lock of a faster run
    isSame = true;
  unlink(aside.c_str());
  return isSame;
}

bool hasNoFlock(int code) {
  return code == ENOSYS || code == EOPNOTSUPP || code == ENOTSUP || code == ENOLCK || code == EINVAL;
}
} // namespace

LockOwner thisProcess() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {host, getpid(), text, startTickOf(getpid())};
}

std::string writeOwner(const LockOwner &owner) {
  return Json{{"host", owner.host}, {"pid", owner.pid}, {"start", owner.start}, {"start_tick", owner.startTick}}.dump(
             -1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::optional<LockOwner> readOwner(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  for (const char *key : {"host", "start"})
    if (!json.is_object() || !json.contains(key) || !json[key].is_string())
      return std::nullopt;
  for (const char *key : {"pid", "start_tick"})
    if (!json.contains(key) || !json[key].is_number_integer())
      return std::nullopt;
  LockOwner owner{json["host"], json["pid"], json["start"], json["start_tick"]};
  return owner.pid > 0 ? std::optional(owner) : std::nullopt;
}

Status FolderLock::writeThisProcess() {
  std::string text = writeOwner(thisProcess());
  isOwn = true; // from here on the destructor removes the file
  if (ftruncate(descriptor, 0) != 0)
    return cannot("write", path);
  for (size_t at = 0; at < text.size();) { // a disk that is almost full may write only a part at first
    ssize_t count = pwrite(descriptor, text.data() + at, text.size() - at, off_t(at));
    if (count < 0 && errno != EINTR)
      return cannot("write", path);
    at += size_t(std::max<ssize_t>(count, 0));
  }
  return ok();
}

Result<FolderLock> FolderLock::take(const std::string &folder, bool useFlock) {
  std::string path = (std::filesystem::path(folder) / kLockFile).string(), host = thisProcess().host;
  std::optional<LockOwner> left;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool isNew = descriptor >= 0;
    if (!isNew && errno == EEXIST)
      descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0 && errno == ENOENT && std::filesystem::is_directory(folder))
      continue; // the file's owner has just removed it
    if (descriptor < 0)
      return cannot("write", path);
    FolderLock lock(path, descriptor);
    int refusal = !useFlock ? ENOSYS : flock(descriptor, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
    std::optional<LockOwner> owner = readOwner(textIn(descriptor));
    if (refusal == EWOULDBLOCK)
      return isTaken(path, owner);
    if (refusal && !hasNoFlock(refusal))
      return Error{fmt::format("cannot lock '{}': {}; give <checkpoint> another folder", path, std::strerror(refusal))};
    if (!isSameFile(descriptor, path))
      continue; // the file's owner has removed it since it was opened
    // A successful flock shows only that no process on this host has the lock.
    if (owner && owner->host != host)
      return isTaken(path, owner);
    if (refusal && !isNew) {
      if (!owner || isAlive(*owner) || !removeStale(descriptor, path))
        return isTaken(path, owner);
      left = owner; // the next attempt creates a new file, which only one run can do
      continue;
    }
    lock.left = owner ? owner : left;
    if (Status status = lock.writeThisProcess(); !status)
      return status.error();
    return lock;
  }
  return Error{fmt::format("cannot lock '{}': other runs take it and leave it again and again; give <checkpoint> "
                           "another folder",
                           path)};
}

FolderLock::FolderLock(FolderLock &&other) noexcept
    : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)), isOwn(other.isOwn),
      left(std::move(other.left)) {}

FolderLock::~FolderLock() {
  if (descriptor < 0)
    return;
  if (isOwn && isSameFile(descriptor, path))
    unlink(path.c_str());
  close(descriptor);
}

} // namespace kerf::runtime
