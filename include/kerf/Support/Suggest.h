// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelled words: the known word that is closest to the one that was written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// Returns the word of `known` with the smallest edit distance to `word`. An edit inserts, deletes or changes a letter
/// or swaps two neighbouring letters; upper and lower case and the signs '-' and '_' make no difference. Returns "" if
/// every known word differs in more than a third of the letters of `word`.
std::string nearestWord(std::string_view word, const std::vector<std::string> &known);

/// Returns the end of an error message about the unknown word `word`: `did you mean "mesh"?` if a word of `known` is
/// close to it, and otherwise the list of all known words, "known are mesh, order".
std::string suggestion(std::string_view word, const std::vector<std::string> &known);

} // namespace kerf
