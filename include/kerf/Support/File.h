// SPDX-License-Identifier: Apache-2.0
// Functions that read and write complete files. A file is first written under a temporary name in the same folder and
// then renamed, so that a reader never sees a half-written file and a failed write leaves the old file intact.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace kerf {

/// Returns the contents of the file `path`. Fails if the file cannot be opened or is not a regular file.
Result<std::string> readFile(const std::string &path);
/// Writes `bytes` to the file `path`, replacing an existing file atomically; a device or a pipe is written to directly.
/// Fails with the system's reason if the file cannot be written; an existing file then keeps its contents.
Status writeFile(const std::string &path, std::string_view bytes);
/// Checks that writeFile could write to `path`, so that a command can fail before it starts a long computation.
/// Fails if the folder does not exist or is read-only, or if `path` is a folder. Accepts the empty path, which
/// means "no file".
Status checkWritable(const std::string &path);

/// A file that is mapped into memory for reading. The mapping is released when the object is destroyed.
struct MappedFile {
  const std::byte *data = nullptr; // first byte of the file; null for an empty file
  size_t bytes = 0;                // length of the file in bytes
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();
};
/// Maps the file `path` into memory for reading; the mapping lives as long as a copy of the returned pointer. Fails if
/// the file cannot be opened or mapped, or is not a regular file.
Result<std::shared_ptr<const MappedFile>> mapFile(const std::string &path);

} // namespace kerf
