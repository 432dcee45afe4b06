// SPDX-License-Identifier: Apache-2.0
// Comparisons and selections.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

namespace {

// How comparisons read their operands: as an integer or float of C++, or as the value of a 16-bit float.
template <class T> struct Plain {
  using Value = T;
  static T read(uint64_t slot) { return get<T>(slot); }
};
struct Half {
  using Value = float;
  static float read(uint64_t slot) { return halfToFloat(uint16_t(slot)); }
};
struct Bfloat {
  using Value = float;
  static float read(uint64_t slot) { return bfloatToFloat(uint16_t(slot)); }
};

struct Eq {
  template <class T> static bool of(T a, T b) { return a == b; }
};
struct Ne {
  template <class T> static bool of(T a, T b) { return a < b || a > b; }
}; // false for NaN
struct Lt {
  template <class T> static bool of(T a, T b) { return a < b; }
};
struct Le {
  template <class T> static bool of(T a, T b) { return a <= b; }
};
struct Gt {
  template <class T> static bool of(T a, T b) { return a > b; }
};
struct Ge {
  template <class T> static bool of(T a, T b) { return a >= b; }
};
struct Equ {
  template <class T> static bool of(T a, T b) { return !(a < b || a > b); }
};
struct Neu {
  template <class T> static bool of(T a, T b) { return a != b; }
};
struct Ltu {
  template <class T> static bool of(T a, T b) { return !(a >= b); }
};
struct Leu {
  template <class T> static bool of(T a, T b) { return !(a > b); }
};
struct Gtu {
  template <class T> static bool of(T a, T b) { return !(a <= b); }
};
struct Geu {
  template <class T> static bool of(T a, T b) { return !(a < b); }
};
struct Num {
  template <class T> static bool of(T a, T b) { return a == a && b == b; }
};
struct Nan {
  template <class T> static bool of(T a, T b) { return a != a || b != b; }
};

template <class Read, class Op> KERF_INLINE void compare(const Inst &inst, uint64_t *r) {
  r[inst.d] = Op::template of<typename Read::Value>(Read::read(r[inst.a]), Read::read(r[inst.b]));
}

template <class Op> Handler integerOf(Type type) {
  switch (type) {
  case Type::U16:
  case Type::B16:
    return lanewise<compare<Plain<uint16_t>, Op>>();
  case Type::U32:
  case Type::B32:
    return lanewise<compare<Plain<uint32_t>, Op>>();
  case Type::U64:
  case Type::B64:
    return lanewise<compare<Plain<uint64_t>, Op>>();
  case Type::S16:
    return lanewise<compare<Plain<int16_t>, Op>>();
  case Type::S32:
    return lanewise<compare<Plain<int32_t>, Op>>();
  case Type::S64:
    return lanewise<compare<Plain<int64_t>, Op>>();
  default:
    return nullptr;
  }
}

template <class Op> Handler floatOf(Type type) {
  switch (type) {
  case Type::F16:
    return lanewise<compare<Half, Op>>();
  case Type::BF16:
    return lanewise<compare<Bfloat, Op>>();
  case Type::F32:
    return lanewise<compare<Plain<float>, Op>>();
  case Type::F64:
    return lanewise<compare<Plain<double>, Op>>();
  default:
    return nullptr;
  }
}

struct Row {
  std::string_view name;
  Handler (*integer)(Type);
  Handler (*floating)(Type);
};
Handler none(Type) { return nullptr; }
constexpr Row kRows[] = {
    {"eq", integerOf<Eq>, floatOf<Eq>}, {"ne", integerOf<Neu>, floatOf<Ne>}, {"lt", integerOf<Lt>, floatOf<Lt>},
    {"le", integerOf<Le>, floatOf<Le>}, {"gt", integerOf<Gt>, floatOf<Gt>},  {"ge", integerOf<Ge>, floatOf<Ge>},
    {"lo", integerOf<Lt>, none},        {"ls", integerOf<Le>, none},         {"hi", integerOf<Gt>, none},
    {"hs", integerOf<Ge>, none},        {"equ", none, floatOf<Equ>},         {"neu", none, floatOf<Neu>},
    {"ltu", none, floatOf<Ltu>},        {"leu", none, floatOf<Leu>},         {"gtu", none, floatOf<Gtu>},
    {"geu", none, floatOf<Geu>},        {"num", none, floatOf<Num>},         {"nan", none, floatOf<Nan>},
};

/// Combines slot `a` with the predicate `b`: and, or, xor. Field `c`: a slot for the same with `a` inverted, or -1.
KERF_INLINE void combine(const Inst &inst, uint64_t *r) {
  uint64_t a = r[inst.a] & 1, b = r[inst.b] & 1;
  auto apply = [&](uint64_t value) { return inst.e == 0 ? value & b : inst.e == 1 ? value | b : value ^ b; };
  if (inst.c >= 0)
    r[inst.c] = apply(a ^ 1);
  r[inst.d] = apply(a);
}

KERF_INLINE void select(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.c] & 1 ? r[inst.a] : r[inst.b]; }

KERF_INLINE void takeHigh(const Inst &inst, uint64_t *r) { r[inst.d] = uint32_t(r[inst.a]) >> 16; }

/// Returns the handler of the comparison that the statement names.
Handler comparison(Builder &builder, const Statement &s, Type type) {
  for (const Row &row : kRows)
    if (s.parts[1] == row.name)
      return isFloat(type) ? row.floating(type) : row.integer(type);
  builder.fail("unknown comparison");
}

/// Returns 0, 1 or 2 for `.and`, `.or` and `.xor`, or -1.
int32_t combination(const Statement &s) { return s.has("and") ? 0 : s.has("or") ? 1 : s.has("xor") ? 2 : -1; }

/// Compares the pairs of f16x2 or bf16x2: one predicate for each half.
bool decodePairs(Builder &builder, const Statement &s, Type type) {
  builder.expect(3);
  if (s.operands[0].kind != Operand::Kind::Pair || combination(s) >= 0)
    builder.fail("needs two destinations and no combination");
  Handler handler = comparison(builder, s, type == Type::F16x2 ? Type::F16 : Type::BF16);
  int32_t a = builder.source(s.operands[1], type), b = builder.source(s.operands[2], type);
  int32_t highA = builder.newSlot(), highB = builder.newSlot();
  builder.emit(lanewise<takeHigh>(), highA, a);
  builder.emit(lanewise<takeHigh>(), highB, b);
  builder.emit(handler, builder.destination(s.operands[0].parts[0]), a, b);
  builder.emit(handler, builder.destination(s.operands[0].parts[1]), highA, highB);
  return true;
}

bool decodeSetp(Builder &builder, const Statement &s) {
  builder.allow({s.parts[1], "and", "or", "xor", "ftz"});
  Type type = s.type();
  if (type == Type::F16x2 || type == Type::BF16x2)
    return decodePairs(builder, s, type);
  int32_t mode = combination(s);
  builder.expect(mode >= 0 ? 4 : 3);
  bool pair = s.operands[0].kind == Operand::Kind::Pair;
  int32_t d = builder.destination(pair ? s.operands[0].parts[0] : s.operands[0]);
  int32_t inverse = pair ? builder.destination(s.operands[0].parts[1]) : -1;
  int32_t a = builder.source(s.operands[1], type), b = builder.source(s.operands[2], type);
  Handler handler = comparison(builder, s, type);
  if (mode < 0 && !pair) {
    builder.emit(handler, d, a, b);
    return true;
  }
  int32_t other = mode >= 0 ? builder.source(s.operands[3], Type::Pred) : builder.constant(1);
  int32_t result = builder.newSlot();
  builder.emit(handler, result, a, b);
  builder.emit(lanewise<combine>(), d, result, other, inverse, std::max(mode, 0));
  return true;
}

bool decodeSet(Builder &builder, const Statement &s) {
  builder.allow({s.parts[1], "and", "or", "xor", "ftz"});
  const auto &types = s.types;
  int32_t mode = combination(s);
  builder.expect(mode >= 0 ? 4 : 3);
  if (types.size() != 2 || bytesOf(types[0]) != 4)
    builder.fail("is not supported");
  int32_t a = builder.source(s.operands[1], types[1]), b = builder.source(s.operands[2], types[1]);
  int32_t result = builder.newSlot();
  builder.emit(comparison(builder, s, types[1]), result, a, b);
  if (mode >= 0)
    builder.emit(lanewise<combine>(), result, result, builder.source(s.operands[3], Type::Pred), -1, mode);
  uint64_t one = types[0] == Type::F32 ? std::bit_cast<uint32_t>(1.0f) : 0xFFFFFFFF;
  builder.emit(lanewise<select>(), builder.destination(s.operands[0]), builder.constant(one), builder.constant(0),
               result);
  return true;
}

} // namespace

bool decodeCompare(Builder &builder, const Statement &s) {
  std::string_view op = s.parts[0];
  if ((op == "setp" || op == "set") && s.parts.size() > 2)
    return op == "setp" ? decodeSetp(builder, s) : decodeSet(builder, s);
  if (op != "selp" && op != "slct")
    return false;
  builder.expect(4);
  builder.allow({"ftz"});
  const auto &types = s.types;
  if (types.empty() || (op == "slct" && types.size() != 2))
    builder.fail("this type is not supported here");
  int32_t d = builder.destination(s.operands[0]);
  int32_t a = builder.source(s.operands[1], types[0]), b = builder.source(s.operands[2], types[0]);
  if (op == "selp") {
    builder.emit(lanewise<select>(), d, a, b, builder.source(s.operands[3], Type::Pred));
    return true;
  }
  int32_t c = builder.source(s.operands[3], types[1]), isPositive = builder.newSlot();
  builder.emit(isFloat(types[1]) ? floatOf<Ge>(types[1]) : integerOf<Ge>(types[1]), isPositive, c, builder.constant(0));
  builder.emit(lanewise<select>(), d, a, b, isPositive);
  return true;
}

} // namespace kerf::standin::ptx
