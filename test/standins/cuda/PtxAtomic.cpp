// SPDX-License-Identifier: Apache-2.0
// Atomic operations. They are atomic on the host too, because kernels of several streams run at the same time.
#include "PtxAddress.h"
#include "PtxText.h"

namespace kerf::standin::ptx {

namespace {

// Each operation computes the new value from the old one and the operands, as bits of the width W.
struct Exchange {
  template <class W> static W of(W, W b, W) { return b; }
};
struct CompareAndSwap {
  template <class W> static W of(W old, W b, W c) { return old == b ? c : old; }
};
struct And {
  template <class W> static W of(W old, W b, W) { return old & b; }
};
struct Or {
  template <class W> static W of(W old, W b, W) { return old | b; }
};
struct Xor {
  template <class W> static W of(W old, W b, W) { return old ^ b; }
};
struct Add {
  template <class W> static W of(W old, W b, W) { return W(old + b); }
};
struct Increment {
  template <class W> static W of(W old, W b, W) { return old >= b ? W(0) : W(old + 1); }
};
struct Decrement {
  template <class W> static W of(W old, W b, W) { return old == 0 || old > b ? b : W(old - 1); }
};
template <class T> struct Min {
  template <class W> static W of(W old, W b, W) { return T(b) < T(old) ? b : old; }
};
template <class T> struct Max {
  template <class W> static W of(W old, W b, W) { return T(old) < T(b) ? b : old; }
};
template <class T> struct AddFloat {
  template <class W> static W of(W old, W b, W) { return W(putResult<T>(get<T>(old) + get<T>(b))); }
};
struct AddHalf {
  static uint16_t one(uint16_t a, uint16_t b) {
    return uint16_t(encodeFloat(double(halfToFloat(a)) + halfToFloat(b), 5, 10, Rounding::NearestEven));
  }
  template <class W> static W of(W old, W b, W) {
    W result = one(uint16_t(old), uint16_t(b));
    if constexpr (sizeof(W) == 4)
      result |= W(one(uint16_t(old >> 16), uint16_t(b >> 16))) << 16;
    return result;
  }
};
struct AddBfloat {
  static uint16_t one(uint16_t a, uint16_t b) {
    // The double's own rounding cannot matter: a sum that is inexact there is far from a tie in bf16, or one addend
    // is below its last place by more than 45 bits, which a tie of two bf16 numbers cannot be.
    return uint16_t(encodeFloat(double(bfloatToFloat(a)) + bfloatToFloat(b), 8, 7, Rounding::NearestEven));
  }
  template <class W> static W of(W old, W b, W) {
    W result = one(uint16_t(old), uint16_t(b));
    if constexpr (sizeof(W) == 4)
      result |= W(one(uint16_t(old >> 16), uint16_t(b >> 16))) << 16;
    return result;
  }
};

/// Address in slot `a` plus `e`; operands in the list: operand slot, second operand slot, space.
template <class W, class Op> const Inst *atomic(const Inst *inst, Warp &warp) {
  const Access access = {inst, inst->a, uint64_t(int64_t(inst->e)), sizeof(W), Space(inst->list[2]), false};
  forEachAddress(access, warp, [&](int lane, std::byte *at) {
    uint64_t *r = warp.r + lane;
    W *word = reinterpret_cast<W *>(at);
    W b = W(r[inst->list[0]]), c = W(r[inst->list[1]]);
    W old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(word, &old, Op::template of<W>(old, b, c), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
    r[inst->d] = old;
  });
  return inst + 1;
}

template <class Op> Handler bitsOf(Type type) {
  switch (bytesOf(type)) {
  case 2:
    return atomic<uint16_t, Op>;
  case 4:
    return atomic<uint32_t, Op>;
  case 8:
    return atomic<uint64_t, Op>;
  default:
    return nullptr;
  }
}

Handler addOf(Type type) {
  switch (type) {
  case Type::F16:
    return atomic<uint16_t, AddHalf>;
  case Type::F16x2:
    return atomic<uint32_t, AddHalf>;
  case Type::BF16:
    return atomic<uint16_t, AddBfloat>;
  case Type::BF16x2:
    return atomic<uint32_t, AddBfloat>;
  case Type::F32:
    return atomic<uint32_t, AddFloat<float>>;
  case Type::F64:
    return atomic<uint64_t, AddFloat<double>>;
  default:
    return bytesOf(type) >= 4 ? bitsOf<Add>(type) : nullptr;
  }
}

template <template <class> class Op> Handler orderOf(Type type) {
  switch (type) {
  case Type::U32:
    return atomic<uint32_t, Op<uint32_t>>;
  case Type::S32:
    return atomic<uint32_t, Op<int32_t>>;
  case Type::U64:
    return atomic<uint64_t, Op<uint64_t>>;
  case Type::S64:
    return atomic<uint64_t, Op<int64_t>>;
  default:
    return nullptr;
  }
}

struct Row {
  std::string_view name;
  Handler (*handler)(Type);
};
constexpr Row kRows[] = {
    {"add", addOf},
    {"min", orderOf<Min>},
    {"max", orderOf<Max>},
    {"exch", bitsOf<Exchange>},
    {"cas", bitsOf<CompareAndSwap>},
    {"inc", bitsOf<Increment>},
    {"dec", bitsOf<Decrement>},
    {"and", bitsOf<And>},
    {"or", bitsOf<Or>},
    {"xor", bitsOf<Xor>},
};

} // namespace

bool decodeAtomic(Builder &builder, const Statement &s) {
  if (s.parts[0] != "atom" && s.parts[0] != "red")
    return false;
  bool returns = s.parts[0] == "atom";
  Space space = Space::Generic;
  const Row *found = nullptr;
  for (size_t i = 1; i < s.parts.size(); ++i) {
    std::string_view part = s.parts[i];
    const Row *row = nullptr;
    for (const Row &candidate : kRows)
      if (candidate.name == part)
        row = &candidate;
    if (row)
      found = row;
    else if (part == "global")
      space = Space::Global;
    else if (part == "shared" || part == "shared::cta")
      space = Space::Shared;
    else if (part != "noftz" && typeOf(part) == Type::None && !isMemoryQualifier(part))
      builder.fail("`." + std::string(part) + "` is not supported");
  }
  if (!found)
    builder.fail("unknown operation");
  size_t at = returns ? 1 : 0;
  bool swaps = found->name == "cas";
  builder.expect(at + (swaps ? 3 : 2));
  Type type = s.type();
  int32_t offset = 0;
  int32_t d = returns ? builder.destination(s.operands[0]) : builder.newSlot();
  int32_t a = builder.address(s.operands[at], &offset, &space);
  int32_t b = builder.source(s.operands[at + 1], type);
  int32_t c = swaps ? builder.source(s.operands[at + 2], type) : kZero;
  builder.emit(found->handler(type), d, a, 0, 0, offset).list = builder.list({b, c, int32_t(space)});
  return true;
}

} // namespace kerf::standin::ptx
