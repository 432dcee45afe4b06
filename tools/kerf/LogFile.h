// SPDX-License-Identifier: Apache-2.0
// The file of --log: one JSON object a line, each written at once and whole or not at all.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <string>
#include <utility>

namespace kerf::tool {

class LogFile {
public:
  /// Opens the file behind its last line. Fails where another living run writes it.
  static Result<LogFile> open(const std::string &path);
  LogFile(LogFile &&other) noexcept
      : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)), isRegular(other.isRegular) {}
  LogFile &operator=(LogFile &&) = delete;
  ~LogFile();

  /// Removes all lines but those of steps before `firstStep`. A device or a pipe stays as it is.
  Status keepSteps(int64_t firstStep);
  /// `line` without its end. Where it fails, no part of the line is in the file.
  Status append(const std::string &line);

private:
  LogFile(std::string path, int descriptor, bool isRegular)
      : path(std::move(path)), descriptor(descriptor), isRegular(isRegular) {}

  std::string path;
  int descriptor;
  bool isRegular;
};

} // namespace kerf::tool
