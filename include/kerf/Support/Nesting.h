// SPDX-License-Identifier: Apache-2.0
// A limit on the nesting depth of JSON text: very deep nesting would overflow the stack of the recursive functions that
// copy or print a JSON value.
#pragma once

#include <cstddef>
#include <string_view>

namespace kerf {

/// Deepest nesting of arrays and objects, in levels, that Kerf accepts in a JSON file. The files that Kerf writes have
/// fewer than ten levels.
inline constexpr int kMaxJsonNesting = 100;

/// Returns the nesting depth of the arrays and objects in `json`: 0 for a plain value, 2 for `{"a": [1]}`. Brackets
/// inside strings do not count. The text need not be valid JSON.
inline int jsonNesting(std::string_view json) {
  int depth = 0, most = 0;
  bool inString = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inString) {
      if (c == '\\')
        ++i;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      most = ++depth > most ? depth : most;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

} // namespace kerf
