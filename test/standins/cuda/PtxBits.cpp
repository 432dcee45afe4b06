// SPDX-License-Identifier: Apache-2.0
// Instructions on bit fields and bytes.
#include "PtxLanes.h"
#include "PtxText.h"

#include <algorithm>

namespace kerf::standin::ptx {

namespace {

template <class T> KERF_INLINE void extractField(const Inst &inst, uint64_t *r) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kBits = 8 * sizeof(T);
  U value = U(r[inst.a]);
  uint32_t position = r[inst.b] & 0xFF, length = r[inst.c] & 0xFF;
  U field = position >= kBits ? 0 : value >> position;
  U mask = length >= kBits ? ~U(0) : U((U(1) << length) - 1);
  U result = field & mask;
  if (std::is_signed_v<T> && length != 0) {
    // The sign is that of the field's last bit, or of the value's where the field reaches beyond it.
    uint32_t last = std::min(position + length - 1, kBits - 1);
    uint32_t available = position >= kBits ? 0 : std::min(length, kBits - position);
    if (value >> last & 1)
      result |= available >= kBits ? U(0) : U(~U(0) << available);
  }
  r[inst.d] = result;
}

template <class T> KERF_INLINE void insertField(const Inst &inst, uint64_t *r) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  T value = T(r[inst.a]), into = T(r[inst.b]);
  uint32_t position = r[inst.c] & 0xFF, length = r[inst.e] & 0xFF;
  T result = into;
  if (position < kBits && length > 0) {
    T mask = (length >= kBits ? ~T(0) : T((T(1) << length) - 1)) << position;
    result = (into & ~mask) | ((value << position) & mask);
  }
  r[inst.d] = result;
}

template <class T> KERF_INLINE void reverse(const Inst &inst, uint64_t *r) {
  T value = T(r[inst.a]), result = 0;
  for (size_t bit = 0; bit < 8 * sizeof(T); ++bit)
    result = T(result << 1 | (value >> bit & 1));
  r[inst.d] = result;
}

template <class T> KERF_INLINE void countLeadingZeros(const Inst &inst, uint64_t *r) {
  r[inst.d] = uint64_t(std::countl_zero(T(r[inst.a])));
}

template <class T> KERF_INLINE void countOnes(const Inst &inst, uint64_t *r) {
  r[inst.d] = uint64_t(std::popcount(T(r[inst.a])));
}

/// Position of the most significant bit that differs from the sign; field `e`: the shift that brings it to the top.
template <class T> KERF_INLINE void findLeading(const Inst &inst, uint64_t *r) {
  using U = std::make_unsigned_t<T>;
  U value = U(r[inst.a]);
  if (std::is_signed_v<T> && (value >> (8 * sizeof(T) - 1)))
    value = U(~value);
  uint32_t position = uint32_t(8 * sizeof(T)) - 1 - uint32_t(std::countl_zero(value)); // 0xFFFFFFFF if there is none
  if (inst.e && value)
    position = uint32_t(8 * sizeof(T)) - 1 - position;
  r[inst.d] = position;
}

/// Selects four of eight bytes; bit 3 of a selector spreads the byte's sign.
KERF_INLINE void permuteBytes(const Inst &inst, uint64_t *r) {
  uint64_t bytes = uint64_t(uint32_t(r[inst.b])) << 32 | uint32_t(r[inst.a]);
  uint32_t selectors = uint32_t(r[inst.c]), result = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t selector = selectors >> (4 * i) & 15;
    uint32_t byte = uint32_t(bytes >> (8 * (selector & 7))) & 0xFF;
    if (selector & 8)
      byte = byte & 0x80 ? 0xFF : 0;
    result |= byte << (8 * i);
  }
  r[inst.d] = result;
}

/// Field `e` holds the slot of the truth table.
KERF_INLINE void logicOfThree(const Inst &inst, uint64_t *r) {
  uint32_t a = uint32_t(r[inst.a]), b = uint32_t(r[inst.b]), c = uint32_t(r[inst.c]), result = 0;
  uint32_t table = uint32_t(r[inst.e]);
  for (uint32_t row = 0; row < 8; ++row)
    if (table >> row & 1)
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  r[inst.d] = result;
}

/// Funnel shift of b:a. Field `e`: bit 0 shifts right, bit 1 clamps the distance to 32 in place of wrapping it.
KERF_INLINE void funnelShift(const Inst &inst, uint64_t *r) {
  uint64_t value = uint64_t(uint32_t(r[inst.b])) << 32 | uint32_t(r[inst.a]);
  uint32_t by = uint32_t(r[inst.c]);
  by = inst.e & 2 ? std::min(by, 32u) : by & 31;
  r[inst.d] = inst.e & 1 ? uint32_t(value >> by) : uint32_t(value >> (32 - by));
}

/// Dot product of four bytes, plus slot `c`. Field `e`: bit 0, 1: `a`, `b` are signed.
KERF_INLINE void dotOfBytes(const Inst &inst, uint64_t *r) {
  auto byte = [&](int32_t slot, int i, bool isSigned) {
    uint8_t value = uint8_t(r[slot] >> (8 * i));
    return isSigned ? int32_t(int8_t(value)) : int32_t(value);
  };
  uint32_t sum = uint32_t(r[inst.c]);
  for (int i = 0; i < 4; ++i)
    sum += uint32_t(byte(inst.a, i, inst.e & 1) * byte(inst.b, i, inst.e & 2));
  r[inst.d] = sum;
}

struct Row {
  std::string_view name;
  size_t sources;
  Handler unsigned32, unsigned64, signed32, signed64;
};
const Row kRows[] = {
    {"bfe", 3, lanewise<extractField<uint32_t>>(), lanewise<extractField<uint64_t>>(),
     lanewise<extractField<int32_t>>(), lanewise<extractField<int64_t>>()},
    {"brev", 1, lanewise<reverse<uint32_t>>(), lanewise<reverse<uint64_t>>(), nullptr, nullptr},
    {"clz", 1, lanewise<countLeadingZeros<uint32_t>>(), lanewise<countLeadingZeros<uint64_t>>(), nullptr, nullptr},
    {"popc", 1, lanewise<countOnes<uint32_t>>(), lanewise<countOnes<uint64_t>>(), nullptr, nullptr},
    {"bfind", 1, lanewise<findLeading<uint32_t>>(), lanewise<findLeading<uint64_t>>(), lanewise<findLeading<int32_t>>(),
     lanewise<findLeading<int64_t>>()},
    {"bfi", 4, lanewise<insertField<uint32_t>>(), lanewise<insertField<uint64_t>>(), nullptr, nullptr},
    {"prmt", 3, lanewise<permuteBytes>(), nullptr, nullptr, nullptr},
    {"lop3", 4, lanewise<logicOfThree>(), nullptr, nullptr, nullptr},
    {"shf", 3, lanewise<funnelShift>(), nullptr, nullptr, nullptr},
};

bool decodeDot(Builder &builder, const Statement &s) {
  builder.expect(4);
  const auto &types = s.types;
  if (types.size() != 2)
    builder.fail("is not supported");
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], types[0]);
  int32_t b = builder.source(s.operands[2], types[1]), c = builder.source(s.operands[3], types[0]);
  int32_t flags = (isSigned(types[0]) ? 1 : 0) | (isSigned(types[1]) ? 2 : 0);
  builder.emit(lanewise<dotOfBytes>(), d, a, b, c, flags);
  return true;
}

} // namespace

bool decodeBits(Builder &builder, const Statement &s) {
  std::string_view op = s.parts[0];
  if (op == "dp4a")
    return decodeDot(builder, s);
  for (const Row &row : kRows) {
    if (row.name != op)
      continue;
    builder.expect(row.sources + 1);
    builder.allow({"l", "r", "wrap", "clamp", "shiftamt"});
    Type type = s.type();
    bool wide = bytesOf(type) == 8;
    if (bytesOf(type) < 4 || isFloat(type))
      builder.fail("this type is not supported here");
    int32_t sources[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < row.sources; ++i)
      sources[i] = builder.source(s.operands[i + 1], Type::B64);
    Handler handler = isSigned(type) ? (wide ? row.signed64 : row.signed32) : (wide ? row.unsigned64 : row.unsigned32);
    int32_t flags = op == "shf"     ? (s.has("r") ? 1 : 0) | (s.has("clamp") ? 2 : 0)
                    : op == "bfind" ? s.has("shiftamt")
                                    : sources[3];
    builder.emit(handler, builder.destination(s.operands[0]), sources[0], sources[1], sources[2], flags);
    return true;
  }
  return false;
}

} // namespace kerf::standin::ptx
