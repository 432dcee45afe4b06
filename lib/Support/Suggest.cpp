// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Suggest.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

/// Returns `word` in lower case without the signs '-' and '_'.
std::string plain(std::string_view word) {
  std::string text;
  for (char c : word)
    if (c != '-' && c != '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Returns the optimal string alignment distance: Damerau and Levenshtein's without further edits of swapped letters.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  return edits[a.size()][b.size()];
}

constexpr size_t kLongestWord = 64; // longer words are not misspelled keys

} // namespace

std::string nearestWord(std::string_view word, const std::vector<std::string> &known) {
  const std::string asked = plain(word);
  std::string nearest;
  size_t least = std::max<size_t>(1, asked.size() / 3) + 1;
  for (const std::string &candidate : known) {
    if (asked.size() > kLongestWord || candidate.size() > kLongestWord)
      continue;
    size_t edits = distance(asked, plain(candidate));
    if (edits < least && edits < asked.size()) {
      least = edits;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string suggestion(std::string_view word, const std::vector<std::string> &known) {
  if (std::string nearest = nearestWord(word, known); !nearest.empty())
    return fmt::format("did you mean \"{}\"?", nearest);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

} // namespace kerf
