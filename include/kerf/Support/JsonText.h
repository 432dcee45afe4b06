// SPDX-License-Identifier: Apache-2.0
// Checks of JSON files that people write. Error messages name the file, the line and the column.
#pragma once

#include "kerf/Support/Result.h"
#include <string>
#include <string_view>

namespace kerf {

/// Checks that `text` is valid JSON. Fails if it is not JSON, if arrays and objects nest more than kMaxJsonNesting
/// levels deep, or if one object has the same key twice (JSON readers would silently ignore one of the two values).
/// `where` is the name of the file in the error message.
Status checkJson(std::string_view text, const std::string &where);

/// Returns the place of the first member named `key` in the JSON `text`, as "line 3, column 7", for error messages
/// about unknown keys. Lines and columns count from 1; a column is a byte. Returns "" if no object has such a member.
std::string locateKey(std::string_view text, std::string_view key);

} // namespace kerf
