// SPDX-License-Identifier: Apache-2.0
// Scans constants of StableHLO text: lists of elements, one element for all (splat), or bytes in hexadecimal.
#include "StableHlo/HloScanner.h"
#include "kerf/Package/Half.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace kerf::frontend::hlo {

namespace {

/// Returns the bytes of an element in a hexadecimal constant; 0 for a type that Kerf does not support.
int64_t bytesOfElement(std::string_view element) {
  for (auto [name, bytes] : {std::pair("f64", 8),
                             {"i64", 8},
                             {"f32", 4},
                             {"i32", 4},
                             {"f16", 2},
                             {"bf16", 2},
                             {"i8", 1},
                             {"ui8", 1},
                             {"i1", 1}})
    if (element == name)
      return bytes;
  return 0;
}

template <typename T> T fromBytes(const unsigned char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Writes one element from its bytes.
void putBytes(std::string_view element, const unsigned char *bytes, const FreshLiteral &into, int64_t index) {
  if (element == "bf16")
    into.as<float>()[index] = floatFromBf16(fromBytes<uint16_t>(bytes));
  else if (element == "f16")
    into.as<float>()[index] = floatFromF16(fromBytes<uint16_t>(bytes));
  else
    std::memcpy(into.bytes + index * bytesOfElement(element), bytes, size_t(bytesOfElement(element)));
}

} // namespace

/// dense<[[1.0, 0x7FC00000]]> : tensor<1x2xf32>. The type, which comes last, says how elements are read.
Result<Attribute> Scanner::dense() {
  (void)take("dense");
  skipBlanks();
  size_t body = at;
  std::string skipped;
  if (next() != '<')
    return error("'<' is missing after 'dense'");
  KERF_CHECK(balanced(skipped));
  size_t bodyEnd = at;
  KERF_CHECK(expect(":", "between a constant and its type"));
  Place typePlace = place();
  KERF_TRY(tensor, type());
  size_t end = at;
  if (tensor.element.empty())
    return Error{fmt::format("{}: a constant has the type {}, but a tensor is needed", toText(typePlace), tensor.text)};
  Result<DType> stored = storedType(tensor.element);
  if (!stored)
    return Error{fmt::format("{}: a constant: {}", toText(typePlace), stored.error().message)};

  Attribute result;
  result.kind = Attribute::Kind::Constant;
  at = body + 1;
  Shape one(tensor.shape.size(), 1);
  if (next() == '"') {
    KERF_TRY(hex, quoted());
    Literal literal;
    KERF_CHECK(hexElements(hex, tensor.element, tensor.shape, literal));
    result.constant = std::move(literal);
  } else {
    bool empty = next() == '>';
    bool splat = !empty && next() != '[';
    // A list contains every element, so the text is at least as long as the tensor; larger tensors are refused.
    if (!splat && elementsOf(tensor.shape) > int64_t(bodyEnd - body))
      return error(fmt::format("a constant of shape {} has fewer elements in its list", shapeText(tensor.shape)));
    if (empty && elementsOf(tensor.shape) != 0)
      return error(fmt::format("a constant of shape {} has no elements", shapeText(tensor.shape)));
    auto fresh = allocateLiteral(*stored, splat ? one : tensor.shape);
    if (!fresh)
      return error(fresh.error().message);
    int64_t index = 0;
    if (!empty)
      KERF_CHECK(splat ? element(tensor.element, *fresh, 0) : elements(tensor.element, tensor.shape, 0, *fresh, index));
    result.constant = fresh->literal;
    result.constant->shape = tensor.shape;
    if (splat && elementsOf(tensor.shape) == 0) { // a splat of nothing
      auto nothing = allocateLiteral(*stored, tensor.shape);
      if (!nothing)
        return error(nothing.error().message);
      result.constant = nothing->literal;
    }
  }
  if (next() != '>' || at + 1 != bodyEnd)
    return error("'>' is missing after a constant's elements");
  at = end;
  result.outputs = {std::move(tensor)};
  return result;
}

Status Scanner::elements(std::string_view type, const Shape &shape, size_t dim, FreshLiteral &into, int64_t &index) {
  if (dim == shape.size()) {
    if (next() == '[')
      return error(fmt::format("a list stands in place of an element of a constant of shape {}", shapeText(shape)));
    return element(type, into, index++);
  }
  Level level(*this);
  KERF_CHECK(checkDepth());
  if (!take("["))
    return error(fmt::format("'[' is missing in a constant of shape {}", shapeText(shape)));
  for (int64_t i = 0; i < shape[dim]; ++i) {
    if (i > 0 && !take(","))
      return error(
          fmt::format("',' is missing after element {} of {} in dimension {} of a constant", i, shape[dim], dim));
    KERF_CHECK(elements(type, shape, dim + 1, into, index));
  }
  if (!take("]"))
    return error(fmt::format("']' is missing after the {} elements of dimension {} of a constant", shape[dim], dim));
  return ok();
}

Status Scanner::element(std::string_view type, FreshLiteral &into, int64_t index) {
  skipBlanks();
  if (type == "i1" && nextIsWord()) {
    KERF_TRY(name, word("an element"));
    if (name != "true" && name != "false")
      return error(fmt::format("'{}' is neither true nor false", name));
    into.as<uint8_t>()[index] = name == "true";
    return ok();
  }
  size_t end = at;
  while (end < text.size() &&
         (isHexDigit(text[end]) || std::string_view("-+.x").find(text[end]) != std::string_view::npos))
    ++end;
  std::string token(text.substr(at, end - at));
  const char *start = token.c_str();
  char *stopped = nullptr;
  bool isFloat = type == "f64" || type == "f32" || type == "bf16" || type == "f16";
  errno = 0;
  if (isFloat && token.rfind("0x", 0) == 0) {
    uint64_t bits = std::strtoull(start, &stopped, 16);
    int64_t bytes = bytesOfElement(type);
    if (errno == ERANGE || (bytes < 8 && bits >> (8 * bytes) != 0))
      return error(fmt::format("'{}' has more bits than {}", token, type));
    unsigned char raw[8];
    std::memcpy(raw, &bits, sizeof(raw));
    putBytes(type, raw, into, index);
  } else if (type == "f64") {
    into.as<double>()[index] = std::strtod(start, &stopped);
  } else if (isFloat) {
    float number = std::strtof(start, &stopped);
    into.as<float>()[index] = type == "bf16"  ? floatFromBf16(bf16FromFloat(number))
                              : type == "f16" ? floatFromF16(f16FromFloat(number))
                                              : number;
  } else {
    int64_t number = std::strtoll(start, &stopped, 0);
    bool fits = errno != ERANGE;
    dispatch(into.literal.dtype(), [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, uint64_t>) { // the upper half of its range does not fit into a signed number
        errno = 0;
        into.as<T>()[index] = std::strtoull(start, &stopped, 0);
        fits = errno != ERANGE && token[0] != '-';
      } else if constexpr (std::is_integral_v<T>) {
        fits &= number >= int64_t(std::numeric_limits<T>::min()) && number <= int64_t(std::numeric_limits<T>::max());
        into.as<T>()[index] = type == "i1" ? T(number != 0) : T(number);
      }
    });
    if (!fits)
      return error(fmt::format("'{}' does not fit into {}", token, type));
  }
  if (token.empty() || stopped != start + token.size())
    return error(fmt::format("an element of type {} is missing", type));
  at = end;
  return ok();
}

/// Decodes the bytes of all elements in little-endian order, or of one element that stands for all.
Status Scanner::hexElements(const std::string &hex, std::string_view type, const Shape &shape, Literal &into) {
  std::vector<unsigned char> bytes;
  bool valid = hex.size() % 2 == 0 && hex.rfind("0x", 0) == 0;
  for (size_t i = 2; valid && i < hex.size(); i += 2) {
    valid = isHexDigit(hex[i]) && isHexDigit(hex[i + 1]);
    bytes.push_back(static_cast<unsigned char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  if (!valid)
    return error("the string of a constant is not 0x followed by pairs of hexadecimal digits");
  int64_t count = elementsOf(shape), size = bytesOfElement(type), given = int64_t(bytes.size());
  bool packed = type == "i1" && given == (count + 7) / 8 && given != count; // eight booleans in one byte
  bool splat = !packed && given == size && count != 1;
  if (!packed && !splat && given != count * size)
    return error(fmt::format("a constant of shape {} and type {} needs {} bytes, but its string has {}",
                             shapeText(shape), type, count * size, given));
  Shape stored = splat ? Shape(shape.size(), 1) : shape;
  auto fresh = allocateLiteral(*storedType(type), stored);
  if (!fresh)
    return error(fresh.error().message);
  for (int64_t i = 0, n = elementsOf(stored); i < n; ++i) {
    if (type == "i1")
      fresh->as<uint8_t>()[i] = packed ? (bytes[size_t(i / 8)] >> (i % 8)) & 1 : bytes[size_t(i)] != 0;
    else
      putBytes(type, bytes.data() + i * size, *fresh, i);
  }
  into = fresh->literal;
  into.shape = shape;
  return ok();
}
} // namespace kerf::frontend::hlo
