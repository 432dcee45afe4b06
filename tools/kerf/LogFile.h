// SPDX-License-Identifier: Apache-2.0
// The log file of --log, which holds one JSON object a line.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <string>
#include <utility>

namespace kerf::tool {

/// An open log file, locked against other runs. Each line is written at once, and either whole or not at all.
class LogFile {
public:
  /// Opens the file for appending and creates it if necessary. Fails when the file cannot be written or another running
  /// process holds its lock.
  static Result<LogFile> open(const std::string &path);
  LogFile(LogFile &&other) noexcept
      : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)), isRegular(other.isRegular) {}
  LogFile &operator=(LogFile &&) = delete;
  ~LogFile();

  /// Removes the lines that are not of a step before `firstStep`. Does nothing for a device or a pipe.
  Status keepSteps(int64_t firstStep);
  /// Appends `line`, which has no newline of its own, and a newline. When writing fails, the file keeps its old length.
  Status append(const std::string &line);

private:
  LogFile(std::string path, int descriptor, bool isRegular)
      : path(std::move(path)), descriptor(descriptor), isRegular(isRegular) {}

  std::string path;
  int descriptor;
  bool isRegular;
};

} // namespace kerf::tool
