// SPDX-License-Identifier: Apache-2.0
// Generates a kernel's loops. Each row is computed in full vectors and then element by element, with the same
// operations, so that the bits of an element do not depend on its position.
//
// Ops such as exp are calls of runtime routines, each for a block of elements. The calls split the kernel into
// segments: segment 0 is computed without a call, and segment n + 1 begins with calls that read results of segment n.
// Values that later segments read are kept in blocks on the stack. Only the last segment stores results, after all
// reads of their elements, so that results may overwrite arguments. Elements of a reduction are combined with running
// results that the runtime provides, and the runtime decides the order (lib/Runtime/Cpu/Kernels/Reduction.h).
#include "KernelIr.h"
#include "LoopIr.h"

#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <map>

using namespace mlir;

namespace kerf::codegen {

namespace {
using package::Instruction;

constexpr int64_t kBlock = 1024; // elements of a block: a few blocks stay in the L1 cache
static_assert(kLanes == package::kReductionLanes);

class KernelBuilder : LoopIr {
public:
  KernelBuilder(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                std::vector<std::string> &routines)
      : LoopIr(module), function(function), space(space), routines(routines), makers(function.values.size(), nullptr),
        segments(function.values.size(), 0) {}

  void run() {
    plan();
    auto given = beginKernel(function.name);
    loadPointers(given[0], given[1]);
    buildRows(given.drop_front(2));
    endKernel(integer(0));
  }

private:
  // The segments.

  bool isRoutine(const Instruction *instruction) const {
    return instruction && instruction->op != "constant" && instruction->op != "broadcast_in_dim" &&
           !isReduction(*instruction) && !ElementOps::isInline(instruction->op);
  }
  /// Returns true if every use reads or recomputes the value, so that it is never kept: arguments,
  /// constants, broadcasts.
  bool isFree(int value) const {
    const Instruction *maker = makers[size_t(value)];
    return !maker || maker->op == "constant" || maker->op == "broadcast_in_dim";
  }
  /// Returns true if a routine can read the value directly from the argument.
  bool isInPlace(int value) const { return !makers[size_t(value)] && !isHalf(dtypeOf(value)); }
  DType dtypeOf(int value) const { return function.values[size_t(value)].dtype; }
  static bool isReduction(const Instruction &instruction) { return instruction.op == "reduce"; }
  bool isReduced(int result) const { return makers[size_t(result)] && isReduction(*makers[size_t(result)]); }

  void plan() {
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      makers[size_t(result)] = &instruction;
      if (isFree(result) || isReduction(instruction))
        continue;
      int &segment = segments[size_t(result)];
      for (int operand : instruction.operands)
        segment = std::max(segment, segments[size_t(operand)]);
      segment += isRoutine(&instruction);
      last = std::max(last, segment);
    }
    int broadcasts = 0;
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      if (isReduction(instruction))
        continue;
      if (instruction.op == "broadcast_in_dim")
        broadcastOf[result] = broadcasts++;
      for (int operand : instruction.operands) {
        bool crosses = !isFree(operand) && segments[size_t(operand)] < segments[size_t(result)];
        if (isRoutine(&instruction) ? !isInPlace(operand) : crosses)
          keep(operand, isFree(operand) ? segments[size_t(result)] - 1 : segments[size_t(operand)]);
      }
      if (isRoutine(&instruction))
        keep(result, segments[size_t(result)]);
    }
    for (int result : function.results)
      if (int value = isReduced(result) ? makers[size_t(result)]->operands[0] : result;
          !isFree(value) && segments[size_t(value)] < last)
        keep(value, segments[size_t(value)]);
  }

  void keep(int value, int segment) {
    auto [found, isNew] = keptAt.try_emplace(value, segment);
    found->second = std::min(found->second, segment);
  }

  // Types and addresses.

  /// Returns the element type of a block on the stack: the register type, but bytes for Bool.
  Type blockType(DType dtype) { return dtype == DType::Bool ? ops.memoryType(dtype) : ops.registerType(dtype); }
  /// Returns the element type of a result's buffer, which for a reduction holds running results.
  Type resultElementType(int result) {
    if (!isReduced(result))
      return ops.memoryType(dtypeOf(result));
    const Instruction &reduce = *makers[size_t(result)];
    return reduce.attrs["kind"] == "sum" ? Type(builder.getF64Type()) : ops.registerType(dtypeOf(reduce.operands[0]));
  }
  /// Loads `lanes` elements of an argument, beginning at element `index`.
  Value load(DType dtype, Value data, Value index, int64_t lanes) {
    return ops.toRegister(loadRaw(ops.memoryType(dtype), at(data, ops.memoryType(dtype), index), lanes), dtype);
  }

  // Loops.

  /// The NativeBuffer of an argument or result.
  struct Buffer {
    Value data, rowStride, row; // row: address of the current row
  };

  void loadPointers(Value buffers, Value table) {
    auto load = [&](Value from, Type type, int64_t index) -> Value {
      return LLVM::LoadOp::create(builder, loc, type, at(from, pointer, integer(index)));
    };
    auto buffer = [&](size_t index) {
      return Buffer{load(buffers, pointer, 2 * index), load(buffers, i64, 2 * index + 1), {}};
    };
    for (size_t i = 0; i < function.args.size(); ++i)
      arguments[function.args[i]] = buffer(i);
    for (size_t r = 0; r < function.results.size(); ++r)
      results.push_back(buffer(function.args.size() + r));
    for (const Instruction &instruction : function.body)
      if (isRoutine(&instruction))
        called[&instruction] =
            load(table, pointer, routineIndex(routines, routineName(instruction, dtypeOf(instruction.results[0]))));
    for (auto &[value, keptIn] : keptAt)
      blocks[value] = LLVM::AllocaOp::create(builder, loc, pointer, blockType(dtypeOf(value)), integer(kBlock),
                                             unsigned(kStackAlignment));
  }

  /// Generates the loop over rows. `range` holds the first row, the end of the rows, the first column and the end of
  /// the columns.
  void buildRows(ValueRange range) {
    loop(range[0], range[1], 1, [&](Value row) {
      starts.assign(space.broadcasts.size(), integer(0));
      rowStart = product(row, space.columns());
      Value rest = row;
      for (size_t d = space.sizes.size() - 1; d-- > 0;) {
        Value size = integer(space.sizes[d]);
        Value index = d == 0 ? rest : arith::RemUIOp::create(builder, loc, rest, size).getResult();
        rest = d == 0 ? rest : arith::DivUIOp::create(builder, loc, rest, size).getResult();
        for (size_t b = 0; b < starts.size(); ++b)
          if (int64_t stride = space.broadcasts[b][d])
            starts[b] = sum(starts[b], product(index, stride));
      }
      readRepeated();
      auto begin = [&](Buffer &buffer, Type element) {
        buffer.row = at(buffer.data, element, arith::MulIOp::create(builder, loc, row, buffer.rowStride));
      };
      for (auto &[value, buffer] : arguments)
        begin(buffer, ops.memoryType(dtypeOf(value)));
      for (auto [buffer, result] : llvm::zip(results, function.results))
        begin(buffer, resultElementType(result));
      buildRow(range[2], range[3]);
    });
  }

  /// Loads the elements that broadcasts repeat along the row, once for each row.
  void readRepeated() {
    repeated.clear();
    for (auto &[value, index] : broadcastOf)
      if (int from = makers[size_t(value)]->operands[0];
          !makers[size_t(from)] && space.broadcasts[size_t(index)].back() == 0)
        repeated[value] = load(dtypeOf(value), arguments[from].data, starts[size_t(index)], 1);
  }

  /// Generates the computation of elements [begin, end) of the row.
  void buildRow(Value begin, Value end) {
    if (last == 0) {
      buildSegment(0, begin, end);
      return;
    }
    loop(begin, end, kBlock, [&](Value block) {
      blockStart = block;
      Value blockEnd = arith::MinSIOp::create(builder, loc, sum(block, integer(kBlock)), end);
      for (int segment = 0; segment <= last; ++segment) {
        for (const Instruction &instruction : function.body)
          if (isRoutine(&instruction) && segments[size_t(instruction.results[0])] == segment)
            callRoutine(instruction, blockEnd);
        buildSegment(segment, block, blockEnd);
      }
    });
  }

  void callRoutine(const Instruction &instruction, Value blockEnd) {
    SmallVector<Value> given = {called[&instruction]};
    SmallVector<Type> types;
    for (int operand : instruction.operands)
      given.push_back(isInPlace(operand) ? at(arguments[operand].row, ops.memoryType(dtypeOf(operand)), blockStart)
                                         : blocks[operand]);
    given.push_back(blocks[instruction.results[0]]);
    types.assign(given.size() - 1, pointer);
    given.push_back(arith::SubIOp::create(builder, loc, blockEnd, blockStart));
    types.push_back(i64);
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), types);
    LLVM::CallOp::create(builder, loc, type, given);
    int result = instruction.results[0];
    bool goesOn = std::any_of(function.body.begin(), function.body.end(), [&](const Instruction &user) {
      return isRoutine(&user) && std::count(user.operands.begin(), user.operands.end(), result) > 0;
    });
    if (!isHalf(dtypeOf(result)) || !goesOn)
      return; // readBlock rounds it
    vectorsThenElements(blockStart, blockEnd, [&](Value index, int64_t lanes) {
      Value address = blockAddress(result, index);
      storeRaw(ops.rounded(loadRaw(blockType(dtypeOf(result)), address, lanes), dtypeOf(result)), address);
    });
  }

  Value endOfVectors(Value begin, Value end) {
    Value length = arith::SubIOp::create(builder, loc, end, begin);
    return sum(begin, arith::AndIOp::create(builder, loc, length, integer(-kLanes)));
  }
  template <typename F> void vectorsThenElements(Value begin, Value end, F &&body) {
    Value middle = endOfVectors(begin, end);
    loop(begin, middle, kLanes, [&](Value i) { body(i, kLanes); });
    loop(middle, end, 1, [&](Value i) { body(i, 1); });
  }

  void buildSegment(int segment, Value begin, Value end) {
    bool keeps = std::any_of(keptAt.begin(), keptAt.end(), [&](const auto &kept) {
      return kept.second == segment && !isRoutine(makers[size_t(kept.first)]);
    });
    if (segment != last && !keeps)
      return;
    if (segment == last && reducesRows())
      return buildReducedRow(begin, end);
    vectorsThenElements(begin, end, [&](Value index, int64_t lanes) { buildElements(segment, index, lanes); });
  }

  bool reducesRows() const { return !space.reduced.empty() && space.reduced.back() == 0; }

  /// Generates the last segment of a kernel that reduces rows. Vectors of running results stay in registers.
  void buildReducedRow(Value begin, Value end) {
    SmallVector<Value> lanes, addresses;
    for (auto [buffer, result] : llvm::zip(results, function.results))
      if (isReduced(result)) {
        addresses.push_back(buffer.row);
        lanes.push_back(loadRaw(resultElementType(result), buffer.row, kLanes));
      }
    Value middle = endOfVectors(begin, end);
    auto vectors = scf::ForOp::create(builder, loc, begin, middle, integer(kLanes), lanes);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(vectors.getBody());
      running.assign(vectors.getRegionIterArgs().begin(), vectors.getRegionIterArgs().end());
      buildElements(last, vectors.getInductionVar(), kLanes);
      scf::YieldOp::create(builder, loc, running);
    }
    for (auto [value, address] : llvm::zip(vectors.getResults(), addresses))
      storeRaw(value, address);
    loop(middle, end, 1, [&](Value i) { buildElements(last, i, 1); });
  }

  // Elements.

  struct ElementContext {
    int segment;
    Value index;
    int64_t lanes;
    llvm::DenseMap<int, Value> known{};
  };

  void buildElements(int segment, Value index, int64_t lanes) {
    ElementContext context{segment, index, lanes};
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      if (!isFree(result) && !isRoutine(&instruction) && !isReduction(instruction) &&
          segments[size_t(result)] == segment)
        context.known[result] = compute(instruction, context);
    }
    if (segment == last) {
      SmallVector<Value> made;
      for (int result : function.results)
        made.push_back(isReduced(result) ? read(makers[size_t(result)]->operands[0], context)
                                         : ops.toMemory(read(result, context), dtypeOf(result)));
      size_t reductions = 0;
      for (auto [value, buffer, result] : llvm::zip(made, results, function.results)) {
        if (!isReduced(result)) {
          storeRaw(value, at(buffer.row, resultElementType(result), index));
        } else if (reducesRows() && lanes > 1) {
          Value &runningResult = running[reductions++];
          runningResult = ops.combine(*makers[size_t(result)], runningResult, value);
        } else {
          Value place =
              reducesRows() ? arith::AndIOp::create(builder, loc, index, integer(kLanes - 1)).getResult() : index;
          Value address = at(buffer.row, resultElementType(result), place);
          storeRaw(ops.combine(*makers[size_t(result)], loadRaw(resultElementType(result), address, lanes), value),
                   address);
        }
      }
      return;
    }
    for (auto &[value, keptIn] : keptAt) {
      if (keptIn != segment || isRoutine(makers[size_t(value)]))
        continue;
      Value kept = read(value, context);
      if (dtypeOf(value) == DType::Bool)
        kept = ops.toMemory(kept, DType::Bool);
      storeRaw(kept, blockAddress(value, index));
    }
  }

  Value blockAddress(int value, Value index) {
    return at(blocks[value], blockType(dtypeOf(value)), arith::SubIOp::create(builder, loc, index, blockStart));
  }

  Value read(int value, ElementContext &context) {
    if (auto known = context.known.find(value); known != context.known.end())
      return known->second;
    Value made = isFree(value) ? readFree(value, context) : readBlock(value, context);
    context.known[value] = made;
    return made;
  }

  Value readBlock(int value, ElementContext &context) {
    DType dtype = dtypeOf(value);
    Value raw = loadRaw(blockType(dtype), blockAddress(value, context.index), context.lanes);
    if (dtype == DType::Bool)
      return ops.toRegister(raw, dtype);
    return isRoutine(makers[size_t(value)]) ? ops.rounded(raw, dtype) : raw;
  }

  Value readFree(int value, ElementContext &context) {
    DType dtype = dtypeOf(value);
    const Instruction *maker = makers[size_t(value)];
    if (!maker)
      return load(dtype, arguments[value].row, context.index, context.lanes);
    Type type = vectorType(ops.registerType(dtype), context.lanes);
    auto constantOf = [&](const Instruction &constant) {
      return ops.constant(type, dtype, package::parseNumber(constant.attrs["value"][0]).value_or(0));
    };
    if (maker->op == "constant")
      return constantOf(*maker);
    int from = maker->operands[0];
    if (makers[size_t(from)])
      return constantOf(*makers[size_t(from)]);
    if (auto found = repeated.find(value); found != repeated.end())
      return context.lanes == 1 ? found->second
                                : vector::BroadcastOp::create(builder, loc, type, found->second).getResult();
    return load(dtype, arguments[from].data, sum(starts[size_t(broadcastOf[value])], context.index), context.lanes);
  }

  Value compute(const Instruction &instruction, ElementContext &context) {
    SmallVector<Value> x;
    for (int operand : instruction.operands)
      x.push_back(read(operand, context));
    DType dtype = dtypeOf(instruction.results[0]);
    if (instruction.op == kRandom)
      return ops.random(x[0], indices(sum(rowStart, context.index), context.lanes));
    return ops.rounded(ops.compute(instruction, x, vectorType(ops.registerType(dtype), context.lanes)), dtype);
  }

  const package::Function &function;
  const package::KernelSpace &space;
  std::vector<std::string> &routines;
  std::vector<const Instruction *> makers; // for each value: the instruction that computes it; null for arguments
  std::vector<int> segments;               // for each value: the segment that computes it
  int last = 0;                            // the last segment
  std::map<int, int> keptAt;               // value that is kept in a block -> the segment that stores it
  std::map<int, int> broadcastOf;          // value -> its index in KernelSpace::broadcasts
  std::map<int, Buffer> arguments;
  std::map<int, Value> blocks, repeated;
  std::map<const Instruction *, Value> called;
  std::vector<Buffer> results;
  std::vector<Value> starts;  // for each broadcast: offset of the current row
  SmallVector<Value> running; // vectors of running results of the current row
  Value blockStart, rowStart; // rowStart: row-major index of the current row's first element
};
} // namespace

void buildKernel(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                 std::vector<std::string> &routines) {
  KernelBuilder(module, function, space, routines).run();
}

} // namespace kerf::codegen
