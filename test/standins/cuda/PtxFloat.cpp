// SPDX-License-Identifier: Apache-2.0
// Arithmetic of f32 and f64. This folder is compiled without contraction, so that only `fma` is fused.
#include "PtxLanes.h"
#include "PtxText.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace kerf::standin::ptx {

namespace {

KERF_INLINE void flush(const Inst &inst, uint64_t *r) {
  uint32_t bits = uint32_t(r[inst.a]);
  r[inst.d] = (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits;
}

/// Returns the first operand that is a NaN, made quiet, or else `result`. The processor would take the first operand of
/// its instruction, which the compiler chooses. The NaNs of f32 are all alike: see `putResult`.
template <class T> T withNanOf(T result) { return result; }
template <class T, class... Rest> T withNanOf(T result, T first, Rest... rest) {
  if constexpr (std::is_same_v<T, double>) {
    constexpr uint64_t kQuiet = uint64_t(1) << 51;
    const T other = withNanOf(result, rest...), quiet = std::bit_cast<T>(std::bit_cast<uint64_t>(first) | kQuiet);
    return first != first ? quiet : other;
  }
  return result;
}

struct Add {
  template <class T> static T of(T a, T b) { return withNanOf(a + b, a, b); }
};
struct Sub {
  template <class T> static T of(T a, T b) { return withNanOf(a - b, a, b); }
};
struct Mul {
  template <class T> static T of(T a, T b) { return withNanOf(a * b, a, b); }
};
struct Div {
  template <class T> static T of(T a, T b) { return withNanOf(a / b, a, b); }
};
/// The smaller number; a NaN is ignored if the other one is a number, and -0 is smaller than +0.
struct Min {
  template <class T> static T of(T a, T b) {
    if (a != a || b != b)
      return a != a ? b : a;
    return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
  }
};
struct Max {
  template <class T> static T of(T a, T b) {
    if (a != a || b != b)
      return a != a ? b : a;
    return a == b ? (std::signbit(a) ? b : a) : a < b ? b : a;
  }
};
template <class Op> struct OrNan {
  template <class T> static T of(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : Op::template of<T>(a, b);
  }
};
struct Sqrt {
  template <class T> static T of(T a) { return std::sqrt(a); }
};
struct Reciprocal {
  template <class T> static T of(T a) { return 1 / a; }
};
struct ReciprocalRoot {
  template <class T> static T of(T a) { return T(1 / std::sqrt(double(a))); }
};
struct Exp2 {
  template <class T> static T of(T a) { return std::exp2(a); }
};
struct Log2 {
  template <class T> static T of(T a) { return std::log2(a); }
};
struct Sin {
  template <class T> static T of(T a) { return std::sin(a); }
};
struct Cos {
  template <class T> static T of(T a) { return std::cos(a); }
};
struct Tanh {
  template <class T> static T of(T a) { return std::tanh(a); }
};

template <class T, class Op> KERF_INLINE void binary(const Inst &inst, uint64_t *r) {
  r[inst.d] = putResult<T>(Op::template of<T>(get<T>(r[inst.a]), get<T>(r[inst.b])));
}

template <class T, class Op> KERF_INLINE void unary(const Inst &inst, uint64_t *r) {
  r[inst.d] = putResult<T>(Op::template of<T>(get<T>(r[inst.a])));
}

/// Where the handler is for processors that fuse these by an instruction, the compiler takes it. The C library's
/// function takes most of a test's time.
template <class T> KERF_INLINE void fusedMultiplyAdd(const Inst &inst, uint64_t *r) {
  T a = get<T>(r[inst.a]), b = get<T>(r[inst.b]), c = get<T>(r[inst.c]);
  if constexpr (std::is_same_v<T, float>)
    r[inst.d] = putResult<T>(__builtin_fmaf(a, b, c));
  else
    r[inst.d] = putResult<T>(withNanOf(__builtin_fma(a, b, c), a, b, c));
}

/// Sets the host's rounding mode while it lives.
class HostRounding {
public:
  explicit HostRounding(int mode) : previous(std::fegetround()) { std::fesetround(mode); }
  ~HostRounding() { std::fesetround(previous); }
  HostRounding(const HostRounding &) = delete;
  HostRounding &operator=(const HostRounding &) = delete;

private:
  int previous;
};

/// As `binary`, rounded by the host's mode in field `e`. The volatile variables keep the operation inside.
template <class T, class Op> KERF_INLINE void roundedBinary(const Inst &inst, uint64_t *r) {
  volatile T a = get<T>(r[inst.a]), b = get<T>(r[inst.b]), result;
  {
    HostRounding rounding(inst.e);
    result = Op::template of<T>(a, b);
  }
  r[inst.d] = putResult<T>(result);
}

template <class T, class Op> KERF_INLINE void roundedUnary(const Inst &inst, uint64_t *r) {
  volatile T a = get<T>(r[inst.a]), result;
  {
    HostRounding rounding(inst.e);
    result = Op::template of<T>(a);
  }
  r[inst.d] = putResult<T>(result);
}

template <class T> KERF_INLINE void roundedFusedMultiplyAdd(const Inst &inst, uint64_t *r) {
  volatile T a = get<T>(r[inst.a]), b = get<T>(r[inst.b]), c = get<T>(r[inst.c]), result;
  {
    HostRounding rounding(inst.e);
    result = std::fma(T(a), T(b), T(c));
  }
  r[inst.d] = putResult<T>(withNanOf(T(result), T(a), T(b), T(c)));
}

template <class T> constexpr uint64_t signBit() { return uint64_t(1) << (8 * sizeof(T) - 1); }

template <class T> KERF_INLINE void negate(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a] ^ signBit<T>(); }

template <class T> KERF_INLINE void absolute(const Inst &inst, uint64_t *r) {
  r[inst.d] = r[inst.a] & (signBit<T>() - 1);
}

/// The value of slot `b` with the sign of slot `a`, as PTX orders the operands.
template <class T> KERF_INLINE void copySign(const Inst &inst, uint64_t *r) {
  r[inst.d] = (r[inst.b] & (signBit<T>() - 1)) | (r[inst.a] & signBit<T>());
}

/// Clamps to [0, 1]; a NaN becomes 0.
template <class T> KERF_INLINE void saturate(const Inst &inst, uint64_t *r) {
  T value = get<T>(r[inst.d]);
  r[inst.d] = put<T>(value > 0 ? (value < 1 ? value : T(1)) : T(0));
}

enum TestProperty : int32_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <class T> KERF_INLINE void testProperty(const Inst &inst, uint64_t *r) {
  int kind = std::fpclassify(get<T>(r[inst.a]));
  bool result = false;
  switch (inst.e) {
  case Finite:
    result = kind != FP_NAN && kind != FP_INFINITE;
    break;
  case Infinite:
    result = kind == FP_INFINITE;
    break;
  case Number:
    result = kind != FP_NAN;
    break;
  case NotANumber:
    result = kind == FP_NAN;
    break;
  case Normal:
    result = kind == FP_NORMAL;
    break;
  default:
    result = kind == FP_SUBNORMAL;
    break;
  }
  r[inst.d] = result;
}

/// One handler for each of the two types, and for rounding other than to nearest; null where PTX has none.
struct Row {
  std::string_view name;
  size_t sources;
  Handler single, twice, roundedSingle, roundedTwice;
};
template <class Op> Row exactRow(std::string_view name) {
  return {name,
          2,
          lanewise<binary<float, Op>>(),
          lanewise<binary<double, Op>>(),
          lanewise<roundedBinary<float, Op>>(),
          lanewise<roundedBinary<double, Op>>()};
}
template <class Op> Row exactUnaryRow(std::string_view name) {
  return {name,
          1,
          lanewise<unary<float, Op>>(),
          lanewise<unary<double, Op>>(),
          lanewise<roundedUnary<float, Op>>(),
          lanewise<roundedUnary<double, Op>>()};
}
const Row kFma = {"fma",
                  3,
                  lanewise<fusedMultiplyAdd<float>>(),
                  lanewise<fusedMultiplyAdd<double>>(),
                  lanewise<roundedFusedMultiplyAdd<float>>(),
                  lanewise<roundedFusedMultiplyAdd<double>>()};
const Row kMad = {"mad", 3, kFma.single, kFma.twice, kFma.roundedSingle, kFma.roundedTwice};
const Row kRows[] = {
    exactRow<Add>("add"),
    exactRow<Sub>("sub"),
    exactRow<Mul>("mul"),
    exactRow<Div>("div"),
    kFma,
    kMad,
    exactUnaryRow<Sqrt>("sqrt"),
    exactUnaryRow<Reciprocal>("rcp"),
    {"min", 2, lanewise<binary<float, Min>>(), lanewise<binary<double, Min>>(), nullptr, nullptr},
    {"max", 2, lanewise<binary<float, Max>>(), lanewise<binary<double, Max>>(), nullptr, nullptr},
    {"min.NaN", 2, lanewise<binary<float, OrNan<Min>>>(), nullptr, nullptr, nullptr},
    {"max.NaN", 2, lanewise<binary<float, OrNan<Max>>>(), nullptr, nullptr, nullptr},
    {"neg", 1, lanewise<negate<float>>(), lanewise<negate<double>>(), nullptr, nullptr},
    {"abs", 1, lanewise<absolute<float>>(), lanewise<absolute<double>>(), nullptr, nullptr},
    {"copysign", 2, lanewise<copySign<float>>(), lanewise<copySign<double>>(), nullptr, nullptr},
    {"rsqrt", 1, lanewise<unary<float, ReciprocalRoot>>(), lanewise<unary<double, ReciprocalRoot>>(), nullptr, nullptr},
    {"ex2", 1, lanewise<unary<float, Exp2>>(), nullptr, nullptr, nullptr},
    {"lg2", 1, lanewise<unary<float, Log2>>(), nullptr, nullptr, nullptr},
    {"sin", 1, lanewise<unary<float, Sin>>(), nullptr, nullptr, nullptr},
    {"cos", 1, lanewise<unary<float, Cos>>(), nullptr, nullptr, nullptr},
    {"tanh", 1, lanewise<unary<float, Tanh>>(), nullptr, nullptr, nullptr},
};

bool decodeTestProperty(Builder &builder, const Statement &s) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  builder.expect(2);
  for (int32_t i = 0; i < 6; ++i)
    if (s.has(kNames[i])) {
      int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], s.type());
      builder.emit(s.type() == Type::F32 ? lanewise<testProperty<float>>() : lanewise<testProperty<double>>(), d, a, 0,
                   0, i);
      return true;
    }
  builder.fail("is not supported");
}

} // namespace

const Handler flushSubnormal = lanewise<flush>();

bool decodeFloat(Builder &builder, const Statement &s) {
  Type type = s.type();
  if ((type != Type::F32 && type != Type::F64) || s.types.size() != 1)
    return false;
  if (s.parts[0] == "testp")
    return decodeTestProperty(builder, s);
  std::string name = std::string(s.parts[0]) + (s.has("NaN") ? ".NaN" : "");
  for (const Row &row : kRows) {
    if (row.name != name)
      continue;
    builder.expect(row.sources + 1);
    builder.allow({"rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN"});
    int32_t sources[3] = {0, 0, 0};
    for (size_t i = 0; i < row.sources; ++i)
      sources[i] = builder.source(s.operands[i + 1], type);
    bool single = type == Type::F32;
    int mode = s.has("rz") ? FE_TOWARDZERO : s.has("rm") ? FE_DOWNWARD : s.has("rp") ? FE_UPWARD : FE_TONEAREST;
    Handler handler =
        mode == FE_TONEAREST ? (single ? row.single : row.twice) : (single ? row.roundedSingle : row.roundedTwice);
    int32_t d = builder.destination(s.operands[0]);
    builder.emit(handler, d, sources[0], sources[1], sources[2], mode);
    if (s.has("sat"))
      builder.emit(single ? lanewise<saturate<float>>() : lanewise<saturate<double>>(), d);
    return true;
  }
  return false;
}

} // namespace kerf::standin::ptx
