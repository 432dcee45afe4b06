// SPDX-License-Identifier: Apache-2.0
// A row is computed in stages. A stage first computes the elements of the row (one for each row) that depend on the
// reductions of the stages before it, and runs the row ops: they pack and unpack bytes, slice, and choose and look up
// elements of a row in memory (RowOpIr.cpp). Then it loops over the row's elements in full vectors, in which its own
// reductions combine them, and over parts of the row, whose last elements may be fewer than a vector. Values that a
// later stage or a row op reads are kept on the stack, close to the processor. Only the last stage stores rows of
// results, after all reads of their elements, so that they may overwrite arguments. A reduction combines elements in
// the order of the runtime's op `reduce`.
#include "RowKernelIr.h"
#include "RowOpIr.h"

#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <map>

using namespace mlir;

namespace kerf::codegen {

namespace {
using package::Instruction;
using package::RowRole;

/// Clearing so many elements of a row, in full vectors, takes as long as storing one element somewhere in it.
constexpr int64_t kStoresOfClear = 4 * kLanes;

class RowKernelBuilder : RowOpIr {
public:
  RowKernelBuilder(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                   std::vector<std::string> &routines)
      : RowOpIr(module, function), space(space), routines(routines), makers(function.values.size(), nullptr),
        stages(function.values.size(), 0) {}

  void run() {
    plan();
    ValueRange given = beginKernel(function.name);
    loadPointers(given[0], given[1]);
    loop(given[2], given[3], 1, [&](Value row) { buildRow(row); });
    endKernel(LLVM::LoadOp::create(builder, loc, i64, wrong));
  }

private:
  // The stages.

  RowRole roleOf(int value) const { return space.roles[size_t(value)]; }
  bool hasRow(int value) const { return roleOf(value) == RowRole::Row || roleOf(value) == RowRole::Part; }
  const Instruction *makerOf(int value) const { return makers[size_t(value)]; }
  bool isMadeBy(int value, std::string_view op) const { return makerOf(value) && makerOf(value)->op == op; }
  bool isReduced(int value) const { return isMadeBy(value, "reduce"); }
  /// Returns whether the value is read or computed anew by each use: arguments, constants and broadcasts.
  bool isFree(int value) const {
    return !makerOf(value) || isMadeBy(value, "constant") || isMadeBy(value, "broadcast_in_dim");
  }
  bool isResult(int value) const {
    return std::find(function.results.begin(), function.results.end(), value) != function.results.end();
  }

  void plan() {
    for (const Instruction &instruction : function.body) {
      const bool rowOp = package::isRowOp(instruction);
      int stage = 0;
      for (int operand : instruction.operands) {
        const bool waits = rowOp ? !isPlaced(operand) : isReduced(operand) && instruction.op != "reduce";
        stage = std::max(stage, stages[size_t(operand)] + waits);
      }
      for (int result : instruction.results) {
        makers[size_t(result)] = &instruction;
        stages[size_t(result)] = stage;
      }
      last = std::max(last, stage);
    }
    for (const Instruction &instruction : function.body)
      for (int operand : instruction.operands)
        if (hasRow(operand) && !isPlaced(operand) &&
            (package::isRowOp(instruction) || (!isFree(operand) && stages[size_t(operand)] < stageOf(instruction))))
          kept.insert({operand, stages[size_t(operand)]});
    for (int result : function.results)
      if (hasRow(result) && !isFree(result) && !isPlaced(result) && stages[size_t(result)] < last)
        kept.insert({result, stages[size_t(result)]});
  }
  int stageOf(const Instruction &instruction) const { return stages[size_t(instruction.results[0])]; }
  /// Returns whether a row of the value lies in memory without a loop over elements that puts it there.
  bool isPlaced(int value) const {
    return !makerOf(value) || package::isRowOp(*makerOf(value)) || package::repeatsRow(function, *makerOf(value));
  }

  // Arguments and results.

  struct Buffer {
    Value data, rowStride;
  };

  void loadPointers(Value table, Value addresses) {
    auto load = [&](Value from, Type type, int64_t word) -> Value {
      return LLVM::LoadOp::create(builder, loc, type, at(from, pointer, integer(word)));
    };
    auto buffer = [&](size_t index) {
      return Buffer{load(table, pointer, int64_t(2 * index)), load(table, i64, int64_t(2 * index + 1))};
    };
    for (size_t i = 0; i < function.args.size(); ++i)
      arguments[function.args[i]] = buffer(i);
    for (size_t r = 0; r < function.results.size(); ++r)
      results.push_back(buffer(function.args.size() + r));
    auto reserve = [&](int value) {
      if (hasRow(value) && !blocks.count(value))
        blocks[value] = LLVM::AllocaOp::create(builder, loc, pointer, ops.memoryType(dtypeOf(value)),
                                               integer(llvm::alignTo(widthOf(value), kLanes)), kStackAlignment);
    };
    for (auto &[value, stage] : kept)
      reserve(value);
    for (const Instruction &instruction : function.body) {
      for (int result : instruction.results)
        if (package::isRowOp(instruction))
          reserve(result);
      if (instruction.op == "top_k" && !topK)
        topK = load(addresses, pointer, routineIndex(routines, routineName(instruction, DType::F32)));
    }
    // Where few elements are spread, it is faster to put zeros back after a row than to clear all of the row before.
    for (const Instruction &instruction : function.body)
      if (int to = instruction.results[0]; instruction.op == "take_along_backward" && !isStoredInPlace(to) &&
                                           kStoresOfClear * widthOf(instruction.operands[0]) <= widthOf(to)) {
        zeros.insert(to);
        clear(to, blocks.at(to));
      }
    wrong = LLVM::AllocaOp::create(builder, loc, pointer, i64, integer(1), kStackAlignment);
    LLVM::StoreOp::create(builder, loc, integer(0), wrong);
  }

  // A row.

  void buildRow(Value row) {
    this->row = row;
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
    for (const Instruction &instruction : function.body)
      if (package::repeatsRow(function, instruction))
        rows[instruction.results[0]] = rows.at(instruction.operands[0]);
    stored.clear();
    for (auto [result, buffer] : llvm::zip(function.results, results)) {
      Value offset = arith::MulIOp::create(builder, loc, row, buffer.rowStride);
      stored.push_back(at(buffer.data, ops.memoryType(dtypeOf(result)), offset));
      if (isStoredInPlace(result))
        rows[result] = stored.back();
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
    for (const Instruction &instruction : function.body)
      if (zeros.count(instruction.results[0]))
        takeBack(instruction);
  }
  /// Returns whether a row op writes the result where it is wanted: parts of rows share no memory with arguments.
  bool isStoredInPlace(int result) const {
    return roleOf(result) == RowRole::Part && isResult(result) && package::isRowOp(*makerOf(result));
  }

  /// Generates what an instruction does before the loop over elements of its stage.
  void beforeElements(const Instruction &instruction) {
    int result = instruction.results[0];
    if (roleOf(result) == RowRole::PerRow && package::isRowOp(instruction)) { // a reshape of one element
      Type element = ops.memoryType(dtypeOf(result));
      scalars[result] = ops.toRegister(loadRaw(element, rows.at(instruction.operands[0]), 1), dtypeOf(result));
      return;
    }
    if (package::isRowOp(instruction))
      return buildRowOp(instruction);
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

  // Elements.

  /// Generates the loops over the elements of a row and of its parts in one stage, and completes the stage's
  /// reductions.
  void buildElements(int stage) {
    std::map<int64_t, RowLoop> loops; // by the number of elements
    for (const Instruction &instruction : function.body)
      if (instruction.op == "reduce" && stageOf(instruction) == stage)
        loops[space.columns()].reduced.push_back(instruction.results[0]);
    for (auto &[value, keptIn] : kept)
      if (keptIn == stage)
        loops[widthOf(value)].kept.push_back(value);
    if (stage == last)
      for (auto [result, address] : llvm::zip(function.results, stored))
        if (hasRow(result) && !isStoredInPlace(result))
          loops[widthOf(result)].results.push_back({result, address});
    for (auto &[width, elements] : loops)
      buildLoop(elements, width, stage);
  }

  /// The values that a loop over elements reduces, those that it keeps on the stack, and the results that it stores.
  struct RowLoop {
    SmallVector<int> reduced, kept;
    SmallVector<std::pair<int, Value>> results;
  };

  void buildLoop(const RowLoop &elements, int64_t width, int stage) {
    SmallVector<Value> begin;
    for (int result : elements.reduced)
      begin.push_back(isCount(result) ? integer(0) : ops.neutral(*makerOf(result), lanesType(*makerOf(result))));
    const int64_t whole = width / kLanes * kLanes;
    auto vectors = scf::ForOp::create(builder, loc, integer(0), integer(whole), integer(kLanes), ValueRange(begin));
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(vectors.getBody());
      beginElements(vectors.getInductionVar(), kLanes);
      SmallVector<Value> running;
      for (auto [result, sofar] : llvm::zip(elements.reduced, vectors.getRegionIterArgs()))
        running.push_back(combined(result, sofar, stage));
      storeElements(elements, stage);
      if (!begin.empty())
        scf::YieldOp::create(builder, loc, running);
    }
    for (auto [result, lanes] : llvm::zip(elements.reduced, vectors.getResults()))
      scalars[result] = isCount(result) ? arith::SIToFPOp::create(builder, loc, builder.getF32Type(), lanes).getResult()
                                        : combinedLanes(*makerOf(result), lanes);
    if (whole < width)
      loop(integer(whole), integer(width), 1, [&](Value i) {
        beginElements(i, 1);
        storeElements(elements, stage);
      });
  }
  void beginElements(Value i, int64_t count) {
    index = i;
    lanes = count;
    known.clear();
  }

  void storeElements(const RowLoop &elements, int stage) {
    for (int value : elements.kept)
      storeRaw(ops.toMemory(read(value, stage), dtypeOf(value)),
               at(rows.at(value), ops.memoryType(dtypeOf(value)), index));
    SmallVector<std::pair<Value, Value>> made; // all is read before anything is stored
    for (auto [result, address] : elements.results)
      made.push_back(
          {ops.toMemory(read(result, stage), dtypeOf(result)), at(address, ops.memoryType(dtypeOf(result)), index)});
    for (auto [value, address] : made)
      storeRaw(value, address);
  }

  // Reductions.

  Type lanesType(const Instruction &reduce) {
    return vectorType(reduce.attrs["kind"] == "sum" ? Type(builder.getF64Type()) : builder.getF32Type(), kLanes);
  }
  /// Returns whether a reduction counts elements of which something is true: a sum of converted bools. In whole numbers
  /// it has the same bits, because f64 holds all numbers of elements of a row.
  bool isCount(int result) const {
    const Instruction &reduce = *makerOf(result);
    return reduce.attrs["kind"] == "sum" && isMadeBy(reduce.operands[0], "convert") &&
           dtypeOf(makerOf(reduce.operands[0])->operands[0]) == DType::Bool;
  }
  Value combined(int result, Value sofar, int stage) {
    const Instruction &reduce = *makerOf(result);
    if (!isCount(result))
      return ops.combine(reduce, sofar, read(reduce.operands[0], stage));
    Value which = read(makerOf(reduce.operands[0])->operands[0], stage);
    Type word = builder.getIntegerType(kLanes);
    Value bits = vector::BitCastOp::create(builder, loc, VectorType::get({1}, word), which);
    Value count =
        math::CtPopOp::create(builder, loc, vector::ExtractOp::create(builder, loc, bits, ArrayRef<int64_t>{0}));
    return sum(sofar, arith::ExtUIOp::create(builder, loc, i64, count));
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

  // Elements of values.

  /// Returns elements of a value that has a row, in a stage.
  Value read(int value, int stage) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    Value made = readAnew(value, stage);
    known[value] = made;
    return made;
  }

  Value readAnew(int value, int stage) {
    DType dtype = dtypeOf(value);
    Type type = vectorType(ops.registerType(dtype), lanes);
    const Instruction *maker = makerOf(value);
    if (isPlaced(value) || (stages[size_t(value)] < stage && kept.count(value))) {
      Type element = ops.memoryType(dtype);
      return ops.toRegister(loadRaw(element, at(rows.at(value), element, index), lanes), dtype);
    }
    if (maker->op == "constant")
      return constantOf(*maker, dtype, lanes);
    if (maker->op == "broadcast_in_dim") {
      Value element = scalarOf(maker->operands[0]);
      return lanes == 1 ? element : vector::BroadcastOp::create(builder, loc, type, element).getResult();
    }
    SmallVector<Value> x;
    for (int operand : maker->operands)
      x.push_back(read(operand, stage));
    if (maker->op == kRandom)
      return ops.random(x[0], indices(sum(product(row, widthOf(value)), index), lanes));
    return ops.rounded(ops.compute(*maker, x, type), dtype);
  }

  const package::KernelSpace &space;
  std::vector<std::string> &routines;
  std::vector<const Instruction *> makers; // for each value: the instruction that computes it; null for arguments
  std::vector<int> stages;                 // for each value: the stage that computes it
  int last = 0;                            // the last stage
  std::map<int, int> kept;                 // value whose rows are kept on the stack -> the stage that stores them
  std::map<int, Buffer> arguments;
  std::vector<Buffer> results;
  std::map<int, Value> blocks;      // addresses on the stack
  std::map<int, Value> scalars;     // values of which the current row has one element
  std::vector<Value> stored;        // for each result: the address of the current row
  llvm::DenseMap<int, Value> known; // values of the current elements
  Value row, index;                 // the current row and column
  int64_t lanes = kLanes;           // the number of current elements
};
} // namespace

void buildRowKernel(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                    std::vector<std::string> &routines) {
  RowKernelBuilder(module, function, space, routines).run();
}

} // namespace kerf::codegen
