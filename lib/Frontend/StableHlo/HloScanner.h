// SPDX-License-Identifier: Apache-2.0
// A position in StableHLO text: tokens, attributes, types and constants are read from it. HloText.cpp reads ops with
// it.
#pragma once

#include "StableHlo/HloText.h"

#include <map>

namespace kerf::frontend::hlo {

inline constexpr int kMostNesting = 100; // of regions, attributes and lists; programs have about ten

/// Characters of tokens.
inline bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool isDigit(char c) { return c >= '0' && c <= '9'; }
inline bool isHexDigit(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  /// Behind blanks and comments.
  void skipBlanks();
  bool atEnd();
  /// Whether `token` comes next: punctuation, or a whole word.
  bool sees(std::string_view token);
  bool take(std::string_view token);
  Status expect(std::string_view token, std::string_view where);
  /// The next character after blanks, or 0.
  char next();

  bool seesWord();
  Result<std::string> word(std::string_view what); // func.func, stablehlo.add, LT
  Result<std::string> symbol();                    // @main, @"a b": without the sign
  Result<std::string> value();                     // %4#1
  Result<std::string> quoted();
  Result<int64_t> integer();
  Result<int64_t> count(int64_t least, int64_t most, std::string_view what);

  Result<Type> type();
  Result<std::vector<Type>> types(); // one after the other, separated by commas
  /// `(types) -> type` or `(types) -> (types)`.
  Status functionType(std::vector<Type> &inputs, std::vector<Type> &outputs);
  Result<Attribute> attribute();
  /// An attribute behind which a colon begins the op's own types: `dim = 0 : tensor<8xi32>`.
  Result<Attribute> untypedAttribute();
  /// `{name = attribute, name}`, added to what is there.
  Status dictionary(std::vector<Field> &into);
  /// `loc(...)`, if one comes; its name.
  Result<std::string> location();
  /// `#name = ...` and `!name = ...` outside of ops.
  Status alias();

  /// An error at the place of the last token that was looked at.
  Error error(std::string message);
  Place place();

  /// Guards a recursion.
  struct Level {
    Scanner &scanner;
    explicit Level(Scanner &scanner) : scanner(scanner) { ++scanner.depth; }
    ~Level() { --scanner.depth; }
  };
  Status checkDepth();

  /// alias of a location -> its name
  std::map<std::string, std::string> locations;

private:
  Result<Attribute> list();
  Result<Attribute> array();
  Result<Attribute> dense();
  Result<Attribute> number();
  Result<Attribute> dialectAttribute();
  Result<Attribute> record();
  Status balanced(std::string &into);
  Status elements(std::string_view element, const Shape &shape, size_t dim, FreshLiteral &into, int64_t &index);
  Status element(std::string_view element, FreshLiteral &into, int64_t index);
  Status hexElements(const std::string &hex, std::string_view element, const Shape &shape, Literal &into);

  std::string_view text;
  size_t at = 0;
  // The place of position `counted`.
  size_t counted = 0;
  Place here;
  int depth = 0;
  bool typesFollow = true; // `0 : i64` is one attribute
};

} // namespace kerf::frontend::hlo
