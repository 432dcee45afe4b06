// SPDX-License-Identifier: Apache-2.0
// Finds the known word that is nearest to a misspelled one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// Returns the word of `known` that differs from `word` in the fewest letters (added, dropped, changed, or two
/// neighbours swapped; case and '-' or '_' do not count); "" where none is near: more than a third of the letters
/// differ.
std::string nearestWord(std::string_view word, const std::vector<std::string> &known);

/// "did you mean "mesh"?", or, where no word is near, "known are mesh, order".
std::string suggestion(std::string_view word, const std::vector<std::string> &known);

} // namespace kerf
