// SPDX-License-Identifier: Apache-2.0
// Scans tokens, types and locations of StableHLO text.
#include "StableHlo/HloScanner.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

static bool isWordPart(char c) { return isLetter(c) || isDigit(c) || c == '.' || c == '$'; }
static bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string toText(Place place) { return fmt::format("line {}, column {}", place.line, place.column); }

Result<DType> storedType(std::string_view element) {
  if (element == "f64")
    return DType::F64;
  if (element == "f32" || element == "f16" || element == "bf16")
    return DType::F32;
  if (element == "i64")
    return DType::I64;
  if (element == "i32")
    return DType::I32;
  if (element == "i16")
    return DType::I16;
  if (element == "i8")
    return DType::I8;
  if (element == "ui64")
    return DType::U64;
  if (element == "ui32")
    return DType::U32;
  if (element == "ui16")
    return DType::U16;
  if (element == "ui8")
    return DType::U8;
  if (element == "i1")
    return DType::Bool;
  return Error{fmt::format(
      "element type {} is not supported; supported are f64, f32, f16, bf16, i64 to i8, ui64 to ui8 and i1", element)};
}

//===-- tokens -----------------------------------------------------------===//

void Scanner::skipBlanks() {
  while (at < text.size()) {
    if (isBlank(text[at])) {
      ++at;
    } else if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else {
      break;
    }
  }
}

bool Scanner::atEnd() {
  skipBlanks();
  return at >= text.size();
}

char Scanner::next() { return atEnd() ? '\0' : text[at]; }

Place Scanner::place() {
  skipBlanks();
  if (counted > at) {
    counted = 0;
    here = Place();
  }
  for (; counted < at; ++counted) {
    bool newLine = text[counted] == '\n';
    here.line += newLine;
    here.column = newLine ? 1 : here.column + 1;
  }
  return here;
}

Error Scanner::error(std::string message) { return Error{fmt::format("{}: {}", toText(place()), message)}; }

Status Scanner::checkDepth() {
  if (depth > kMaxJsonNesting)
    return error(fmt::format("more than {} levels of nesting", kMaxJsonNesting));
  return ok();
}

bool Scanner::nextIs(std::string_view token) {
  skipBlanks();
  if (text.substr(at, token.size()) != token)
    return false;
  size_t after = at + token.size();
  return !isLetter(token.front()) || after >= text.size() || !isWordPart(text[after]);
}

bool Scanner::take(std::string_view token) {
  if (!nextIs(token))
    return false;
  at += token.size();
  return true;
}

Status Scanner::expect(std::string_view token, std::string_view where) {
  if (take(token))
    return ok();
  std::string found = atEnd() ? "the end of the text" : fmt::format("'{}'", text[at]);
  return error(fmt::format("'{}' is missing {}; the text has {} instead", token, where, found));
}

bool Scanner::nextIsWord() { return isLetter(next()); }

Result<std::string> Scanner::word(std::string_view what) {
  if (!nextIsWord())
    return error(fmt::format("{} is missing", what));
  size_t start = at;
  while (at < text.size() && isWordPart(text[at]))
    ++at;
  return std::string(text.substr(start, at - start));
}

Result<std::string> Scanner::symbol() {
  KERF_CHECK(expect("@", "before a symbol's name"));
  if (at < text.size() && text[at] == '"')
    return quoted();
  size_t start = at;
  while (at < text.size() && (isWordPart(text[at]) || text[at] == '-'))
    ++at;
  if (at == start)
    return error("a symbol has no name");
  return std::string(text.substr(start, at - start));
}

Result<std::string> Scanner::value() {
  if (next() != '%')
    return error("a value (%name) is missing");
  size_t start = at++;
  while (at < text.size() && (isWordPart(text[at]) || text[at] == '-'))
    ++at;
  if (at == start + 1)
    return error("a value has no name");
  if (at + 1 < text.size() && text[at] == '#' && isDigit(text[at + 1]))
    for (++at; at < text.size() && isDigit(text[at]);)
      ++at;
  return std::string(text.substr(start, at - start));
}

Result<std::string> Scanner::quoted() {
  KERF_CHECK(expect("\"", "before a string"));
  std::string result;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] != '\\') {
      result += text[at];
      continue;
    }
    if (at + 2 < text.size() && isHexDigit(text[at + 1]) && isHexDigit(text[at + 2])) {
      result += char(std::strtol(std::string(text.substr(at + 1, 2)).c_str(), nullptr, 16));
      at += 2;
    } else if (at + 1 < text.size()) {
      char c = text[++at];
      result += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
  }
  if (at >= text.size())
    return error("a string does not end");
  ++at;
  return result;
}

Result<int64_t> Scanner::integer() {
  skipBlanks();
  int64_t number = 0;
  auto [end, code] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  if (code != std::errc())
    return error(code == std::errc::result_out_of_range ? "an integer of more than 64 bits" : "an integer is missing");
  at = size_t(end - text.data());
  return number;
}

Result<int64_t> Scanner::count(int64_t least, int64_t most, std::string_view what) {
  KERF_TRY(number, integer());
  if (number < least || number > most)
    return error(fmt::format("{} is {}, but only {} to {} are allowed", what, number, least, most));
  return number;
}

/// Reads up to the bracket that matches the next bracket.
Status Scanner::balanced(std::string &into) {
  size_t start = at;
  std::string open;
  do {
    if (atEnd())
      return error("a bracket is not closed");
    char c = text[at];
    if (c == '"') {
      KERF_TRY(ignored, quoted());
      (void)ignored;
      continue;
    }
    if (text.substr(at, 2) == "->") {
      at += 2;
      continue;
    }
    ++at;
    if (c == '(' || c == '[' || c == '{' || c == '<')
      open += c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>';
    else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (open.empty() || open.back() != c)
        return error(fmt::format("'{}' closes nothing", c));
      open.pop_back();
    }
  } while (!open.empty());
  into += text.substr(start, at - start);
  return ok();
}

//===-- types ------------------------------------------------------------===//

Result<Type> Scanner::type() {
  skipBlanks();
  size_t start = at;
  Type type;
  if (next() == '!') {
    ++at;
    KERF_TRY(name, word("a type"));
    (void)name;
    if (next() == '<') {
      std::string rest;
      KERF_CHECK(balanced(rest));
    }
    type.text = text.substr(start, at - start);
    return type;
  }
  KERF_TRY(name, word("a type"));
  if (name != "tensor") {
    if (next() == '<') {
      std::string rest;
      KERF_CHECK(balanced(rest));
    }
    type.text = text.substr(start, at - start);
    return type;
  }
  KERF_CHECK(expect("<", "after 'tensor'"));
  while (true) {
    if (next() == '?' || next() == '*')
      return error("a dimension has no size; lower the function for arguments of static shapes");
    if (!isDigit(next()))
      break;
    KERF_TRY(size, integer());
    if (at >= text.size() || text[at] != 'x')
      return error("'x' is missing after a dimension's size");
    ++at;
    type.shape.push_back(size);
    if (Status status = checkShape(type.shape); !status)
      return error(fmt::format("a tensor has {}", status.error().message));
  }
  size_t elementStart = at;
  KERF_TRY(element, word("an element type"));
  (void)element;
  if (next() == '<') {
    std::string rest;
    KERF_CHECK(balanced(rest));
  }
  type.element = text.substr(elementStart, at - elementStart);
  if (take(",")) { // an encoding after the element type is skipped
    while (next() != '>') {
      if (atEnd())
        return error("a type is not closed");
      if (std::string_view("([{<\"").find(text[at]) != std::string_view::npos) {
        std::string rest;
        KERF_CHECK(balanced(rest));
      } else {
        ++at;
      }
    }
  }
  KERF_CHECK(expect(">", "at the end of a type"));
  type.text = text.substr(start, at - start);
  return type;
}

Result<std::vector<Type>> Scanner::types() {
  std::vector<Type> list;
  do {
    KERF_TRY(one, type());
    list.push_back(std::move(one));
  } while (take(","));
  return list;
}

Status Scanner::functionType(std::vector<Type> &inputs, std::vector<Type> &outputs) {
  KERF_CHECK(expect("(", "before the types of operands"));
  if (!take(")")) {
    KERF_TRY(list, types());
    inputs = std::move(list);
    KERF_CHECK(expect(")", "after the types of operands"));
  }
  KERF_CHECK(expect("->", "before the types of results"));
  if (!take("(")) {
    KERF_TRY(one, type());
    outputs = {std::move(one)};
    return ok();
  }
  if (take(")"))
    return ok();
  KERF_TRY(list, types());
  outputs = std::move(list);
  return expect(")", "after the types of results");
}

//===-- locations and aliases --------------------------------------------===//

/// Reads a location and returns its name, as in `loc("jit(f)/layer_0/add"(#loc1))`; a position in a file,
/// `"model.py":3:1`, is no name.
static std::string nameInLocation(const std::string &body) {
  if (body.size() < 2 || body[0] != '(')
    return "";
  if (body[1] == '#')
    return body.substr(1, body.size() - 2);
  size_t end = body.find('"', 2);
  if (body[1] != '"' || end == std::string::npos || (end + 1 < body.size() && body[end + 1] == ':'))
    return "";
  return body.substr(2, end - 2);
}

Result<std::string> Scanner::location() {
  if (!nextIs("loc"))
    return std::string();
  (void)take("loc");
  skipBlanks();
  std::string body;
  if (next() != '(')
    return error("'(' is missing after 'loc'");
  KERF_CHECK(balanced(body));
  return nameInLocation(body);
}

Status Scanner::alias() {
  size_t start = at;
  ++at; // '#' or '!'
  KERF_TRY(name, word("an alias"));
  (void)name;
  std::string whole(text.substr(start, at - start));
  KERF_CHECK(expect("=", "in an alias"));
  if (nextIs("loc")) {
    KERF_TRY(target, location());
    locations[whole] = target;
    return ok();
  }
  if (whole[0] == '!')
    return error(fmt::format("the type alias {} is not supported", whole));
  KERF_TRY(ignored, attribute());
  (void)ignored;
  return ok();
}

} // namespace kerf::frontend::hlo
