// SPDX-License-Identifier: Apache-2.0
// A row is computed in stages. A stage first computes the elements of the row (one for each row) that depend on the
// reductions of the stages before it, then packs and unpacks bytes, and then loops over the row's elements in full
// vectors, in which its own reductions combine them. Values that a later stage or a packing reads are kept on the
// stack, in the first-level cache. Only the last stage stores rows of results, after all reads of their elements, so
// that they may overwrite arguments. A reduction combines elements in the order of the runtime's op `reduce`.
#include "RowKernelIr.h"
#include "LoopIr.h"

#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <map>

using namespace mlir;

namespace kerf::codegen {

namespace {
using package::Instruction;
using package::RowRole;

constexpr int64_t kMostBytes = 64;  // bytes that are packed at a time: one AVX-512 register
constexpr int64_t kBytesOfWord = 4; // bytes are packed as parts of 32-bit words

class RowKernelBuilder : LoopIr {
public:
  RowKernelBuilder(ModuleOp module, const package::Function &function, const package::KernelSpace &space)
      : LoopIr(module), function(function), space(space), makers(function.values.size(), nullptr),
        stages(function.values.size(), 0) {}

  void run() {
    plan();
    ValueRange given = beginKernel(function.name);
    loadPointers(given[0]);
    loop(given[2], given[3], 1, [&](Value row) { buildRow(row); });
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

private:
  // The stages.

  DType dtypeOf(int value) const { return function.values[size_t(value)].dtype; }
  RowRole roleOf(int value) const { return space.roles[size_t(value)]; }
  const Instruction *makerOf(int value) const { return makers[size_t(value)]; }
  bool isMadeBy(int value, std::string_view op) const { return makerOf(value) && makerOf(value)->op == op; }
  bool isReduced(int value) const { return isMadeBy(value, "reduce"); }
  static bool isPacking(const Instruction &instruction) {
    return instruction.op == "pack" || instruction.op == "unpack";
  }
  /// Returns whether the value is read or computed anew by each use: arguments, constants and broadcasts.
  bool isFree(int value) const {
    return !makerOf(value) || isMadeBy(value, "constant") || isMadeBy(value, "broadcast_in_dim");
  }
  bool isResult(int value) const {
    return std::find(function.results.begin(), function.results.end(), value) != function.results.end();
  }

  void plan() {
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      makers[size_t(result)] = &instruction;
      int &stage = stages[size_t(result)];
      for (int operand : instruction.operands)
        stage = std::max(stage, stages[size_t(operand)] + (isReduced(operand) && instruction.op != "reduce"));
      stage +=
          instruction.op == "pack" && !isFree(instruction.operands[0]) && !isMadeBy(instruction.operands[0], "unpack");
      last = std::max(last, stage);
    }
    for (const Instruction &instruction : function.body)
      for (int operand : instruction.operands)
        if (roleOf(operand) == RowRole::Row && !isPlaced(operand) &&
            (instruction.op == "pack" || (!isFree(operand) && stages[size_t(operand)] < stageOf(instruction))))
          kept.insert({operand, stages[size_t(operand)]});
    for (int result : function.results)
      if (roleOf(result) == RowRole::Row && !isFree(result) && !isPlaced(result) && stages[size_t(result)] < last)
        kept.insert({result, stages[size_t(result)]});
  }
  int stageOf(const Instruction &instruction) const { return stages[size_t(instruction.results[0])]; }
  /// Returns whether a row of the value lies in memory without a loop over elements that puts it there.
  bool isPlaced(int value) const { return !makerOf(value) || isPacking(*makerOf(value)); }

  // Arguments and results.

  struct Buffer {
    Value data, rowStride;
  };

  void loadPointers(Value table) {
    auto buffer = [&](size_t index) {
      auto load = [&](Type type, size_t word) -> Value {
        return LLVM::LoadOp::create(builder, loc, type, at(table, pointer, integer(int64_t(word))));
      };
      return Buffer{load(pointer, 2 * index), load(i64, 2 * index + 1)};
    };
    for (size_t i = 0; i < function.args.size(); ++i)
      arguments[function.args[i]] = buffer(i);
    for (size_t r = 0; r < function.results.size(); ++r)
      results.push_back(buffer(function.args.size() + r));
    auto reserve = [&](int value) {
      if (!blocks.count(value))
        blocks[value] = LLVM::AllocaOp::create(builder, loc, pointer, ops.memoryType(dtypeOf(value)),
                                               integer(function.values[size_t(value)].shape[1]), kStackAlignment);
    };
    for (auto &[value, stage] : kept)
      reserve(value);
    for (const Instruction &instruction : function.body)
      if (isPacking(instruction))
        reserve(instruction.results[0]);
  }

  // A row.

  void buildRow(Value row) {
    rowStart = product(row, space.columns());
    scalars.clear();
    rows = blocks;
    for (auto &[value, buffer] : arguments) {
      Type element = ops.memoryType(dtypeOf(value));
      Value address = at(buffer.data, element, arith::MulIOp::create(builder, loc, row, buffer.rowStride));
      if (roleOf(value) == RowRole::One || roleOf(value) == RowRole::PerRow)
        scalars[value] = ops.toRegister(loadRaw(element, address, 1), dtypeOf(value));
      else
        rows[value] = address;
    }
    stored.clear();
    for (auto [result, buffer] : llvm::zip(function.results, results)) {
      Value offset = arith::MulIOp::create(builder, loc, row, buffer.rowStride);
      stored.push_back(at(buffer.data, ops.memoryType(dtypeOf(result)), offset));
      if (roleOf(result) == RowRole::Packed)
        rows[result] = stored.back(); // bytes are packed where the result is wanted
    }
    for (int stage = 0; stage <= last; ++stage) {
      for (const Instruction &instruction : function.body)
        if (stageOf(instruction) == stage)
          beforeElements(instruction);
      buildElements(stage);
    }
    for (auto [result, address] : llvm::zip(function.results, stored))
      if (roleOf(result) == RowRole::PerRow)
        storeRaw(ops.toMemory(scalars.at(result), dtypeOf(result)), address);
  }

  /// Generates what an instruction does before the loop over elements of its stage.
  void beforeElements(const Instruction &instruction) {
    int result = instruction.results[0];
    if (isPacking(instruction))
      return instruction.op == "pack" ? pack(instruction) : unpack(instruction);
    if (roleOf(result) != RowRole::PerRow || isReduced(result) || isFree(result))
      return;
    SmallVector<Value> x;
    for (int operand : instruction.operands)
      x.push_back(scalarOf(operand));
    scalars[result] = ops.rounded(ops.compute(instruction, x, ops.registerType(dtypeOf(result))), dtypeOf(result));
  }

  Value constantOf(const Instruction &constant, DType dtype, int64_t lanes) {
    const auto &list = constant.attrs["value"];
    double number = list.empty() ? 0 : package::parseNumber(list[0]).value_or(0);
    return ops.constant(vectorType(ops.registerType(dtype), lanes), dtype, number);
  }
  /// Returns a value of which a row has one element.
  Value scalarOf(int value) {
    if (auto found = scalars.find(value); found != scalars.end())
      return found->second;
    return isMadeBy(value, "constant") ? constantOf(*makerOf(value), dtypeOf(value), 1)
                                       : scalarOf(makerOf(value)->operands[0]);
  }

  // Bytes.

  /// Calls `part` in a loop over the bytes of a packed row with an index and a number of bytes, a multiple of a word's.
  template <typename F> void forBytes(const Instruction &packing, int packed, F &&part) {
    const int64_t bits = packing.attrs["bits"].get<int64_t>(), width = function.values[size_t(packed)].shape[1];
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
  Value wordsAt(Value row, Value index, Type words) {
    return LLVM::LoadOp::create(builder, loc, words, at(row, builder.getI8Type(), index), 1);
  }
  void storeWords(Value value, Value row, Value index) {
    LLVM::StoreOp::create(builder, loc, value, at(row, builder.getI8Type(), index), 1);
  }

  void pack(const Instruction &instruction) {
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
  void unpack(const Instruction &instruction) {
    Value packed = rows.at(instruction.operands[0]), codes = rows.at(instruction.results[0]), all;
    forBytes(instruction, instruction.operands[0],
             [&](Value from, Value to, Type words, Value mask, Value shift, bool isFirst, bool) {
               all = isFirst ? wordsAt(packed, from, words) : all;
               Value part = arith::ShRUIOp::create(builder, loc, all, shift);
               storeWords(arith::AndIOp::create(builder, loc, part, mask), codes, to);
             });
  }

  // Elements.

  /// Generates the loop over the elements of a row in one stage, and completes the stage's reductions.
  void buildElements(int stage) {
    SmallVector<int> reduced;
    SmallVector<Value> begin;
    for (const Instruction &instruction : function.body)
      if (instruction.op == "reduce" && stageOf(instruction) == stage) {
        reduced.push_back(instruction.results[0]);
        Type element = instruction.attrs["kind"] == "sum" ? Type(builder.getF64Type()) : builder.getF32Type();
        begin.push_back(ops.neutral(instruction, vectorType(element, kLanes)));
      }
    bool keeps = std::any_of(kept.begin(), kept.end(), [&](const auto &one) { return one.second == stage; });
    bool stores = stage == last && std::any_of(function.results.begin(), function.results.end(),
                                               [&](int result) { return roleOf(result) == RowRole::Row; });
    if (reduced.empty() && !keeps && !stores)
      return;
    auto elements =
        scf::ForOp::create(builder, loc, integer(0), integer(space.columns()), integer(kLanes), ValueRange(begin));
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(elements.getBody());
      index = elements.getInductionVar();
      known.clear();
      SmallVector<Value> running;
      for (auto [result, sofar] : llvm::zip(reduced, elements.getRegionIterArgs()))
        running.push_back(ops.combine(*makerOf(result), sofar, read(makerOf(result)->operands[0], stage)));
      for (auto &[value, keptIn] : kept)
        if (keptIn == stage)
          storeRaw(ops.toMemory(read(value, stage), dtypeOf(value)),
                   at(rows.at(value), ops.memoryType(dtypeOf(value)), index));
      if (stores)
        storeResults(stage);
      if (!begin.empty())
        scf::YieldOp::create(builder, loc, running);
    }
    for (auto [result, lanes] : llvm::zip(reduced, elements.getResults()))
      scalars[result] = combinedLanes(*makerOf(result), lanes);
  }

  void storeResults(int stage) {
    SmallVector<std::pair<Value, Value>> made;
    for (auto [result, address] : llvm::zip(function.results, stored))
      if (roleOf(result) == RowRole::Row)
        made.push_back(
            {ops.toMemory(read(result, stage), dtypeOf(result)), at(address, ops.memoryType(dtypeOf(result)), index)});
    for (auto [value, address] : made)
      storeRaw(value, address);
  }

  /// Combines the lanes of a row as the runtime does. The order matters for sums. The largest or smallest lane is found
  /// in pairs of neighbours, which gives the same bits: of equal numbers the later one counts, and of NaNs the first.
  Value combinedLanes(const Instruction &reduce, Value lanes) {
    Value result = ops.neutral(reduce, getElementTypeOrSelf(lanes.getType()));
    auto lane = [&](int64_t number) -> Value {
      return vector::ExtractOp::create(builder, loc, lanes, ArrayRef<int64_t>{number});
    };
    if (reduce.attrs["kind"] == "sum") {
      Value all = lane(0);
      for (int64_t number = 1; number < kLanes; ++number)
        all = ops.combine(reduce, all, lane(number));
      return arith::TruncFOp::create(builder, loc, builder.getF32Type(), ops.combine(reduce, result, all));
    }
    for (int64_t width = kLanes; width > 1; width /= 2) {
      SmallVector<int64_t> even, odd;
      for (int64_t number = 0; number < width; number += 2) {
        even.push_back(number);
        odd.push_back(number + 1);
      }
      auto half = [&](ArrayRef<int64_t> which) -> Value {
        return vector::ShuffleOp::create(builder, loc, lanes, lanes, which);
      };
      lanes = ops.combine(reduce, half(even), half(odd));
    }
    return ops.combine(reduce, result, lane(0));
  }

  /// Returns kLanes elements of a value that has a row, in a stage.
  Value read(int value, int stage) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    Value made = readAnew(value, stage);
    known[value] = made;
    return made;
  }

  Value readAnew(int value, int stage) {
    DType dtype = dtypeOf(value);
    Type type = vectorType(ops.registerType(dtype), kLanes);
    const Instruction *maker = makerOf(value);
    if (isPlaced(value) || (stages[size_t(value)] < stage && kept.count(value))) {
      Type element = ops.memoryType(dtype);
      return ops.toRegister(loadRaw(element, at(rows.at(value), element, index), kLanes), dtype);
    }
    if (maker->op == "constant")
      return constantOf(*maker, dtype, kLanes);
    if (maker->op == "broadcast_in_dim")
      return vector::BroadcastOp::create(builder, loc, type, scalarOf(maker->operands[0]));
    SmallVector<Value> x;
    for (int operand : maker->operands)
      x.push_back(read(operand, stage));
    if (maker->op == kRandom)
      return ops.random(x[0], indices(sum(rowStart, index), kLanes));
    return ops.rounded(ops.compute(*maker, x, type), dtype);
  }

  const package::Function &function;
  const package::KernelSpace &space;
  std::vector<const Instruction *> makers; // for each value: the instruction that computes it; null for arguments
  std::vector<int> stages;                 // for each value: the stage that computes it
  int last = 0;                            // the last stage
  std::map<int, int> kept;                 // value whose rows are kept on the stack -> the stage that stores them
  std::map<int, Buffer> arguments;
  std::vector<Buffer> results;
  std::map<int, Value> blocks;      // addresses on the stack
  std::map<int, Value> rows;        // addresses of the current row of values in memory
  std::map<int, Value> scalars;     // values of which the current row has one element
  std::vector<Value> stored;        // for each result: the address of the current row
  llvm::DenseMap<int, Value> known; // values of the current elements
  Value rowStart, index;            // the row-major index of the row's first element; the current column
};
} // namespace

void buildRowKernel(ModuleOp module, const package::Function &function, const package::KernelSpace &space) {
  RowKernelBuilder(module, function, space).run();
}

} // namespace kerf::codegen
