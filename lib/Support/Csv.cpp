// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

std::vector<std::vector<std::string>> kerf::csvRecords(std::string_view text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> cells(1);
  bool quoted = false, any = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted) {
      if (c != '"')
        cells.back() += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        cells.back() += text[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = any = true;
    } else if (c == ',') {
      cells.emplace_back();
      any = true;
    } else if (c == '\n') {
      if (any)
        records.push_back(std::move(cells));
      cells.assign(1, {});
      any = false;
    } else if (c != '\r') {
      cells.back() += c;
      any = true;
    }
  }
  if (any)
    records.push_back(std::move(cells));
  return records;
}

std::string kerf::trimmed(const std::string &cell) {
  size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
  return begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1);
}

std::string kerf::lowerCase(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::optional<double> kerf::positiveNumber(std::string_view cell) {
  double value = 0;
  auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  bool whole = error == std::errc() && end == cell.data() + cell.size();
  return whole && value > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}
