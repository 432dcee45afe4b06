// SPDX-License-Identifier: Apache-2.0
// Conversions between all types.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kerf::standin::ptx {

namespace {

__extension__ using Wide = __int128;

/// The types and modifiers of a conversion, packed to one field of an instruction.
struct Options {
  Type to = Type::None, from = Type::None;
  Rounding rounding = Rounding::NearestEven;
  bool toIntegral = false, saturate = false, relu = false;

  int32_t pack() const {
    return int32_t(to) | int32_t(from) << 8 | int32_t(rounding) << 16 | int32_t(toIntegral) << 20 |
           int32_t(saturate) << 21 | int32_t(relu) << 22;
  }
  static Options unpack(int32_t bits) {
    return {Type(bits & 255),      Type(bits >> 8 & 255), Rounding(bits >> 16 & 15),
            (bits >> 20 & 1) != 0, (bits >> 21 & 1) != 0, (bits >> 22 & 1) != 0};
  }
};

template <class T> T roundToIntegral(T value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::nearbyint(value);
  }
}

/// Extends the low bits of a slot, as signed or unsigned T.
template <class T> KERF_INLINE void extend(const Inst &inst, uint64_t *r) {
  r[inst.d] = uint64_t(int64_t(T(r[inst.a])));
}

Handler extendOf(Type type) {
  switch (type) {
  case Type::U8:
  case Type::B8:
    return lanewise<extend<uint8_t>>();
  case Type::U16:
  case Type::B16:
    return lanewise<extend<uint16_t>>();
  case Type::U32:
  case Type::B32:
    return lanewise<extend<uint32_t>>();
  case Type::S8:
    return lanewise<extend<int8_t>>();
  case Type::S16:
    return lanewise<extend<int16_t>>();
  case Type::S32:
    return lanewise<extend<int32_t>>();
  default:
    return copySlot;
  }
}

Wide readInteger(uint64_t slot, Type type) {
  switch (type) {
  case Type::U8:
    return uint8_t(slot);
  case Type::U16:
    return uint16_t(slot);
  case Type::U32:
    return uint32_t(slot);
  case Type::S8:
    return int8_t(slot);
  case Type::S16:
    return int16_t(slot);
  case Type::S32:
    return int32_t(slot);
  case Type::S64:
    return int64_t(slot);
  default:
    return slot;
  }
}

/// Smallest and largest value of an integer type.
std::pair<Wide, Wide> rangeOf(Type type) {
  int bits = int(8 * bytesOf(type));
  if (isSigned(type))
    return {-(Wide(1) << (bits - 1)), (Wide(1) << (bits - 1)) - 1};
  return {0, (Wide(1) << bits) - 1};
}

KERF_INLINE void integerSaturated(const Inst &inst, uint64_t *r) {
  Options options = Options::unpack(inst.e);
  auto [low, high] = rangeOf(options.to);
  r[inst.d] = uint64_t(std::clamp(readInteger(r[inst.a], options.from), low, high));
}

double readFloat(uint64_t slot, Type type) {
  switch (type) {
  case Type::F16:
    return halfToFloat(uint16_t(slot));
  case Type::BF16:
    return bfloatToFloat(uint16_t(slot));
  case Type::F32:
    return get<float>(slot);
  default:
    return get<double>(slot);
  }
}

uint64_t writeFloat(double value, Type type, Rounding rounding) {
  switch (type) {
  case Type::F16:
    return encodeFloat(value, 5, 10, rounding);
  case Type::BF16:
    return encodeFloat(value, 8, 7, rounding);
  case Type::F32:
    return rounding == Rounding::NearestEven ? putResult(float(value)) : encodeFloat(value, 8, 23, rounding);
  default:
    return put(value);
  }
}

/// Float to integer: out of range is clamped, and a NaN becomes 0.
KERF_INLINE void floatToInteger(const Inst &inst, uint64_t *r) {
  Options options = Options::unpack(inst.e);
  double value = roundToIntegral(readFloat(r[inst.a], options.from), options.rounding);
  auto [low, high] = rangeOf(options.to);
  uint64_t result = 0;
  if (value == value)
    result = value <= double(low) ? uint64_t(low) : value >= double(high) ? uint64_t(high) : uint64_t(Wide(value));
  r[inst.d] = result;
}

/// Returns an integer as a double whose last bit is set if bits were lost, for a second rounding to a narrower format.
double toOddDouble(Wide value) {
  bool negative = value < 0;
  uint64_t magnitude = uint64_t(negative ? -value : value);
  int drop = std::max(0, 64 - std::countl_zero(magnitude) - 53);
  uint64_t kept = magnitude >> drop;
  if (kept << drop != magnitude)
    kept |= 1;
  double result = std::ldexp(double(kept), drop);
  return negative ? -result : result;
}

/// Integer to float in any format and rounding mode.
KERF_INLINE void integerToFloat(const Inst &inst, uint64_t *r) {
  Options options = Options::unpack(inst.e);
  Wide value = readInteger(r[inst.a], options.from);
  if (options.to != Type::F64) {
    r[inst.d] = writeFloat(toOddDouble(value), options.to, options.rounding);
    return;
  }
  double nearest = double(value);
  bool tooLarge = Wide(nearest) > value, tooSmall = Wide(nearest) < value;
  Rounding mode = options.rounding == Rounding::Zero ? (value < 0 ? Rounding::Up : Rounding::Down) : options.rounding;
  if (mode == Rounding::Down && tooLarge)
    nearest = std::nextafter(nearest, -HUGE_VAL);
  if (mode == Rounding::Up && tooSmall)
    nearest = std::nextafter(nearest, HUGE_VAL);
  r[inst.d] = put(nearest);
}

/// Applies `.rni` and the like, `.sat` and `.relu` to a value.
double adjust(double value, const Options &options) {
  if (options.toIntegral)
    value = roundToIntegral(value, options.rounding);
  if (options.saturate)
    value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (options.relu && !(value > 0))
    value = value != value ? value : 0.0;
  return value;
}

KERF_INLINE void floatToFloat(const Inst &inst, uint64_t *r) {
  Options options = Options::unpack(inst.e);
  double value = adjust(readFloat(r[inst.a], options.from), options);
  r[inst.d] = writeFloat(value, options.to, options.toIntegral ? Rounding::NearestEven : options.rounding);
}

/// Two f32 to a pair of 16-bit floats: slot `a` gives the upper one.
KERF_INLINE void floatsToPair(const Inst &inst, uint64_t *r) {
  Options options = Options::unpack(inst.e);
  Type type = options.to == Type::F16x2 ? Type::F16 : Type::BF16;
  uint64_t high = writeFloat(adjust(get<float>(r[inst.a]), options), type, options.rounding);
  uint64_t low = writeFloat(adjust(get<float>(r[inst.b]), options), type, options.rounding);
  r[inst.d] = high << 16 | low;
}

// The conversions that kernels use most, without options.
template <class To, class From> KERF_INLINE void plain(const Inst &inst, uint64_t *r) {
  r[inst.d] = putResult<To>(To(get<From>(r[inst.a])));
}

template <class To> Handler plainToFloat(Type from) {
  switch (from) {
  case Type::U8:
    return lanewise<plain<To, uint8_t>>();
  case Type::S8:
    return lanewise<plain<To, int8_t>>();
  case Type::U16:
    return lanewise<plain<To, uint16_t>>();
  case Type::S16:
    return lanewise<plain<To, int16_t>>();
  case Type::U32:
    return lanewise<plain<To, uint32_t>>();
  case Type::S32:
    return lanewise<plain<To, int32_t>>();
  case Type::U64:
    return lanewise<plain<To, uint64_t>>();
  case Type::S64:
    return lanewise<plain<To, int64_t>>();
  case Type::F32:
    return lanewise<plain<To, float>>();
  case Type::F64:
    return lanewise<plain<To, double>>();
  default:
    return nullptr;
  }
}

Handler convertHandler(const Options &options) {
  bool toFloat = isFloat(options.to), fromFloat = isFloat(options.from);
  if (toFloat && !options.toIntegral && !options.saturate && !options.relu &&
      options.rounding == Rounding::NearestEven) {
    Handler handler = options.to == Type::F32   ? plainToFloat<float>(options.from)
                      : options.to == Type::F64 ? plainToFloat<double>(options.from)
                                                : nullptr;
    if (handler)
      return handler;
  }
  if (toFloat)
    return fromFloat ? lanewise<floatToFloat>() : lanewise<integerToFloat>();
  if (fromFloat)
    return lanewise<floatToInteger>();
  if (options.saturate)
    return lanewise<integerSaturated>();
  return extendOf(bytesOf(options.to) <= bytesOf(options.from) ? options.to : options.from);
}

} // namespace

bool decodeConvert(Builder &builder, const Statement &s) {
  if (s.parts[0] != "cvt")
    return false;
  builder.allow({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "relu"});
  const auto &types = s.types;
  if (types.size() != 2)
    builder.fail("is not supported");
  Options options{types[0], types[1], Rounding::NearestEven, false, s.has("sat"), s.has("relu")};
  options.toIntegral = s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi");
  options.rounding = s.has("rz") || s.has("rzi")   ? Rounding::Zero
                     : s.has("rm") || s.has("rmi") ? Rounding::Down
                     : s.has("rp") || s.has("rpi") ? Rounding::Up
                     : s.has("rna")                ? Rounding::NearestAway
                                                   : Rounding::NearestEven;
  bool pair = options.to == Type::F16x2 || options.to == Type::BF16x2;
  if (options.from == Type::F16x2 || options.from == Type::BF16x2 || options.to == Type::Pred ||
      options.from == Type::Pred || (pair && options.from != Type::F32))
    builder.fail("is not supported");
  builder.expect(pair ? 3 : 2);
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], options.from);
  if (pair)
    builder.emit(lanewise<floatsToPair>(), d, a, builder.source(s.operands[2], Type::F32), 0, options.pack());
  else
    builder.emit(convertHandler(options), d, a, 0, 0, options.pack());
  return true;
}

} // namespace kerf::standin::ptx
