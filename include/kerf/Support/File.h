// SPDX-License-Identifier: Apache-2.0
// Reading and writing of whole files. A file is written to a temporary name beside it and renamed, so that a
// reader never sees half of one and a failed write leaves the old one.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace kerf {

Result<std::string> readFile(const std::string &path);
Status writeFile(const std::string &path, std::string_view bytes);
/// Returns an error where writeFile could not write to `path` (its folder is not there or read-only, or it is a folder
/// itself), so that a command can end before its work. "" is fine: no file.
Status checkWritable(const std::string &path);

/// A file mapped read-only; the memory lives as long as a copy of the pointer does.
struct MappedFile {
  const std::byte *data = nullptr;
  size_t bytes = 0;
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();
};
Result<std::shared_ptr<const MappedFile>> mapFile(const std::string &path);

} // namespace kerf
