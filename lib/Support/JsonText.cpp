// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/JsonText.h"
#include "kerf/Support/Nesting.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

/// Returns the place of the byte at offset `at` as "line 3, column 7", counted from 1; a column is a byte.
std::string placeOf(std::string_view text, size_t at) {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < std::min(at, text.size()); ++i)
    if (text[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  return fmt::format("line {}, column {}", line, at - begin + 1);
}

/// Returns the JSON parser's message without the parser's own prefix and place: "unexpected end of
/// input; expected '}'".
std::string reasonOf(std::string message) {
  for (const char *mark : {"syntax error while parsing ", " - "})
    if (size_t at = message.find(mark); at != std::string::npos)
      message = message.substr(at + std::string_view(mark).size());
  return message;
}

/// Receives the events of the JSON parser and records the first error and the first duplicate key.
class Checker : public nlohmann::json_sax<Json> {
public:
  size_t faultAt = 0;
  std::string fault;
  std::string twice; // a key that occurs twice in one object; "": none

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    open.emplace_back();
    return true;
  }
  bool end_object() override {
    open.pop_back();
    return true;
  }
  bool key(string_t &name) override {
    if (!open.back().insert(name).second)
      twice = name;
    return twice.empty();
  }
  bool parse_error(std::size_t position, const std::string &, const nlohmann::detail::exception &error) override {
    faultAt = position ? position - 1 : 0;
    fault = reasonOf(error.what());
    return false;
  }

private:
  std::vector<std::set<std::string>> open; // keys of each object that is not yet closed
};

/// Returns the offset of the first member named `key` at or after the offset `from`, or npos if there is none.
size_t findKey(std::string_view text, std::string_view key, size_t from) {
  std::string quoted = Json(std::string(key)).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = text.find(quoted, from); at != std::string_view::npos; at = text.find(quoted, at + 1)) {
    size_t behind = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (behind != std::string_view::npos && text[behind] == ':')
      return at;
  }
  return std::string_view::npos;
}

} // namespace

Status checkJson(std::string_view text, const std::string &where) {
  if (int levels = jsonNesting(text); levels > kMaxJsonNesting)
    return Error{fmt::format("{}: nests {} levels deep; {} are allowed", where, levels, kMaxJsonNesting)};
  Checker checker;
  if (Json::sax_parse(text.begin(), text.end(), &checker))
    return ok();
  if (checker.twice.empty())
    return Error{fmt::format("{}, {}: not JSON: {}; correct the text at this place, or give another file", where,
                             placeOf(text, checker.faultAt), checker.fault)};
  return Error{
      fmt::format("{}: the key \"{}\" occurs twice in one object (first in {}), and one of the values would be "
                  "ignored; drop one of them",
                  where, checker.twice, locateKey(text, checker.twice))};
}

std::string locateKey(std::string_view text, std::string_view key) {
  size_t at = findKey(text, key, 0);
  return at == std::string_view::npos ? "" : placeOf(text, at);
}

} // namespace kerf
