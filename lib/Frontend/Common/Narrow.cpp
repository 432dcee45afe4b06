// SPDX-License-Identifier: Apache-2.0
#include "Common/Narrow.h"
#include "Common/Formula.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace kerf::frontend {

namespace {
using Kind = NarrowFormat::Kind;
using Special = NarrowFormat::Special;

constexpr NarrowFormat kFormats[] = {
    {"FLOAT8E4M3FN", "f8E4M3FN", 17, 8, Kind::Floating, 3, -6, 448, Special::OnesAreNan},
    {"FLOAT8E4M3FNUZ", "f8E4M3FNUZ", 18, 8, Kind::Floating, 3, -7, 240, Special::NegativeZeroIsNan},
    {"FLOAT8E5M2", "f8E5M2", 19, 8, Kind::Floating, 2, -14, 57344, Special::Infinities},
    {"FLOAT8E5M2FNUZ", "f8E5M2FNUZ", 20, 8, Kind::Floating, 2, -15, 57344, Special::NegativeZeroIsNan},
    {"UINT4", "", 21, 4, Kind::Unsigned},
    {"INT4", "", 22, 4, Kind::Signed},
    {"FLOAT4E2M1", "f4E2M1FN", 23, 4, Kind::Floating, 1, 0, 6, Special::None},
    {"UINT2", "", 25, 2, Kind::Unsigned},
    {"INT2", "", 26, 2, Kind::Signed},
};

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// Truncates each element to an integer and keeps its low bits.
Term lowBits(Formula &f, const NarrowFormat &format, const Term &x) {
  bool isWhole = !isFloat(x.dtype) && x.dtype != DType::Bool;
  Term whole = isWhole ? x : f.convert(x, DType::I32);
  auto integer = [&](int64_t value) { return f.b.integer(whole.dtype, value); };
  int64_t mask = (int64_t(1) << format.bits) - 1, half = int64_t(1) << (format.bits - 1);
  auto masked = [&](const Term &y) { return f.unwrap(f.b.binary(Binary::And, y, integer(mask))); };
  if (format.kind == Kind::Unsigned)
    return f.convert(masked(whole), DType::U8);
  whole = f.convert(masked(whole), DType::I8);
  return f.subtract(masked(f.add(whole, integer(half))), integer(half));
}

/// Rounds to a floating-point format. For infinities in formats without -0 the text of ONNX's Cast says NaN, but its
/// test cases expect the largest value, as computed here.
Term nearest(Formula &f, const NarrowFormat &format, const Term &x, Saturate saturate) {
  Term y = f.unwrap(f.b.reducePrecision(f.convert(x, f.dtype), format.mantissaBits, format.minExponent));
  bool keeps = saturate == Saturate::Yes || format.special == Special::None;
  double beyond = keeps ? format.largest : format.special == Special::Infinities ? kInfinity : kNan;
  // Selections are used instead of a minimum, so that the gradient at the largest value is 1.
  y = f.select(f.compare(Order::Greater, y, f.number(format.largest)), f.number(beyond), y);
  y = f.select(f.compare(Order::Less, y, f.number(-format.largest)), f.number(-beyond), y);
  if (format.special == Special::None)
    y = f.select(f.unwrap(f.b.isNan(y)), f.number(-0.0), y);
  return format.special == Special::NegativeZeroIsNan ? f.subtract(y, f.number(-0.0)) : y; // -0 becomes 0
}
} // namespace

template <typename F> static const NarrowFormat *rowOf(F fits) {
  auto row = std::find_if(std::begin(kFormats), std::end(kFormats), fits);
  return row == std::end(kFormats) ? nullptr : row;
}

const NarrowFormat *narrowFormat(int32_t onnxNumber) {
  return rowOf([&](const NarrowFormat &format) { return format.number == onnxNumber; });
}

const NarrowFormat *narrowFormat(std::string_view hloName) {
  return rowOf([&](const NarrowFormat &format) { return !hloName.empty() && format.hloName == hloName; });
}

DType storageType(const NarrowFormat &format) {
  return format.kind == Kind::Floating ? DType::F32 : format.kind == Kind::Signed ? DType::I8 : DType::U8;
}

int64_t packedBytes(const NarrowFormat &format, int64_t elements) {
  int64_t inByte = 8 / format.bits;
  return elements / inByte + (elements % inByte != 0);
}

double decoded(const NarrowFormat &format, unsigned bits) {
  const unsigned signBit = 1u << (format.bits - 1), magnitude = bits & (signBit - 1);
  if (format.kind != Kind::Floating)
    return double(magnitude) + ((bits & signBit) == 0 ? 0 : format.kind == Kind::Signed ? -double(signBit) : signBit);
  const unsigned field = magnitude >> format.mantissaBits, mantissa = magnitude & ((1u << format.mantissaBits) - 1);
  const double sign = bits & signBit ? -1 : 1;
  if (format.special == Special::NegativeZeroIsNan && bits == signBit)
    return kNan;
  if (format.special == Special::OnesAreNan && magnitude == signBit - 1)
    return kNan;
  if (format.special == Special::Infinities && field == (signBit - 1) >> format.mantissaBits)
    return mantissa ? kNan : sign * kInfinity;
  const unsigned leading = field ? 1u << format.mantissaBits : 0;
  const int exponent = format.minExponent + (field ? int(field) - 1 : 0);
  return sign * std::ldexp(double(leading | mantissa), exponent - format.mantissaBits);
}

Tensor decodedTensor(const NarrowFormat &format, const Shape &shape, const std::byte *packed) {
  auto [tensor, memory] = allocateTensor(storageType(format), shape);
  const unsigned mask = (1u << format.bits) - 1;
  const int inByte = 8 / format.bits;
  std::array<double, 256> values{};
  for (unsigned bits = 0; bits <= mask; ++bits)
    values[bits] = decoded(format, bits);
  dispatch(tensor.dtype, [&, to = memory](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, n = elementsOf(shape); i < n; ++i) {
      unsigned bits = std::to_integer<unsigned>(packed[i / inByte]) >> (i % inByte * format.bits) & mask;
      reinterpret_cast<T *>(to)[i] = static_cast<T>(values[bits]);
    }
  });
  return tensor;
}

Result<Term> toNarrow(TermBuilder &b, const NarrowFormat &format, Term x, Saturate saturate) {
  x.narrow = nullptr;
  Formula f(b, b.floatType());
  Term made = format.kind == Kind::Floating ? nearest(f, format, x, saturate) : lowBits(f, format, x);
  if (f.fault)
    return *f.fault;
  made.narrow = &format;
  return made;
}

} // namespace kerf::frontend
