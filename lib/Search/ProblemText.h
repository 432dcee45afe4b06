// SPDX-License-Identifier: Apache-2.0
// The text of a placement problem's file in memory, followed by the padding bytes that simdjson may read. Private to
// the Search room.
#pragma once

#include "kerf/Support/Result.h"
#include <memory>
#include <string>

namespace kerf::search {

/// A file's text that is mapped or unpacked into memory.
class ProblemText {
public:
  /// Reads a file or a pipe, plain or compressed by gzip whatever its name ends in. Fails when the file cannot be read,
  /// its compressed data is damaged, or its text is longer than simdjson reads (4 GB).
  static Result<ProblemText> load(const std::string &path);

  /// Returns the first byte; at least SIMDJSON_PADDING readable bytes follow the text.
  const char *data() const { return bytes.get(); }
  /// Returns the length of the text in bytes, without the padding.
  size_t size() const { return used; }

private:
  static Result<ProblemText> map(int descriptor, size_t size, const std::string &path);
  static Result<ProblemText> unpack(int descriptor, const std::string &path);

  std::shared_ptr<const char> bytes; // its deleter frees or unmaps the memory
  size_t used = 0;
};

/// Returns `bytes` compressed as one gzip member. Fails only when zlib itself does.
Result<std::string> gzip(const std::string &bytes);

} // namespace kerf::search
