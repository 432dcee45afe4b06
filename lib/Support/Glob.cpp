// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Glob.h"
#include <cstddef>

namespace kerf {

bool globMatch(std::string_view pattern, std::string_view text) {
  // When a match fails, it suffices to let the last `*` match one more character; earlier ones never need to change.
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

} // namespace kerf
