// SPDX-License-Identifier: Apache-2.0
#include "RowOpIr.h"

using namespace mlir;

namespace kerf::codegen {

namespace {
constexpr int64_t kMostBytes = 64;  // bytes that are packed at a time: one AVX-512 register
constexpr int64_t kBytesOfWord = 4; // bytes are packed as parts of 32-bit words
constexpr int64_t kMostStride = 8;  // elements are read in full vectors for strides up to this one
} // namespace

void RowOpIr::buildRowOp(const Instruction &instruction) {
  static constexpr struct {
    std::string_view op;
    void (RowOpIr::*build)(const Instruction &);
  } kBuilders[] = {{"pack", &RowOpIr::pack},
                   {"unpack", &RowOpIr::unpack},
                   {"slice", &RowOpIr::slice},
                   {"top_k", &RowOpIr::pickLargest},
                   {"take_along", &RowOpIr::takeAlong},
                   {"take_along_backward", &RowOpIr::spreadAlong}};
  for (const auto &[op, build] : kBuilders)
    if (instruction.op == op)
      (this->*build)(instruction);
}

/// Calls `part` in a loop over the bytes of a packed row with an index and a number of bytes, a multiple of a word's.
template <typename F> void RowOpIr::forBytes(const Instruction &packing, int packed, F &&part) {
  const int64_t bits = packing.attrs["bits"].get<int64_t>(), width = widthOf(packed);
  int64_t bytes = kMostBytes;
  while (width % bytes != 0)
    bytes /= 2;
  Type words = vectorType(builder.getI32Type(), bytes / kBytesOfWord);
  Value mask = ops.integerConstant(words, ((uint64_t(1) << bits) - 1) * 0x01010101u);
  loop(integer(0), integer(width), bytes, [&](Value index) {
    auto shift = [&](int64_t element) { return ops.integerConstant(words, uint64_t(element * bits)); };
    for (int64_t element = 0; element < 8 / bits; ++element)
      part(index, sum(index, integer(element * width)), words, mask, shift(element), element == 0,
           element + 1 == 8 / bits);
  });
}
RowOpIr::Value RowOpIr::wordsAt(Value row, Value index, Type words) {
  return LLVM::LoadOp::create(builder, loc, words, at(row, builder.getI8Type(), index), 1);
}
void RowOpIr::storeWords(Value value, Value row, Value index) {
  LLVM::StoreOp::create(builder, loc, value, at(row, builder.getI8Type(), index), 1);
}

void RowOpIr::pack(const Instruction &instruction) {
  Value codes = rows.at(instruction.operands[0]), packed = rows.at(instruction.results[0]), all;
  forBytes(instruction, instruction.results[0],
           [&](Value to, Value from, Type words, Value mask, Value shift, bool isFirst, bool isLast) {
             Value part = arith::AndIOp::create(builder, loc, wordsAt(codes, from, words), mask);
             part = arith::ShLIOp::create(builder, loc, part, shift);
             all = isFirst ? part : arith::OrIOp::create(builder, loc, all, part).getResult();
             if (isLast)
               storeWords(all, packed, to);
           });
}
void RowOpIr::unpack(const Instruction &instruction) {
  Value packed = rows.at(instruction.operands[0]), codes = rows.at(instruction.results[0]), all;
  forBytes(instruction, instruction.operands[0],
           [&](Value from, Value to, Type words, Value mask, Value shift, bool isFirst, bool) {
             all = isFirst ? wordsAt(packed, from, words) : all;
             Value part = arith::ShRUIOp::create(builder, loc, all, shift);
             storeWords(arith::AndIOp::create(builder, loc, part, mask), codes, to);
           });
}

void RowOpIr::slice(const Instruction &instruction) {
  const int from = instruction.operands[0], to = instruction.results[0];
  const int64_t start = instruction.attrs["start"][1].get<int64_t>(),
                stride = instruction.attrs["strides"][1].get<int64_t>(), width = widthOf(to);
  Type element = ops.memoryType(dtypeOf(from));
  Value source = at(rows.at(from), element, integer(start)), target = rows.at(to);
  // Full vectors may read up to stride - 1 elements after the last one.
  const bool fits = stride <= kMostStride && start + width / kLanes * kLanes * stride <= widthOf(from);
  const int64_t whole = fits ? width / kLanes * kLanes : 0;
  SmallVector<int64_t> which;
  for (int64_t lane = 0; lane < kLanes; ++lane)
    which.push_back(lane * stride);
  loop(integer(0), integer(whole), kLanes, [&](Value i) {
    Value all = loadRaw(element, at(source, element, product(i, stride)), kLanes * stride);
    storeRaw(vector::ShuffleOp::create(builder, loc, all, all, which), at(target, element, i));
  });
  loop(integer(whole), integer(width), 1, [&](Value i) {
    storeRaw(loadRaw(element, at(source, element, product(i, stride)), 1), at(target, element, i));
  });
}

void RowOpIr::pickLargest(const Instruction &instruction) {
  const int from = instruction.operands[0], to = instruction.results[0], places = instruction.results[1];
  SmallVector<Value> given{
      topK, rows.at(from), rows.at(to), rows.at(places), integer(widthOf(from)), integer(widthOf(to))};
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), {pointer, pointer, pointer, i64, i64});
  LLVM::CallOp::create(builder, loc, type, given);
}

/// Returns the place in a row of `width` elements that index number `i` names, and whether it is outside of the row.
/// Then the place is the first.
std::pair<RowOpIr::Value, RowOpIr::Value> RowOpIr::placeAt(int places, Value i, int64_t width) {
  Value given = loadRaw(builder.getI32Type(), at(rows.at(places), builder.getI32Type(), i), 1);
  Value place = arith::ExtSIOp::create(builder, loc, i64, given);
  Value isNegative = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, place, integer(0));
  place = arith::SelectOp::create(builder, loc, isNegative, sum(place, integer(width)), place);
  Value isOutside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, place, integer(width));
  return {arith::SelectOp::create(builder, loc, isOutside, integer(0), place), isOutside};
}

/// Calls `body` in a loop over indices, with the number of an index and the place in a row of `width` elements that it
/// names. An index outside of the row counts as wrong.
template <typename F> void RowOpIr::forPlaces(int places, int64_t width, F &&body) {
  loop(integer(0), integer(widthOf(places)), 1, [&](Value i) {
    auto [place, isOutside] = placeAt(places, i, width);
    Value sofar = LLVM::LoadOp::create(builder, loc, i64, wrong);
    LLVM::StoreOp::create(builder, loc, sum(sofar, arith::ExtUIOp::create(builder, loc, i64, isOutside)), wrong);
    body(i, place);
  });
}

void RowOpIr::takeAlong(const Instruction &instruction) {
  const int from = instruction.operands[0], to = instruction.results[0];
  Type element = ops.memoryType(dtypeOf(from));
  forPlaces(instruction.operands[1], widthOf(from), [&](Value i, Value place) {
    storeRaw(loadRaw(element, at(rows.at(from), element, place), 1), at(rows.at(to), element, i));
  });
}

void RowOpIr::clear(int value, Value address) {
  Type element = ops.memoryType(dtypeOf(value));
  const int64_t width = widthOf(value), whole = width / kLanes * kLanes;
  auto store = [&](int64_t begin, int64_t end, int64_t lanes) {
    Value zero = ops.constant(vectorType(element, lanes), dtypeOf(value), 0);
    loop(integer(begin), integer(end), lanes, [&](Value i) { storeRaw(zero, at(address, element, i)); });
  };
  store(0, whole, kLanes);
  store(whole, width, 1);
}

/// Adds elements to a row of zeros, as the gradient of a lookup does.
void RowOpIr::spreadAlong(const Instruction &instruction) {
  const int from = instruction.operands[1], to = instruction.results[0];
  Type element = ops.memoryType(dtypeOf(to));
  if (!zeros.count(to))
    clear(to, rows.at(to));
  forPlaces(instruction.operands[0], widthOf(to), [&](Value i, Value place) {
    Value address = at(rows.at(to), element, place);
    Value more = loadRaw(element, at(rows.at(from), element, i), 1);
    storeRaw(arith::AddFOp::create(builder, loc, loadRaw(element, address, 1), more), address);
  });
}

void RowOpIr::takeBack(const Instruction &instruction) {
  const int places = instruction.operands[0], to = instruction.results[0];
  Type element = ops.memoryType(dtypeOf(to));
  Value zero = ops.constant(element, dtypeOf(to), 0);
  loop(integer(0), integer(widthOf(places)), 1,
       [&](Value i) { storeRaw(zero, at(rows.at(to), element, placeAt(places, i, widthOf(to)).first)); });
}

} // namespace kerf::codegen
