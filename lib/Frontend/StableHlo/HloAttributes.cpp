// SPDX-License-Identifier: Apache-2.0
// Scans attributes of StableHLO text: builtin ones, and words and records of any dialect.
#include "StableHlo/HloScanner.h"

#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>

namespace kerf::frontend::hlo {

const Attribute *Attribute::find(std::string_view name) const {
  for (const auto &[key, value] : record)
    if (key == name)
      return &value;
  return nullptr;
}

Result<Attribute> Scanner::attribute() {
  Level level(*this);
  KERF_CHECK(checkDepth());
  Attribute result;
  char c = next();
  if (c == '"') {
    KERF_TRY(string, quoted());
    result.kind = Attribute::Kind::Text;
    result.text = std::move(string);
    if (typesFollow && take(":")) {
      KERF_TRY(ignored, type());
      (void)ignored;
    }
    return result;
  }
  if (c == '[')
    return list();
  if (c == '{') {
    result.kind = Attribute::Kind::Record;
    KERF_CHECK(dictionary(result.record));
    return result;
  }
  if (c == '<')
    return record();
  if (c == '@') {
    KERF_TRY(name, symbol());
    result.kind = Attribute::Kind::Word;
    result.text = std::move(name);
    while (take("::")) {
      KERF_TRY(inner, symbol());
      result.text += "::" + inner;
    }
    return result;
  }
  if (c == '#')
    return dialectAttribute();
  if (c == '-' || isDigit(c))
    return number();
  if (c == '(') {
    result.kind = Attribute::Kind::Function;
    KERF_CHECK(functionType(result.inputs, result.outputs));
    return result;
  }
  if (nextIs("array"))
    return array();
  if (nextIs("dense"))
    return dense();
  if (nextIs("dense_resource"))
    return error("a constant is outside of the text (dense_resource); print the text with all constants");
  if (nextIs("tensor") || c == '!') {
    KERF_TRY(one, type());
    result.kind = Attribute::Kind::Type;
    result.outputs = {std::move(one)};
    return result;
  }
  KERF_TRY(name, word("an attribute"));
  if (name == "true" || name == "false") {
    result.kind = Attribute::Kind::Integer;
    result.integer = name == "true";
    return result;
  }
  result.kind = name == "unit" ? Attribute::Kind::Unit : Attribute::Kind::Word;
  result.text = name;
  if (next() == '<' || next() == '(')
    KERF_CHECK(balanced(result.text));
  return result;
}

Result<Attribute> Scanner::untypedAttribute() {
  typesFollow = false;
  auto result = attribute();
  typesFollow = true;
  return result;
}

Result<Attribute> Scanner::number() {
  Attribute result;
  skipBlanks();
  size_t end = at + (text[at] == '-');
  bool isInteger = true;
  if (text.substr(end, 2) == "0x") {
    for (end += 2; end < text.size() && isHexDigit(text[end]);)
      ++end;
  } else {
    for (; end < text.size() && (isDigit(text[end]) || text[end] == '.' || text[end] == 'e' || text[end] == 'E' ||
                                 ((text[end] == '-' || text[end] == '+') && (text[end - 1] | 32) == 'e'));
         ++end)
      isInteger &= isDigit(text[end]);
  }
  std::string token(text.substr(at, end - at));
  if (isInteger) {
    result.kind = Attribute::Kind::Integer;
    errno = 0;
    result.integer = std::strtoll(token.c_str(), nullptr, 0);
    if (errno == ERANGE)
      return error("an integer has more than 64 bits");
    if (token.back() == '-')
      return error("a number is missing after '-'");
  } else {
    result.kind = Attribute::Kind::Number;
    char *stopped = nullptr;
    result.number = std::strtod(token.c_str(), &stopped);
    if (*stopped != '\0')
      return error(fmt::format("'{}' is no number", token));
  }
  at = end;
  if (typesFollow && take(":")) {
    KERF_TRY(ignored, type());
    (void)ignored;
  }
  return result;
}

Result<Attribute> Scanner::list() {
  Attribute result;
  result.kind = Attribute::Kind::List;
  KERF_CHECK(expect("[", "before a list"));
  while (!take("]")) {
    if (!result.list.empty())
      KERF_CHECK(expect(",", "in a list"));
    KERF_TRY(one, attribute());
    result.list.push_back(std::move(one));
  }
  return result;
}

/// array<i64: 1, 2>
Result<Attribute> Scanner::array() {
  Attribute result;
  result.kind = Attribute::Kind::List;
  (void)take("array");
  KERF_CHECK(expect("<", "after 'array'"));
  KERF_TRY(element, word("the element type of an array"));
  (void)element;
  if (take(":"))
    do {
      KERF_TRY(one, attribute());
      result.list.push_back(std::move(one));
    } while (take(","));
  KERF_CHECK(expect(">", "at the end of an array"));
  return result;
}

/// <offset_dims = [2], index_vector_dim = 2>, <DEFAULT>, <@mesh, [{}]>
Result<Attribute> Scanner::record() {
  Attribute result;
  size_t start = at;
  KERF_CHECK(expect("<", "before an attribute's body"));
  result.kind = Attribute::Kind::Record;
  while (nextIsWord()) {
    KERF_TRY(name, word("a name"));
    if (!take("="))
      break;
    KERF_TRY(value, attribute());
    result.record.emplace_back(name, std::move(value));
    if (take(">"))
      return result;
    if (!take(","))
      break;
  }
  if (take(">") && result.record.empty())
    return result;
  // Attributes that are not understood are skipped, because no operation needs them.
  at = start;
  result = Attribute();
  result.kind = Attribute::Kind::Word;
  KERF_CHECK(balanced(result.text));
  return result;
}

/// #stablehlo<comparison_direction LT>, #stablehlo.gather<...>, #alias
Result<Attribute> Scanner::dialectAttribute() {
  Attribute result;
  result.kind = Attribute::Kind::Word;
  KERF_CHECK(expect("#", "before an attribute"));
  KERF_TRY(name, word("an attribute's name"));
  if (next() != '<') {
    result.text = "#" + name;
    return result;
  }
  if (name.find('.') != std::string::npos)
    return record();
  size_t start = at;
  ++at;
  std::string last;
  while (nextIsWord()) {
    KERF_TRY(one, word("a name"));
    last = one;
  }
  if (!last.empty() && take(">")) {
    result.text = last;
    return result;
  }
  at = start;
  KERF_CHECK(balanced(result.text));
  return result;
}

Status Scanner::dictionary(std::vector<Field> &into) {
  KERF_CHECK(expect("{", "before attributes"));
  bool first = true;
  while (!take("}")) {
    if (!first)
      KERF_CHECK(expect(",", "between attributes"));
    first = false;
    auto name = next() == '"' ? quoted() : word("an attribute's name");
    if (!name)
      return name.error();
    Attribute value;
    if (take("=")) {
      KERF_TRY(given, attribute());
      value = std::move(given);
    }
    into.emplace_back(*name, std::move(value));
  }
  return ok();
}
} // namespace kerf::frontend::hlo
