// SPDX-License-Identifier: Apache-2.0
#include "LogFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kerf::tool {

namespace {
using Json = nlohmann::ordered_json;

Error cannotWrite(const std::string &path, int code) {
  return {fmt::format("cannot write '{}': {}", path, std::strerror(code))};
}

/// Writes all bytes. Returns 0, or the errno of the write that failed.
int writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errno;
    bytes.remove_prefix(size_t(count));
  }
  return 0;
}

Result<std::string> contentOf(int descriptor, const std::string &path) {
  std::string text;
  char piece[1 << 16];
  for (;;) {
    ssize_t count = pread(descriptor, piece, sizeof piece, off_t(text.size()));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return Error{fmt::format("cannot read '{}': {}", path, std::strerror(errno))};
    if (count == 0)
      return text;
    text.append(piece, size_t(count));
  }
}

/// Returns the lines of the log `text` whose step is before `firstStep`.
std::string earlierLines(std::string_view text, int64_t firstStep) {
  std::string kept;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    bool isStep = entry.is_object() && entry.contains("step") && entry["step"].is_number_integer();
    if (isStep && entry["step"].get<int64_t>() < firstStep)
      (kept += line) += '\n';
  }
  return kept;
}
} // namespace

Result<LogFile> LogFile::open(const std::string &path) {
  struct stat info;
  bool isRegular = stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  // A regular file is also opened for reading, because keepSteps reads its lines; a device or a pipe may allow writing
  // only.
  int flags = (isRegular ? O_RDWR | O_CREAT : O_WRONLY) | O_APPEND | O_CLOEXEC;
  int descriptor = ::open(path.c_str(), flags, 0644);
  if (descriptor < 0)
    return cannotWrite(path, errno);
  // On a file system without locks the run continues without a lock.
  if (isRegular && flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(descriptor);
    return Error{
        fmt::format("another run writes its log to '{}'; wait for that run to end, or give --log another file", path)};
  }
  return LogFile(path, descriptor, isRegular);
}

LogFile::~LogFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Status LogFile::keepSteps(int64_t firstStep) {
  if (!isRegular)
    return ok();
  auto text = contentOf(descriptor, path);
  if (!text)
    return text.error();
  std::string kept = earlierLines(*text, firstStep);
  // Usually the kept lines are the beginning of the file, and truncating the file is enough.
  size_t same = text->starts_with(kept) ? kept.size() : 0;
  if (ftruncate(descriptor, off_t(same)) != 0)
    return cannotWrite(path, errno);
  if (int code = writeAll(descriptor, std::string_view(kept).substr(same)))
    return cannotWrite(path, code);
  return ok();
}

Status LogFile::append(const std::string &line) {
  off_t before = isRegular ? lseek(descriptor, 0, SEEK_END) : 0;
  int code = writeAll(descriptor, line + "\n");
  if (code == 0)
    return ok();
  if (isRegular && ftruncate(descriptor, before) != 0)
    return Error{fmt::format("cannot write '{}': {}, and its last line is incomplete; give --log another file", path,
                             std::strerror(code))};
  return cannotWrite(path, code);
}

} // namespace kerf::tool
