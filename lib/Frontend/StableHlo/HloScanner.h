// SPDX-License-Identifier: Apache-2.0
// Scans StableHLO text: reads tokens, attributes, types and constants. HloText.cpp and HloOpText.cpp parse functions
// and operations with it.
#pragma once

#include "StableHlo/HloText.h"

#include <map>

namespace kerf::frontend::hlo {

inline constexpr int kMaxJsonNesting =
    100; // largest nesting of regions, attributes and lists; real programs have about 10

// Classes of the characters in tokens.
inline bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool isDigit(char c) { return c >= '0' && c <= '9'; }
inline bool isHexDigit(char c) { return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// A position in the text. Functions that read something advance the position.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  /// Skips blanks and comments.
  void skipBlanks();
  /// Returns whether only blanks and comments remain.
  bool atEnd();
  /// Returns whether `token`, punctuation or a whole word, comes next.
  bool nextIs(std::string_view token);
  /// Reads `token` if it comes next; returns whether it did.
  bool take(std::string_view token);
  /// Reads `token`. Fails when something else comes next; `where` says where it was expected.
  Status expect(std::string_view token, std::string_view where);
  /// Returns the next character after blanks, or 0 at the end, without reading it.
  char next();

  /// Returns whether a word comes next.
  bool nextIsWord();
  Result<std::string> word(std::string_view what); // reads a word: func.func, stablehlo.add, LT
  Result<std::string> symbol();                    // reads a symbol, @main or @"a b", and returns it without the sign
  Result<std::string> value();                     // reads the name of a value: %4#1
  Result<std::string> quoted();                    // reads a quoted string
  Result<int64_t> integer();                       // reads an integer
  /// Reads an integer from `least` to `most`; `what` names it in messages.
  Result<int64_t> count(int64_t least, int64_t most, std::string_view what);

  Result<Type> type();               // reads one type
  Result<std::vector<Type>> types(); // reads types separated by commas
  /// Reads `(types) -> type` or `(types) -> (types)`.
  Status functionType(std::vector<Type> &inputs, std::vector<Type> &outputs);
  /// Reads an attribute with its type: `0 : i64`.
  Result<Attribute> attribute();
  /// Reads an attribute without a type, after which a colon begins the types of the operation: `dim = 0 :
  /// tensor<8xi32>`.
  Result<Attribute> untypedAttribute();
  /// Reads `{name = attribute, name}` and appends the fields to `into`.
  Status dictionary(std::vector<Field> &into);
  /// Reads `loc(...)`, if present, and returns the name in it, or "".
  Result<std::string> location();
  /// Reads an alias outside of operations: `#name = ...` or `!name = ...`.
  Status alias();

  /// Returns an error with the line and column of the last token that was examined.
  Error error(std::string message);
  /// Returns line and column of the current position.
  Place place();

  /// Counts one level of nesting while this object lives.
  struct Level {
    Scanner &scanner;
    explicit Level(Scanner &scanner) : scanner(scanner) { ++scanner.depth; }
    ~Level() { --scanner.depth; }
  };
  /// Fails when the nesting exceeds kMostNesting.
  Status checkDepth();

  /// Names of locations, by alias.
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
  size_t counted = 0; // position up to which lines and columns have been counted
  Place here;         // line and column of `counted`
  int depth = 0;
  bool typesFollow = true; // whether a type after a colon belongs to the attribute, as in `0 : i64`
};

} // namespace kerf::frontend::hlo
