// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/File.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kerf {

namespace {
constexpr int kAttempts = 1000; // number of temporary names to try, in case other processes have taken or left some

Error systemError(const char *verb, const std::string &path) {
  return {fmt::format("cannot {} '{}': {}", verb, path, std::strerror(errno))};
}
} // namespace

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<std::byte *>(data), bytes);
}

Result<std::shared_ptr<const MappedFile>> mapFile(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return systemError("open", path);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Error{fmt::format("cannot read '{}': not a regular file; give the path of a regular file", path)};
  }
  auto file = std::make_shared<MappedFile>();
  if (info.st_size > 0) {
    void *memory = mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) {
      Error error = systemError("map", path);
      close(fd);
      return error;
    }
    file->data = static_cast<const std::byte *>(memory);
    file->bytes = static_cast<size_t>(info.st_size);
  }
  close(fd);
  return std::shared_ptr<const MappedFile>(std::move(file));
}

Result<std::string> readFile(const std::string &path) {
  auto file = mapFile(path);
  if (!file)
    return file.error();
  return std::string(reinterpret_cast<const char *>((*file)->data), (*file)->bytes);
}

Status checkWritable(const std::string &path) {
  if (path.empty())
    return ok();
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    return systemError("write", path);
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string asked = exists && !S_ISREG(info.st_mode) ? path : parent.empty() ? "." : parent;
  if (access(asked.c_str(), W_OK) != 0)
    return systemError("write", path);
  return ok();
}

static bool writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

Status writeFile(const std::string &path, std::string_view bytes) {
  // A symbolic link stays, and its target is replaced. A device or a pipe is written to directly.
  std::error_code code;
  const std::filesystem::path target = std::filesystem::canonical(path, code);
  const std::string file = code ? path : target.string();
  struct stat info;
  const bool replaces = stat(file.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  std::string written = file;
  int fd = -1;
  for (int attempt = 0; attempt < kAttempts && fd < 0; ++attempt) {
    if (replaces) // O_EXCL: no other process writes to the temporary file
      written = fmt::format("{}.{}.{}.tmp", file, getpid(), attempt);
    fd = open(written.c_str(), O_WRONLY | O_CREAT | (replaces ? O_EXCL : O_TRUNC) | O_CLOEXEC, 0644);
    if (fd < 0 && (errno != EEXIST || !replaces))
      break;
  }
  if (fd < 0)
    return systemError("write", path);
  const bool isWritten = writeAll(fd, bytes);
  const int reason = errno;
  if ((close(fd) == 0) & isWritten && (!replaces || std::rename(written.c_str(), file.c_str()) == 0))
    return ok();
  if (!isWritten)
    errno = reason;
  Error error = systemError("write", path);
  if (replaces)
    unlink(written.c_str());
  return error;
}

} // namespace kerf
