// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic, logic and shifts.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>
#include <type_traits>

namespace kerf::standin::ptx {

namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

template <class T> using U = std::make_unsigned_t<T>;

// The 16-bit types are promoted to int by C++; U<T> of a product of two 16-bit numbers needs uint32_t.
struct Add {
  template <class T> static T of(T a, T b) { return T(U<T>(a) + U<T>(b)); }
};
struct Sub {
  template <class T> static T of(T a, T b) { return T(U<T>(a) - U<T>(b)); }
};
struct MulLow {
  template <class T> static T of(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }
};
struct MulHigh {
  template <class T> static T of(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      return T((Wide(a) * Wide(b)) >> (8 * sizeof(T)));
    else
      return T((UnsignedWide(a) * UnsignedWide(b)) >> (8 * sizeof(T)));
  }
};
struct Div {
  template <class T> static T of(T a, T b) {
    if (b == 0)
      return T(-1); // PTX leaves it open; devices return all ones
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1))
        return T(0 - U<T>(a));
    return T(a / b);
  }
};
struct Rem {
  template <class T> static T of(T a, T b) {
    if (b == 0)
      return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1))
        return 0;
    return T(a % b);
  }
};
struct Min {
  template <class T> static T of(T a, T b) { return a < b ? a : b; }
};
struct Max {
  template <class T> static T of(T a, T b) { return a < b ? b : a; }
};
struct And {
  template <class T> static T of(T a, T b) { return a & b; }
};
struct Or {
  template <class T> static T of(T a, T b) { return a | b; }
};
struct Xor {
  template <class T> static T of(T a, T b) { return a ^ b; }
};
int32_t clampToS32(int64_t value) { return int32_t(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }
struct SaturatingAdd {
  template <class T> static T of(T a, T b) { return clampToS32(int64_t(a) + b); }
};
struct SaturatingSub {
  template <class T> static T of(T a, T b) { return clampToS32(int64_t(a) - b); }
};
struct Neg {
  template <class T> static T of(T a) { return T(0 - U<T>(a)); }
};
struct Abs {
  template <class T> static T of(T a) { return a < 0 ? T(0 - U<T>(a)) : a; }
};
struct Not {
  template <class T> static T of(T a) { return T(~a); }
};
struct LogicalNot {
  template <class T> static T of(T a) { return T(a == 0); }
};

template <class T, class Op> KERF_INLINE void binary(const Inst &inst, uint64_t *r) {
  r[inst.d] = put<T>(Op::template of<T>(get<T>(r[inst.a]), get<T>(r[inst.b])));
}

template <class T, class Op> KERF_INLINE void unary(const Inst &inst, uint64_t *r) {
  r[inst.d] = put<T>(Op::template of<T>(get<T>(r[inst.a])));
}

/// a * b + c, where the product's low or high half is taken.
template <class T, class Op> KERF_INLINE void multiplyAdd(const Inst &inst, uint64_t *r) {
  r[inst.d] = put<T>(Add::of<T>(Op::template of<T>(get<T>(r[inst.a]), get<T>(r[inst.b])), get<T>(r[inst.c])));
}

template <class From, class To> KERF_INLINE void multiplyWide(const Inst &inst, uint64_t *r) {
  r[inst.d] = put<To>(MulLow::of<To>(To(get<From>(r[inst.a])), To(get<From>(r[inst.b]))));
}

template <class From, class To> KERF_INLINE void multiplyWideAdd(const Inst &inst, uint64_t *r) {
  To product = MulLow::of<To>(To(get<From>(r[inst.a])), To(get<From>(r[inst.b])));
  r[inst.d] = put<To>(Add::of<To>(product, get<To>(r[inst.c])));
}

template <class T> KERF_INLINE void shiftLeft(const Inst &inst, uint64_t *r) {
  uint32_t by = uint32_t(r[inst.b]);
  r[inst.d] = by >= 8 * sizeof(T) ? 0 : put<T>(T(get<T>(r[inst.a]) << by));
}

template <class T> KERF_INLINE void shiftRight(const Inst &inst, uint64_t *r) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  uint32_t by = uint32_t(r[inst.b]);
  T value = get<T>(r[inst.a]);
  if (by >= kBits)
    value = std::is_signed_v<T> && value < T(0) ? T(-1) : T(0);
  else
    value = T(value >> by);
  r[inst.d] = put<T>(value);
}

template <class T> KERF_INLINE void sumOfDifference(const Inst &inst, uint64_t *r) {
  T a = get<T>(r[inst.a]), b = get<T>(r[inst.b]);
  r[inst.d] = put<T>(Add::of<T>(a < b ? Sub::of<T>(b, a) : Sub::of<T>(a, b), get<T>(r[inst.c])));
}

/// Calls `make` with a value of the C++ type of an integer type.
template <class Make> Handler withInteger(Type type, Make make) {
  switch (type) {
  case Type::U16:
  case Type::B16:
    return make(uint16_t());
  case Type::U32:
  case Type::B32:
    return make(uint32_t());
  case Type::U64:
  case Type::B64:
    return make(uint64_t());
  case Type::S16:
    return make(int16_t());
  case Type::S32:
    return make(int32_t());
  case Type::S64:
    return make(int64_t());
  default:
    return nullptr;
  }
}

template <class Op> Handler binaryOf(Type type) {
  return withInteger(type, [](auto t) -> Handler { return lanewise<binary<decltype(t), Op>>(); });
}
template <class Op> Handler unaryOf(Type type) {
  return withInteger(type, [](auto t) -> Handler { return lanewise<unary<decltype(t), Op>>(); });
}
template <class Op> Handler multiplyAddOf(Type type) {
  return withInteger(type, [](auto t) -> Handler { return lanewise<multiplyAdd<decltype(t), Op>>(); });
}
Handler sumOfDifferenceOf(Type type) {
  return withInteger(type, [](auto t) -> Handler { return lanewise<sumOfDifference<decltype(t)>>(); });
}
Handler wideOf(Type type, bool adds) {
  switch (type) {
  case Type::U16:
    return adds ? lanewise<multiplyWideAdd<uint16_t, uint32_t>>() : lanewise<multiplyWide<uint16_t, uint32_t>>();
  case Type::S16:
    return adds ? lanewise<multiplyWideAdd<int16_t, int32_t>>() : lanewise<multiplyWide<int16_t, int32_t>>();
  case Type::U32:
    return adds ? lanewise<multiplyWideAdd<uint32_t, uint64_t>>() : lanewise<multiplyWide<uint32_t, uint64_t>>();
  case Type::S32:
    return adds ? lanewise<multiplyWideAdd<int32_t, int64_t>>() : lanewise<multiplyWide<int32_t, int64_t>>();
  default:
    return nullptr;
  }
}

/// Applies an operation to both 16-bit halves.
template <class T, class Op> KERF_INLINE void binaryHalves(const Inst &inst, uint64_t *r) {
  uint16_t low = uint16_t(Op::template of<T>(T(r[inst.a]), T(r[inst.b])));
  uint16_t high = uint16_t(Op::template of<T>(T(r[inst.a] >> 16), T(r[inst.b] >> 16)));
  r[inst.d] = uint64_t(high) << 16 | low;
}

/// Addition, subtraction and multiplication with the carry flag. Field `e`: bit 0 reads it, bit 1 writes it.
template <class T> KERF_INLINE void addCarry(const Inst &inst, uint64_t *r) {
  UnsignedWide sum = UnsignedWide(get<T>(r[inst.a])) + get<T>(r[inst.b]) + ((inst.e & 1) && r[kCarry] ? 1 : 0);
  if (inst.e & 2)
    r[kCarry] = (sum >> (8 * sizeof(T))) != 0;
  r[inst.d] = put<T>(T(sum));
}

template <class T> KERF_INLINE void subCarry(const Inst &inst, uint64_t *r) {
  UnsignedWide rest = UnsignedWide(get<T>(r[inst.a])) - get<T>(r[inst.b]) - ((inst.e & 1) && r[kCarry] ? 1 : 0);
  if (inst.e & 2)
    r[kCarry] = (rest >> (8 * sizeof(T))) != 0;
  r[inst.d] = put<T>(T(rest));
}

template <class T, class Op> KERF_INLINE void multiplyAddCarry(const Inst &inst, uint64_t *r) {
  T product = Op::template of<T>(get<T>(r[inst.a]), get<T>(r[inst.b]));
  UnsignedWide sum = UnsignedWide(U<T>(product)) + U<T>(get<T>(r[inst.c])) + ((inst.e & 1) && r[kCarry] ? 1 : 0);
  if (inst.e & 2)
    r[kCarry] = (sum >> (8 * sizeof(T))) != 0;
  r[inst.d] = put<T>(T(U<T>(sum)));
}

bool decodeCarry(Builder &builder, const Statement &s) {
  std::string_view op = s.parts[0];
  bool reads = op == "addc" || op == "subc" || op == "madc", multiplies = op == "mad" || op == "madc";
  builder.expect(multiplies ? 4 : 3);
  builder.allow({"cc", "lo", "hi"});
  Type type = s.type();
  int32_t flags = (reads ? 1 : 0) | (s.has("cc") ? 2 : 0);
  bool wide = bytesOf(type) == 8;
  if (bytesOf(type) < 4 || isFloat(type))
    builder.fail("this type is not supported here");
  Handler handler = nullptr;
  if (multiplies && s.has("hi"))
    handler = withInteger(type, [](auto t) -> Handler { return lanewise<multiplyAddCarry<decltype(t), MulHigh>>(); });
  else if (multiplies)
    handler = withInteger(type, [](auto t) -> Handler { return lanewise<multiplyAddCarry<decltype(t), MulLow>>(); });
  else if (op.starts_with("add"))
    handler = wide ? lanewise<addCarry<uint64_t>>() : lanewise<addCarry<uint32_t>>();
  else
    handler = wide ? lanewise<subCarry<uint64_t>>() : lanewise<subCarry<uint32_t>>();
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], type);
  int32_t b = builder.source(s.operands[2], type), c = multiplies ? builder.source(s.operands[3], type) : 0;
  builder.emit(handler, d, a, b, c, flags);
  return true;
}

bool decodeHalves(Builder &builder, const Statement &s) {
  std::string_view op = s.parts[0];
  bool isSigned = s.parts.back() == "s16x2";
  Handler handler =
      op == "add"   ? lanewise<binaryHalves<uint16_t, Add>>()
      : op == "min" ? (isSigned ? lanewise<binaryHalves<int16_t, Min>>() : lanewise<binaryHalves<uint16_t, Min>>())
      : op == "max" ? (isSigned ? lanewise<binaryHalves<int16_t, Max>>() : lanewise<binaryHalves<uint16_t, Max>>())
                    : nullptr;
  builder.expect(3);
  builder.allow({"s16x2", "u16x2"});
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], Type::B32);
  builder.emit(handler, d, a, builder.source(s.operands[2], Type::B32));
  return true;
}

struct Row {
  std::string_view name; // with `.lo`, `.hi`, `.wide` or `.sat`
  size_t sources;
  Handler (*handler)(Type);
};
constexpr Row kRows[] = {
    {"add", 2, binaryOf<Add>},
    {"sub", 2, binaryOf<Sub>},
    {"add.sat", 2,
     [](Type t) -> Handler { return t == Type::S32 ? lanewise<binary<int32_t, SaturatingAdd>>() : nullptr; }},
    {"sub.sat", 2,
     [](Type t) -> Handler { return t == Type::S32 ? lanewise<binary<int32_t, SaturatingSub>>() : nullptr; }},
    {"mul.lo", 2, binaryOf<MulLow>},
    {"mul.hi", 2, binaryOf<MulHigh>},
    {"mul.wide", 2, [](Type t) { return wideOf(t, false); }},
    {"mad.lo", 3, multiplyAddOf<MulLow>},
    {"mad.hi", 3, multiplyAddOf<MulHigh>},
    {"mad.wide", 3, [](Type t) { return wideOf(t, true); }},
    {"div", 2, binaryOf<Div>},
    {"rem", 2, binaryOf<Rem>},
    {"min", 2, binaryOf<Min>},
    {"max", 2, binaryOf<Max>},
    {"neg", 1, unaryOf<Neg>},
    {"abs", 1, unaryOf<Abs>},
    {"and", 2, binaryOf<And>},
    {"or", 2, binaryOf<Or>},
    {"xor", 2, binaryOf<Xor>},
    {"not", 1, unaryOf<Not>},
    {"cnot", 1, unaryOf<LogicalNot>},
    {"sad", 3, sumOfDifferenceOf},
    {"shl", 2,
     [](Type type) { return withInteger(type, [](auto t) -> Handler { return lanewise<shiftLeft<decltype(t)>>(); }); }},
    {"shr", 2,
     [](Type type) {
       return withInteger(type, [](auto t) -> Handler { return lanewise<shiftRight<decltype(t)>>(); });
     }},
};

/// Logic of predicates, whose value is bit 0.
Handler predicateHandler(std::string_view op) {
  return op == "and"   ? lanewise<binary<uint64_t, And>>()
         : op == "or"  ? lanewise<binary<uint64_t, Or>>()
         : op == "xor" ? lanewise<binary<uint64_t, Xor>>()
         : op == "not" ? notPredicate
                       : nullptr;
}

} // namespace

bool decodeInteger(Builder &builder, const Statement &s) {
  std::string_view op = s.parts[0];
  Type type = s.type();
  if (s.parts.back() == "s16x2" || s.parts.back() == "u16x2")
    return decodeHalves(builder, s);
  if (isFloat(type))
    return false;
  if (op == "addc" || op == "subc" || op == "madc" || ((op == "add" || op == "sub" || op == "mad") && s.has("cc")))
    return decodeCarry(builder, s);
  std::string name(op);
  for (std::string_view part : {"lo", "hi", "wide", "sat"})
    if (s.has(part))
      name.append(1, '.').append(part);
  for (const Row &row : kRows) {
    if (row.name != name)
      continue;
    builder.expect(row.sources + 1);
    builder.allow({"lo", "hi", "wide", "sat"});
    std::vector<int32_t> sources = {0, 0, 0};
    for (size_t i = 0; i < row.sources; ++i)
      sources[i] = builder.source(s.operands[i + 1], type);
    Handler handler = type == Type::Pred ? predicateHandler(op) : row.handler(type);
    builder.emit(handler, builder.destination(s.operands[0]), sources[0], sources[1], sources[2]);
    return true;
  }
  return false;
}

} // namespace kerf::standin::ptx
