// SPDX-License-Identifier: Apache-2.0
// The formats f16 and bf16, their arithmetic, and that of pairs of them.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>
#include <cmath>

namespace kerf::standin::ptx {

uint64_t encodeFloat(double value, int exponentBits, int fractionBits, Rounding rounding) {
  const uint64_t infinity = ((uint64_t(1) << exponentBits) - 1) << fractionBits;
  const uint64_t sign = std::signbit(value) ? uint64_t(1) << (exponentBits + fractionBits) : 0;
  if (value != value)
    return infinity | ((uint64_t(1) << fractionBits) - 1);
  if (std::isinf(value))
    return sign | infinity;
  if (value == 0)
    return sign;
  // value = whole * 2^(exponent - 53), and the result's last place is worth 2^quantum.
  int exponent;
  uint64_t whole = uint64_t(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
  const int smallest = 2 - (1 << (exponentBits - 1)); // exponent of the smallest normal number
  const int quantum = std::max(exponent - 1, smallest) - fractionBits;
  const int shift = quantum - (exponent - 53);
  uint64_t kept = shift <= 0 ? whole << -shift : shift > 60 ? 0 : whole >> shift;
  bool exact = shift <= 0 || (shift <= 60 && kept << shift == whole);
  bool up = false;
  if (!exact) {
    uint64_t half = shift > 60 ? 0 : uint64_t(1) << (shift - 1);
    uint64_t rest = shift > 60 ? 0 : whole - (kept << shift);
    switch (rounding) {
    case Rounding::NearestEven:
      up = half && (rest > half || (rest == half && (kept & 1)));
      break;
    case Rounding::NearestAway:
      up = half && rest >= half;
      break;
    case Rounding::Zero:
      break;
    case Rounding::Down:
      up = sign != 0;
      break;
    case Rounding::Up:
      up = sign == 0;
      break;
    }
  }
  kept += up;
  const int bias = (1 << (exponentBits - 1)) - 1;
  // The hidden bit of `kept` adds one to the exponent, also where rounding carries into it.
  const int biased = quantum + fractionBits + bias;
  bool overflows = biased >= (1 << exponentBits) - 1;
  uint64_t bits = overflows ? infinity : (uint64_t(biased - 1) << fractionBits) + kept;
  if (bits >= infinity) {
    bool toInfinity = rounding == Rounding::NearestEven || rounding == Rounding::NearestAway ||
                      (rounding == Rounding::Down && sign) || (rounding == Rounding::Up && !sign);
    bits = toInfinity ? infinity : infinity - 1;
  }
  return sign | bits;
}

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7F800000 | (fraction << 13));
  if (exponent == 0)
    return std::copysign(float(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

float bfloatToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

namespace {

struct HalfFormat {
  static double read(uint16_t bits) { return halfToFloat(bits); }
  static uint16_t write(double value) { return uint16_t(encodeFloat(value, 5, 10, Rounding::NearestEven)); }
};
struct BfloatFormat {
  static double read(uint16_t bits) { return bfloatToFloat(bits); }
  static uint16_t write(double value) { return uint16_t(encodeFloat(value, 8, 7, Rounding::NearestEven)); }
};

/// Returns a + b rounded to odd, so that a second rounding to a much narrower format is as if it were the only one.
double addToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  double partOfB = sum - a;
  double error = (a - (sum - partOfB)) + (b - partOfB);
  if (error == 0 || (std::bit_cast<uint64_t>(sum) & 1))
    return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

struct Add {
  static double of(double a, double b, double) { return addToOdd(a, b); }
};
struct Sub {
  static double of(double a, double b, double) { return addToOdd(a, -b); }
};
struct Mul {
  static double of(double a, double b, double) { return a * b; }
};
struct Fma {
  static double of(double a, double b, double c) { return addToOdd(a * b, c); }
};
struct Min {
  static double of(double a, double b, double) {
    if (a != a || b != b)
      return a != a ? b : a;
    return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
  }
};
struct Max {
  static double of(double a, double b, double) {
    if (a != a || b != b)
      return a != a ? b : a;
    return a == b ? (std::signbit(a) ? b : a) : a < b ? b : a;
  }
};
template <class Op> struct OrNan {
  static double of(double a, double b, double c) { return a != a || b != b ? NAN : Op::of(a, b, c); }
};
struct Exp2 {
  static double of(double a, double, double) { return std::exp2(a); }
};
struct Tanh {
  static double of(double a, double, double) { return std::tanh(a); }
};

template <class Format, class Op, int Count> KERF_INLINE void arithmetic(const Inst &inst, uint64_t *r) {
  uint64_t result = 0;
  for (int i = 0; i < Count; ++i) {
    auto value = [&](int32_t slot) { return Format::read(uint16_t(r[slot] >> (16 * i))); };
    result |= uint64_t(Format::write(Op::of(value(inst.a), value(inst.b), value(inst.c)))) << (16 * i);
  }
  r[inst.d] = result;
}

KERF_INLINE void negateBits(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a] ^ uint32_t(inst.e); }

KERF_INLINE void clearBits(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a] & ~uint64_t(uint32_t(inst.e)); }

template <class Op> Handler handlerOf(Type type) {
  switch (type) {
  case Type::F16:
    return lanewise<arithmetic<HalfFormat, Op, 1>>();
  case Type::BF16:
    return lanewise<arithmetic<BfloatFormat, Op, 1>>();
  case Type::F16x2:
    return lanewise<arithmetic<HalfFormat, Op, 2>>();
  case Type::BF16x2:
    return lanewise<arithmetic<BfloatFormat, Op, 2>>();
  default:
    return nullptr;
  }
}

struct Row {
  std::string_view name;
  size_t sources;
  Handler (*handler)(Type);
};
constexpr Row kRows[] = {
    {"add", 2, handlerOf<Add>},
    {"sub", 2, handlerOf<Sub>},
    {"mul", 2, handlerOf<Mul>},
    {"fma", 3, handlerOf<Fma>},
    {"min", 2, handlerOf<Min>},
    {"max", 2, handlerOf<Max>},
    {"min.NaN", 2, handlerOf<OrNan<Min>>},
    {"max.NaN", 2, handlerOf<OrNan<Max>>},
    {"ex2", 1, handlerOf<Exp2>},
    {"tanh", 1, handlerOf<Tanh>},
};

} // namespace

bool decodeHalf(Builder &builder, const Statement &s) {
  Type type = s.type();
  if (!isFloat(type) || type == Type::F32 || type == Type::F64 || s.types.size() != 1)
    return false;
  std::string_view op = s.parts[0];
  if (op == "neg" || op == "abs") {
    builder.expect(2);
    builder.allow({});
    int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], type);
    bool pair = type == Type::F16x2 || type == Type::BF16x2;
    builder.emit(op == "neg" ? lanewise<negateBits>() : lanewise<clearBits>(), d, a, 0, 0,
                 int32_t(pair ? 0x80008000u : 0x8000u));
    return true;
  }
  std::string name = std::string(op) + (s.has("NaN") ? ".NaN" : "");
  for (const Row &row : kRows) {
    if (row.name != name)
      continue;
    builder.expect(row.sources + 1);
    builder.allow({"rn", "NaN", "approx"});
    int32_t sources[3] = {kZero, kZero, kZero};
    for (size_t i = 0; i < row.sources; ++i)
      sources[i] = builder.source(s.operands[i + 1], type);
    int32_t d = builder.destination(s.operands[0]);
    builder.emit(row.handler(type), d, sources[0], sources[1], sources[2]);
    return true;
  }
  return false;
}

} // namespace kerf::standin::ptx
