// SPDX-License-Identifier: Apache-2.0
// Checks of JSON files that people write: what is wrong is told with file, line and column.
#pragma once

#include "kerf/Support/Result.h"
#include <string>
#include <string_view>

namespace kerf {

/// Refuses text that is not JSON, that nests deeper than kMostNesting levels, or that has one key twice in an object
/// (readers would take one of them and ignore the other). `where` names the file in the message.
Status checkJson(std::string_view text, const std::string &where);

/// "line 3, column 7" of the first member `key` of any object in `text`; "" where there is none. For messages about
/// keys that no reader knows.
std::string placeOfKey(std::string_view text, std::string_view key);

} // namespace kerf
