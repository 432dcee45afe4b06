// SPDX-License-Identifier: Apache-2.0
// Loads, stores and moves.
#include "PtxAddress.h"
#include "PtxText.h"

#include <algorithm>
#include <chrono>

namespace kerf::standin::ptx {

namespace {

KERF_INLINE void copy(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a]; }

KERF_INLINE void invert(const Inst &inst, uint64_t *r) { r[inst.d] = ~r[inst.a] & 1; }

template <FixedSlot base> KERF_INLINE void addToBase(const Inst &inst, uint64_t *r) {
  r[inst.d] = r[base] + uint64_t(int64_t(inst.a));
}

} // namespace

const Handler copySlot = lanewise<copy>();
const Handler notPredicate = lanewise<invert>();
const Handler addressOfLocal = lanewise<addToBase<kLocalBase>>();
const Handler addressOfDynamicShared = lanewise<addToBase<kDynamicShared>>();

namespace {

/// The access of a load or store: address in slot `a` plus `e`, space in `b`.
KERF_INLINE Access accessOf(const Inst *inst, size_t bytes, bool isStore) {
  return {inst, inst->a, uint64_t(int64_t(inst->e)), bytes, Space(inst->b), isStore};
}

/// Loads N elements to slot `d`, or to the slots of the list.
template <class T, int N> KERF_INLINE const Inst *load(const Inst *inst, Warp &warp) {
  int32_t slots[N] = {inst->d};
  if constexpr (N > 1)
    std::copy_n(inst->list, N, slots);
  uint64_t *r = warp.r;
  forEachAddress(accessOf(inst, sizeof(T) * N, false), warp, [&](int lane, const std::byte *from) {
    T values[N];
    std::memcpy(values, from, sizeof values);
    for (int i = 0; i < N; ++i)
      r[slots[i] + lane] = uint64_t(int64_t(values[i]));
  });
  return inst + 1;
}

template <class T, int N> KERF_INLINE const Inst *store(const Inst *inst, Warp &warp) {
  int32_t slots[N] = {inst->d};
  if constexpr (N > 1)
    std::copy_n(inst->list, N, slots);
  uint64_t *r = warp.r;
  forEachAddress(accessOf(inst, sizeof(T) * N, true), warp, [&](int lane, std::byte *to) {
    T values[N];
    for (int i = 0; i < N; ++i)
      values[i] = T(r[slots[i] + lane]);
    std::memcpy(to, values, sizeof values);
  });
  return inst + 1;
}

template <int N> Handler loadOf(Type type) {
  switch (type) {
  case Type::S8:
    return chosen<load<int8_t, N>>();
  case Type::S16:
    return chosen<load<int16_t, N>>();
  case Type::S32:
    return chosen<load<int32_t, N>>();
  default:
    break;
  }
  switch (bytesOf(type)) {
  case 1:
    return chosen<load<uint8_t, N>>();
  case 2:
    return chosen<load<uint16_t, N>>();
  case 4:
    return chosen<load<uint32_t, N>>();
  default:
    return chosen<load<uint64_t, N>>();
  }
}

template <int N> Handler storeOf(Type type) {
  switch (bytesOf(type)) {
  case 1:
    return chosen<store<uint8_t, N>>();
  case 2:
    return chosen<store<uint16_t, N>>();
  case 4:
    return chosen<store<uint32_t, N>>();
  default:
    return chosen<store<uint64_t, N>>();
  }
}

bool decodeLoadStore(Builder &builder, const Statement &s) {
  bool isLoad = s.parts[0] != "st";
  Space space = Space::Generic;
  size_t elements = 1;
  for (size_t i = 1; i < s.parts.size(); ++i) {
    std::string_view part = s.parts[i];
    if (part == "global" || part == "const")
      space = Space::Global;
    else if (part == "shared" || part == "shared::cta")
      space = Space::Shared;
    else if (part == "local")
      space = Space::Local;
    else if (part == "param" || part == "param::entry" || part == "param::func")
      space = Space::Param;
    else if (part == "v2" || part == "v4" || part == "v8")
      elements = size_t(part[1] - '0');
    else if (typeOf(part) == Type::None && !isMemoryQualifier(part))
      builder.fail("`." + std::string(part) + "` is not supported");
  }
  builder.expect(2);
  Type type = s.type();
  if (type == Type::None || type == Type::Pred)
    builder.fail("has no type that can be loaded or stored");
  int32_t offset = 0;
  int32_t base = builder.address(s.operands[isLoad ? 1 : 0], &offset, &space);
  const Operand &data = s.operands[isLoad ? 0 : 1];
  bool isVector = data.kind == Operand::Kind::Vector;
  if (elements != (isVector ? data.parts.size() : 1))
    builder.fail("the number of registers does not match the vector");
  auto slotOf = [&](const Operand &operand) {
    return isLoad ? builder.destination(operand) : builder.source(operand, type);
  };
  std::vector<int32_t> slots;
  for (const Operand &part : isVector ? data.parts : std::vector<Operand>{data})
    slots.push_back(slotOf(part));
  Handler handler = elements == 1   ? (isLoad ? loadOf<1>(type) : storeOf<1>(type))
                    : elements == 2 ? (isLoad ? loadOf<2>(type) : storeOf<2>(type))
                    : elements == 4 ? (isLoad ? loadOf<4>(type) : storeOf<4>(type))
                                    : (isLoad ? loadOf<8>(type) : storeOf<8>(type));
  Inst &inst = builder.emit(handler, slots[0], base, int32_t(space), 0, offset);
  inst.list = builder.list(std::move(slots));
  return true;
}

/// Joins N narrow sources of the list to one slot; field `b` is the width of one in bits.
template <int N> KERF_INLINE void pack(const Inst &inst, uint64_t *r) {
  uint64_t value = 0;
  for (int i = 0; i < N; ++i)
    value |= (r[inst.list[i]] & ((uint64_t(1) << inst.b) - 1)) << (i * inst.b);
  r[inst.d] = value;
}

template <int N> KERF_INLINE void unpack(const Inst &inst, uint64_t *r) {
  uint64_t value = r[inst.a];
  for (int i = 0; i < N; ++i)
    r[inst.list[i]] = (value >> (i * inst.b)) & ((uint64_t(1) << inst.b) - 1);
}

Handler packOf(size_t count) {
  return count == 2 ? lanewise<pack<2>>() : count == 4 ? lanewise<pack<4>>() : lanewise<pack<8>>();
}
Handler unpackOf(size_t count) {
  return count == 2 ? lanewise<unpack<2>>() : count == 4 ? lanewise<unpack<4>>() : lanewise<unpack<8>>();
}

KERF_INLINE void readClock(const Inst &inst, uint64_t *r) {
  r[inst.d] = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// Adds field `e` as the high byte of a window, or removes it.
KERF_INLINE void toWindow(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a] | (uint64_t(uint32_t(inst.e)) << 56); }

KERF_INLINE void fromWindow(const Inst &inst, uint64_t *r) { r[inst.d] = r[inst.a] & ~(0xFFull << 56); }

KERF_INLINE void isInWindow(const Inst &inst, uint64_t *r) {
  uint32_t window = uint32_t(r[inst.a] >> 56);
  bool isGlobal = window < (kSharedWindow >> 56) || window > (kCodeWindow >> 56);
  r[inst.d] = inst.e ? window == uint32_t(inst.e) : isGlobal;
}

bool decodeMov(Builder &builder, const Statement &s) {
  builder.expect(2);
  builder.allow({});
  Type type = s.type();
  const Operand &to = s.operands[0], &from = s.operands[1];
  if (to.kind == Operand::Kind::Vector || from.kind == Operand::Kind::Vector) {
    bool packs = from.kind == Operand::Kind::Vector;
    const auto &parts = packs ? from.parts : to.parts;
    int32_t bits = int32_t(8 * bytesOf(type) / std::max<size_t>(parts.size(), 1));
    std::vector<int32_t> slots;
    for (const Operand &part : parts)
      slots.push_back(packs ? builder.source(part, Type::B32) : builder.destination(part));
    size_t count = slots.size();
    if ((count != 2 && count != 4 && count != 8) || bits < 8)
      builder.fail("cannot pack or unpack this");
    Inst &inst = packs ? builder.emit(packOf(count), builder.destination(to), 0, bits)
                       : builder.emit(unpackOf(count), 0, builder.source(from, type), bits);
    inst.list = builder.list(std::move(slots));
    return true;
  }
  int32_t d = builder.destination(to);
  if (from.name == "%clock64" || from.name == "%clock" || from.name == "%globaltimer" || from.name == "%clock_hi" ||
      from.name == "%globaltimer_lo")
    builder.emit(lanewise<readClock>(), d);
  else
    builder.emit(copySlot, d, builder.source(from, type));
  return true;
}

uint64_t windowOf(const Statement &s) {
  return s.has("shared") || s.has("shared::cta") ? kSharedWindow >> 56 : s.has("local") ? kLocalWindow >> 56 : 0;
}

} // namespace

bool decodeMemory(Builder &builder, const Statement &s) {
  return (s.parts[0] == "ld" || s.parts[0] == "ldu" || s.parts[0] == "st") && decodeLoadStore(builder, s);
}

bool decodeMove(Builder &builder, const Statement &s) {
  if (s.parts[0] == "mov")
    return decodeMov(builder, s);
  if (s.parts[0] != "cvta" && s.parts[0] != "isspacep")
    return false;
  builder.expect(2);
  builder.allow({"to", "global", "const", "param", "param::entry", "shared", "shared::cta", "local"});
  int32_t d = builder.destination(s.operands[0]), a = builder.source(s.operands[1], Type::U64);
  uint64_t window = windowOf(s);
  if (s.parts[0] == "isspacep") {
    bool isParameter = s.has("param") || s.has("param::entry");
    builder.emit(lanewise<isInWindow>(), d, a, 0, 0, int32_t(isParameter ? kParamWindow >> 56 : window));
  } else if (window == 0) {
    builder.emit(copySlot, d, a);
  } else {
    builder.emit(s.has("to") ? lanewise<fromWindow>() : lanewise<toWindow>(), d, a, 0, 0, int32_t(window));
  }
  return true;
}

} // namespace kerf::standin::ptx
