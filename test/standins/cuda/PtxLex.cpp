// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into tokens, and names the types of operands.
#include "PtxText.h"

#include <algorithm>
#include <cctype>

namespace kerf::standin::ptx {

void failAt(uint32_t line, const std::string &text) { throw ParseError("line " + std::to_string(line) + ": " + text); }

namespace {

bool isWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }
bool isWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

/// Reads the text from one position on.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (skipBlanks(), at < text.size())
      tokens.push_back(next());
    tokens.push_back({Token::Kind::End, "", line});
    return tokens;
  }

private:
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void skipBlanks() {
    while (at < text.size()) {
      char c = text[at];
      if (c == '\n') {
        ++line;
        ++at;
      } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
        ++at;
      } else if (c == '/' && peek(1) == '/') {
        at = std::min(text.find('\n', at), text.size());
      } else if (c == '/' && peek(1) == '*') {
        size_t end = text.find("*/", at + 2);
        if (end == std::string_view::npos)
          failAt(line, "comment without an end");
        line += std::count(text.begin() + at, text.begin() + end, '\n');
        at = end + 2;
      } else {
        return;
      }
    }
  }

  Token next() {
    size_t begin = at;
    char c = text[at];
    if (isWordStart(c) || (c == '.' && isWordStart(peek(1)))) {
      readWord();
      return {Token::Kind::Word, text.substr(begin, at - begin), line};
    }
    if (std::isdigit(static_cast<unsigned char>(c))) {
      readNumber();
      return {Token::Kind::Number, text.substr(begin, at - begin), line};
    }
    if (c == '"') {
      size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos)
        failAt(line, "string without an end");
      at = end + 1;
      return {Token::Kind::Text, text.substr(begin + 1, end - begin - 1), line};
    }
    ++at;
    return {Token::Kind::Punctuation, text.substr(begin, 1), line};
  }

  /// Reads a word with its dots: an opcode, a directive or a special register. `::` is part of an opcode.
  void readWord() {
    ++at;
    while (true) {
      if (isWordPart(peek()))
        ++at;
      else if (peek() == '.' && isWordPart(peek(1)))
        at += 2;
      else if (peek() == ':' && peek(1) == ':' && isWordPart(peek(2)))
        at += 3;
      else
        return;
    }
  }

  void readNumber() {
    bool hexadecimal = peek() == '0' && std::string_view("xXfFdD").find(peek(1)) != std::string_view::npos;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '.') {
      char c = text[at++];
      if (!hexadecimal && (c == 'e' || c == 'E') && (peek() == '-' || peek() == '+'))
        ++at;
    }
  }

  std::string_view text;
  size_t at = 0;
  uint32_t line = 1;
};

struct TypeRow {
  std::string_view name;
  Type type;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"u8", Type::U8, 1},       {"u16", Type::U16, 2},       {"u32", Type::U32, 4},   {"u64", Type::U64, 8},
    {"s8", Type::S8, 1},       {"s16", Type::S16, 2},       {"s32", Type::S32, 4},   {"s64", Type::S64, 8},
    {"b8", Type::B8, 1},       {"b16", Type::B16, 2},       {"b32", Type::B32, 4},   {"b64", Type::B64, 8},
    {"f16", Type::F16, 2},     {"bf16", Type::BF16, 2},     {"f32", Type::F32, 4},   {"f64", Type::F64, 8},
    {"f16x2", Type::F16x2, 4}, {"bf16x2", Type::BF16x2, 4}, {"pred", Type::Pred, 1},
};

} // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

Type typeOf(std::string_view name) {
  if (name.empty())
    return Type::None;
  for (const TypeRow &row : kTypes)
    if (row.name[0] == name[0] && row.name == name) // most parts of instructions are no types
      return row.type;
  return Type::None;
}

size_t bytesOf(Type type) {
  for (const TypeRow &row : kTypes)
    if (row.type == type)
      return row.bytes;
  return 0;
}

bool isSigned(Type type) { return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64; }

bool isFloat(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64 || type == Type::F16x2 ||
         type == Type::BF16x2;
}

bool isMemoryQualifier(std::string_view part) {
  static constexpr std::string_view kKnown[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "cta",
                                                "gpu",  "sys",     "nc",      "cluster", "ca",      "cg",       "cs",
                                                "lu",   "cv",      "wb",      "wt",      "mmio"};
  return std::find(std::begin(kKnown), std::end(kKnown), part) != std::end(kKnown) || part.starts_with("L1::") ||
         (part.starts_with("L2::") && part != "L2::cache_hint");
}

} // namespace kerf::standin::ptx
