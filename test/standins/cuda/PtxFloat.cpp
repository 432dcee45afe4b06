// SPDX-License-Identifier: Apache-2.0
// Arithmetic of f32 and f64. This folder is compiled without contraction, so that only `fma` is fused.
#include "PtxText.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace kerf::standin::ptx {

const Inst *flushSubnormal(const Inst *inst, Thread &thread) {
  uint32_t bits = uint32_t(thread.r[inst->a]);
  thread.r[inst->d] = (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits;
  return inst + 1;
}

namespace {

struct Add {
  template <class T> static T of(T a, T b) { return a + b; }
};
struct Sub {
  template <class T> static T of(T a, T b) { return a - b; }
};
struct Mul {
  template <class T> static T of(T a, T b) { return a * b; }
};
struct Div {
  template <class T> static T of(T a, T b) { return a / b; }
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

template <class T, class Op> const Inst *binary(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  r[inst->d] = putResult<T>(Op::template of<T>(get<T>(r[inst->a]), get<T>(r[inst->b])));
  return inst + 1;
}

template <class T, class Op> const Inst *unary(const Inst *inst, Thread &thread) {
  thread.r[inst->d] = putResult<T>(Op::template of<T>(get<T>(thread.r[inst->a])));
  return inst + 1;
}

template <class T> const Inst *fusedMultiplyAdd(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  r[inst->d] = putResult<T>(std::fma(get<T>(r[inst->a]), get<T>(r[inst->b]), get<T>(r[inst->c])));
  return inst + 1;
}

#ifdef __x86_64__
/// As `fusedMultiplyAdd`, by one instruction of processors that have it. The C library's function takes most of a
/// test's time.
template <class T> [[gnu::target("fma")]] const Inst *fusedByInstruction(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  T a = get<T>(r[inst->a]), b = get<T>(r[inst->b]), c = get<T>(r[inst->c]);
  if constexpr (std::is_same_v<T, float>)
    r[inst->d] = putResult<T>(__builtin_fmaf(a, b, c));
  else
    r[inst->d] = putResult<T>(__builtin_fma(a, b, c));
  return inst + 1;
}
template <class T> Handler fusedHandler() {
  return __builtin_cpu_supports("fma") ? fusedByInstruction<T> : fusedMultiplyAdd<T>;
}
#else
template <class T> Handler fusedHandler() { return fusedMultiplyAdd<T>; }
#endif

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
template <class T, class Op> const Inst *roundedBinary(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  volatile T a = get<T>(r[inst->a]), b = get<T>(r[inst->b]), result;
  {
    HostRounding rounding(inst->e);
    result = Op::template of<T>(a, b);
  }
  r[inst->d] = putResult<T>(result);
  return inst + 1;
}

template <class T, class Op> const Inst *roundedUnary(const Inst *inst, Thread &thread) {
  volatile T a = get<T>(thread.r[inst->a]), result;
  {
    HostRounding rounding(inst->e);
    result = Op::template of<T>(a);
  }
  thread.r[inst->d] = putResult<T>(result);
  return inst + 1;
}

template <class T> const Inst *roundedFusedMultiplyAdd(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  volatile T a = get<T>(r[inst->a]), b = get<T>(r[inst->b]), c = get<T>(r[inst->c]), result;
  {
    HostRounding rounding(inst->e);
    result = std::fma(T(a), T(b), T(c));
  }
  r[inst->d] = putResult<T>(result);
  return inst + 1;
}

template <class T> constexpr uint64_t signBit() { return uint64_t(1) << (8 * sizeof(T) - 1); }

template <class T> const Inst *negate(const Inst *inst, Thread &thread) {
  thread.r[inst->d] = thread.r[inst->a] ^ signBit<T>();
  return inst + 1;
}

template <class T> const Inst *absolute(const Inst *inst, Thread &thread) {
  thread.r[inst->d] = thread.r[inst->a] & (signBit<T>() - 1);
  return inst + 1;
}

/// The value of slot `b` with the sign of slot `a`, as PTX orders the operands.
template <class T> const Inst *copySign(const Inst *inst, Thread &thread) {
  uint64_t *r = thread.r;
  r[inst->d] = (r[inst->b] & (signBit<T>() - 1)) | (r[inst->a] & signBit<T>());
  return inst + 1;
}

/// Clamps to [0, 1]; a NaN becomes 0.
template <class T> const Inst *saturate(const Inst *inst, Thread &thread) {
  T value = get<T>(thread.r[inst->d]);
  thread.r[inst->d] = put<T>(value > 0 ? (value < 1 ? value : T(1)) : T(0));
  return inst + 1;
}

enum TestProperty : int32_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <class T> const Inst *testProperty(const Inst *inst, Thread &thread) {
  int kind = std::fpclassify(get<T>(thread.r[inst->a]));
  bool result = false;
  switch (inst->e) {
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
  thread.r[inst->d] = result;
  return inst + 1;
}

/// One handler for each of the two types, and for rounding other than to nearest; null where PTX has none.
struct Row {
  std::string_view name;
  size_t sources;
  Handler single, twice, roundedSingle, roundedTwice;
};
template <class Op> constexpr Row exactRow(std::string_view name) {
  return {name, 2, binary<float, Op>, binary<double, Op>, roundedBinary<float, Op>, roundedBinary<double, Op>};
}
template <class Op> constexpr Row exactUnaryRow(std::string_view name) {
  return {name, 1, unary<float, Op>, unary<double, Op>, roundedUnary<float, Op>, roundedUnary<double, Op>};
}
const Row kFma = {"fma",
                  3,
                  fusedHandler<float>(),
                  fusedHandler<double>(),
                  roundedFusedMultiplyAdd<float>,
                  roundedFusedMultiplyAdd<double>};
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
    {"min", 2, binary<float, Min>, binary<double, Min>, nullptr, nullptr},
    {"max", 2, binary<float, Max>, binary<double, Max>, nullptr, nullptr},
    {"min.NaN", 2, binary<float, OrNan<Min>>, nullptr, nullptr, nullptr},
    {"max.NaN", 2, binary<float, OrNan<Max>>, nullptr, nullptr, nullptr},
    {"neg", 1, negate<float>, negate<double>, nullptr, nullptr},
    {"abs", 1, absolute<float>, absolute<double>, nullptr, nullptr},
    {"copysign", 2, copySign<float>, copySign<double>, nullptr, nullptr},
    {"rsqrt", 1, unary<float, ReciprocalRoot>, unary<double, ReciprocalRoot>, nullptr, nullptr},
    {"ex2", 1, unary<float, Exp2>, nullptr, nullptr, nullptr},
    {"lg2", 1, unary<float, Log2>, nullptr, nullptr, nullptr},
    {"sin", 1, unary<float, Sin>, nullptr, nullptr, nullptr},
    {"cos", 1, unary<float, Cos>, nullptr, nullptr, nullptr},
    {"tanh", 1, unary<float, Tanh>, nullptr, nullptr, nullptr},
};

bool decodeTestProperty(Builder &builder, const Statement &s) {
  static constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  builder.expect(2);
  for (int32_t i = 0; i < 6; ++i)
    if (s.has(kNames[i])) {
      int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], s.type());
      builder.emit(s.type() == Type::F32 ? testProperty<float> : testProperty<double>, d, a, 0, 0, i);
      return true;
    }
  builder.fail("is not supported");
}

} // namespace

bool decodeFloat(Builder &builder, const Statement &s) {
  Type type = s.type();
  if ((type != Type::F32 && type != Type::F64) || s.types().size() != 1)
    return false;
  if (s.parts[0] == "testp")
    return decodeTestProperty(builder, s);
  std::string name = s.parts[0] + (s.has("NaN") ? ".NaN" : "");
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
      builder.emit(single ? saturate<float> : saturate<double>, d);
    return true;
  }
  return false;
}

} // namespace kerf::standin::ptx
