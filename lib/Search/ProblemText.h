// SPDX-License-Identifier: Apache-2.0
// The text of a problem's file, whole in memory and with the bytes behind it that simdjson may read. Private to Search.
#pragma once

#include "kerf/Support/Result.h"
#include <memory>
#include <string>

namespace kerf::search {

class ProblemText {
public:
  /// Compressed by gzip (whatever the name says) or plain; a file or a pipe.
  static Result<ProblemText> load(const std::string &path);

  const char *data() const { return bytes.get(); }
  size_t size() const { return used; }

private:
  static Result<ProblemText> map(int descriptor, size_t size, const std::string &path);
  static Result<ProblemText> unpack(int descriptor, const std::string &path);

  std::shared_ptr<const char> bytes; // with what frees or unmaps it
  size_t used = 0;
};

/// The bytes as one gzip member.
Result<std::string> gzip(const std::string &bytes);

} // namespace kerf::search
