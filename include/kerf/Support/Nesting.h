// SPDX-License-Identifier: Apache-2.0
// JSON that nests without end would exhaust the stack where it is copied or printed.
#pragma once

#include <cstddef>
#include <string_view>

namespace kerf {

inline constexpr int kMostNesting = 100; // levels; what Kerf reads has fewer than ten

/// How deep arrays and objects of a JSON text nest, brackets in strings aside.
inline int nestingOf(std::string_view json) {
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
