// SPDX-License-Identifier: Apache-2.0
// Matching of names against patterns with wildcards.
#pragma once
#include <string_view>
namespace kerf {
/// Returns whether the complete `text` matches `pattern`. In the pattern, `*` stands for any number of characters
/// (including '/' and '.') and `?` for exactly one character.
bool globMatch(std::string_view pattern, std::string_view text);
} // namespace kerf
