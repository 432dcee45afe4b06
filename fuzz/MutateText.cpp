// SPDX-License-Identifier: Apache-2.0
// Mutates program text by tokens and lines; the parser accepts more of these mutations than of changed bytes.
#include <cctype>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);

namespace {
struct Chance {
  std::minstd_rand engine;
  size_t below(size_t count) { return count ? engine() % count : 0; }
};

bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '@' || c == '#';
}

/// Splits text into words; every other character is a token of its own.
std::vector<std::string> tokensOf(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (isWord(text[at]) && end < text.size() && isWord(text[end]))
      ++end;
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

const std::vector<std::string> kNumbers = {"0",
                                           "1",
                                           "-1",
                                           "2",
                                           "3",
                                           "64",
                                           "1000000",
                                           "4294967296",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "99999999999999999999",
                                           "1e400",
                                           "0.5",
                                           "0x7FC00000",
                                           "?"};
const std::vector<std::string> kTypes = {"f32", "f64", "bf16", "f16",   "i64",    "i32",
                                         "i8",  "i1",  "ui8",  "index", "complex"};

/// Words include shapes: "4x8xf32" is one word.
std::string changedWord(std::string word, Chance &chance) {
  size_t begin = chance.below(word.size());
  while (begin < word.size() && !std::isdigit(static_cast<unsigned char>(word[begin])))
    ++begin;
  if (begin == word.size())
    return chance.below(2) ? kTypes[chance.below(kTypes.size())] : kNumbers[chance.below(kNumbers.size())];
  size_t end = begin;
  while (end < word.size() && std::isdigit(static_cast<unsigned char>(word[end])))
    ++end;
  return word.substr(0, begin) + kNumbers[chance.below(kNumbers.size())] + word.substr(end);
}

void change(std::vector<std::string> &parts, Chance &chance) {
  if (parts.empty())
    return;
  size_t at = chance.below(parts.size()), other = chance.below(parts.size());
  switch (chance.below(6)) {
  case 0:
    parts.erase(parts.begin() + std::ptrdiff_t(at));
    return;
  case 1:
    parts.insert(parts.begin() + std::ptrdiff_t(at), std::string(parts[other]));
    return;
  case 2:
    std::swap(parts[at], parts[other]);
    return;
  case 3:
    parts[at] = changedWord(parts[at], chance);
    return;
  default: // replaces a word by another word
    for (size_t tries = 0; tries < 20 && !(isWord(parts[at][0]) && isWord(parts[other][0])); ++tries)
      at = chance.below(parts.size()), other = chance.below(parts.size());
    parts[at] = std::string(parts[other]);
  }
}
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed) {
  Chance chance{std::minstd_rand(seed)};
  if (bytes == 0 || chance.below(6) == 0)
    return LLVMFuzzerMutate(data, bytes, most);
  std::string_view text(reinterpret_cast<const char *>(data), bytes);
  std::vector<std::string> parts = chance.below(4) == 0 ? linesOf(text) : tokensOf(text);
  for (size_t i = 0, changes = 1 + chance.below(3); i < changes; ++i)
    change(parts, chance);
  std::string changed;
  for (const std::string &part : parts)
    changed += part;
  if (changed.size() > most)
    return LLVMFuzzerMutate(data, bytes, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
