// SPDX-License-Identifier: Apache-2.0
// A kernel's loops. Whole vectors first, then one element after the other, by the same operations: an element's bits do
// not depend on where it lies. What a routine computes it computes for a block at once, between the stages of the
// kernel: values that pass from one stage to the next lie in blocks on the stack. Results are stored by the last stage
// alone, after all reads of their elements, so that they may lie over operands. What is reduced is combined with
// running results of the runtime, which decides on their order (Reduction.h there).
#include "KernelIr.h"
#include "ElementOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace mlir;

namespace kerf::codegen {

namespace {
using package::Instruction;

constexpr int64_t kLanes = 16;          // of a vector: one register of AVX-512 in f32, two of AVX2
constexpr int64_t kBlock = 1024;        // elements between the stages: a few blocks stay in the first cache
constexpr int64_t kStackAlignment = 64; // bytes
static_assert(kLanes == package::kReductionLanes);

class KernelBuilder {
public:
  KernelBuilder(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                std::vector<std::string> &routines)
      : module(module), function(function), space(space), routines(routines), builder(module.getContext()),
        loc(builder.getUnknownLoc()), pointer(LLVM::LLVMPointerType::get(module.getContext())),
        i64(builder.getI64Type()), makers(function.values.size(), nullptr), levels(function.values.size(), 0) {}

  Status run() {
    if (Status status = plan(); !status)
      return status;
    builder.setInsertionPointToEnd(module.getBody());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()),
                                            {pointer, pointer, i64, i64, i64, i64});
    auto kernel = LLVM::LLVMFuncOp::create(builder, loc, function.name, type);
    Block *entry = kernel.addEntryBlock(builder);
    builder.setInsertionPointToStart(entry);
    loadPointers(entry->getArgument(0), entry->getArgument(1));
    buildRows(entry->getArguments().drop_front(2));
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return ok();
  }

private:
  //===-- the stages
  //-----------------------------------------------------------------------------------------------===//

  bool isRoutine(const Instruction *instruction) const {
    return instruction && instruction->op != "constant" && instruction->op != "broadcast_in_dim" &&
           !isReduction(*instruction) && !ElementOps::isInline(instruction->op);
  }
  /// Read or made anew wherever it is needed: arguments, constants, broadcasts.
  bool isFree(int value) const {
    const Instruction *maker = makers[size_t(value)];
    return !maker || maker->op == "constant" || maker->op == "broadcast_in_dim";
  }
  /// A routine can read it where it lies.
  bool isInPlace(int value) const { return !makers[size_t(value)] && !isHalf(dtypeOf(value)); }
  DType dtypeOf(int value) const { return function.values[size_t(value)].dtype; }
  static bool isReduction(const Instruction &instruction) { return instruction.op == "reduce"; }
  bool isReduced(int result) const { return makers[size_t(result)] && isReduction(*makers[size_t(result)]); }

  Status plan() {
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      makers[size_t(result)] = &instruction;
      for (int value : instruction.operands)
        if (!storable(dtypeOf(value)))
          return unknown(instruction, dtypeOf(value));
      if (!storable(dtypeOf(result)))
        return unknown(instruction, dtypeOf(result));
      if (isFree(result) || isReduction(instruction))
        continue;
      int &level = levels[size_t(result)];
      for (int operand : instruction.operands)
        level = std::max(level, levels[size_t(operand)]);
      level += isRoutine(&instruction);
      last = std::max(last, level);
    }
    int broadcasts = 0;
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      if (isReduction(instruction))
        continue;
      if (instruction.op == "broadcast_in_dim")
        broadcastOf[result] = broadcasts++;
      for (int operand : instruction.operands) {
        bool crosses = !isFree(operand) && levels[size_t(operand)] < levels[size_t(result)];
        if (isRoutine(&instruction) ? !isInPlace(operand) : crosses)
          keep(operand, isFree(operand) ? levels[size_t(result)] - 1 : levels[size_t(operand)]);
      }
      if (isRoutine(&instruction))
        keep(result, levels[size_t(result)]);
    }
    for (int result : function.results)
      if (int value = isReduced(result) ? makers[size_t(result)]->operands[0] : result;
          !isFree(value) && levels[size_t(value)] < last)
        keep(value, levels[size_t(value)]);
    return ok();
  }

  static bool storable(DType dtype) {
    return dtype == DType::F64 || dtype == DType::F32 || isHalf(dtype) || dtype == DType::Bool;
  }
  Error unknown(const Instruction &instruction, DType dtype) const {
    return Error{fmt::format("kernel '{}': {} of {}; kernels are of floating types and bool", function.name,
                             instruction.op, toString(dtype))};
  }

  void keep(int value, int level) {
    auto [found, isNew] = keptAt.try_emplace(value, level);
    found->second = std::min(found->second, level);
  }

  //===-- types and addresses
  //-----------------------------------------------------------------------------------===//

  /// On the stack: as in registers, bool as bytes.
  Type inBlock(DType dtype) { return dtype == DType::Bool ? ops.inMemory(dtype) : ops.inRegister(dtype); }
  /// Of a reduction's: running results.
  Type inResult(int result) {
    if (!isReduced(result))
      return ops.inMemory(dtypeOf(result));
    const Instruction &reduce = *makers[size_t(result)];
    return reduce.attrs["kind"] == "sum" ? Type(builder.getF64Type()) : ops.inRegister(dtypeOf(reduce.operands[0]));
  }
  Value integer(int64_t value) { return arith::ConstantIntOp::create(builder, loc, i64, value); }
  Value sum(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value product(Value a, int64_t b) { return arith::MulIOp::create(builder, loc, a, integer(b)); }
  Value at(Value base, Type element, Value index) {
    return LLVM::GEPOp::create(builder, loc, pointer, element, base, ValueRange{index});
  }
  unsigned bytesOf(Type element) { return std::max(1u, element.getIntOrFloatBitWidth() / 8); }

  Value loadRaw(Type element, Value address, int64_t lanes) {
    return LLVM::LoadOp::create(builder, loc, wide(element, lanes), address, bytesOf(element));
  }
  /// Element `index` of an argument, and those after it.
  Value load(DType dtype, Value data, Value index, int64_t lanes) {
    return ops.widened(loadRaw(ops.inMemory(dtype), at(data, ops.inMemory(dtype), index), lanes), dtype);
  }
  void storeRaw(Value value, Value address) {
    LLVM::StoreOp::create(builder, loc, value, address, bytesOf(getElementTypeOrSelf(value.getType())));
  }

  //===-- loops
  //----------------------------------------------------------------------------------------------------===//

  /// Where an argument or result lies: a NativeBuffer.
  struct Buffer {
    Value data, rowStride, row; // row: where the row begins that is computed
  };

  void loadPointers(Value buffers, Value table) {
    auto load = [&](Value from, Type type, size_t index) -> Value {
      return LLVM::LoadOp::create(builder, loc, type, at(from, pointer, integer(int64_t(index))));
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
        called[&instruction] = load(table, pointer, routineIndex(instruction));
    for (auto &[value, level] : keptAt)
      blocks[value] = LLVM::AllocaOp::create(builder, loc, pointer, inBlock(dtypeOf(value)), integer(kBlock),
                                             unsigned(kStackAlignment));
  }

  size_t routineIndex(const Instruction &instruction) {
    DType dtype = dtypeOf(instruction.results[0]);
    auto approximate = instruction.attrs.find("approximate");
    bool byTanh = approximate != instruction.attrs.end() && *approximate == true;
    std::string name = fmt::format("{}{}.{}", instruction.op, byTanh ? ".tanh" : "",
                                   toString(dtype == DType::F64 ? DType::F64 : DType::F32));
    auto found = std::find(routines.begin(), routines.end(), name);
    if (found == routines.end())
      found = routines.insert(routines.end(), name);
    return size_t(found - routines.begin());
  }

  template <typename F> void loop(Value from, Value to, int64_t step, F &&body) {
    auto made = scf::ForOp::create(builder, loc, from, to, integer(step));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    body(made.getInductionVar());
  }

  /// `range`: the first row, the end of rows, the same of columns.
  void buildRows(ValueRange range) {
    loop(range[0], range[1], 1, [&](Value row) {
      starts.assign(space.broadcasts.size(), integer(0));
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
        begin(buffer, ops.inMemory(dtypeOf(value)));
      for (auto [buffer, result] : llvm::zip(results, function.results))
        begin(buffer, inResult(result));
      buildRow(range[2], range[3]);
    });
  }

  /// What a broadcast repeats along the row is read once for it.
  void readRepeated() {
    repeated.clear();
    for (auto &[value, index] : broadcastOf)
      if (int from = makers[size_t(value)]->operands[0];
          !makers[size_t(from)] && space.broadcasts[size_t(index)].back() == 0)
        repeated[value] = load(dtypeOf(value), arguments[from].data, starts[size_t(index)], 1);
  }

  /// Elements [begin, end) of the row.
  void buildRow(Value begin, Value end) {
    if (last == 0) {
      buildStage(0, begin, end);
      return;
    }
    loop(begin, end, kBlock, [&](Value block) {
      blockStart = block;
      Value blockEnd = arith::MinSIOp::create(builder, loc, sum(block, integer(kBlock)), end);
      for (int stage = 0; stage <= last; ++stage) {
        for (const Instruction &instruction : function.body)
          if (isRoutine(&instruction) && levels[size_t(instruction.results[0])] == stage)
            callRoutine(instruction, blockEnd);
        buildStage(stage, block, blockEnd);
      }
    });
  }

  void callRoutine(const Instruction &instruction, Value blockEnd) {
    SmallVector<Value> given = {called[&instruction]};
    SmallVector<Type> types;
    for (int operand : instruction.operands)
      given.push_back(isInPlace(operand) ? at(arguments[operand].row, ops.inMemory(dtypeOf(operand)), blockStart)
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
      return; // rounded where it is read
    vectorsThenElements(blockStart, blockEnd, [&](Value index, int64_t lanes) {
      Value address = inBlockAt(result, index);
      storeRaw(ops.rounded(loadRaw(inBlock(dtypeOf(result)), address, lanes), dtypeOf(result)), address);
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

  void buildStage(int stage, Value begin, Value end) {
    bool keeps = std::any_of(keptAt.begin(), keptAt.end(), [&](const auto &kept) {
      return kept.second == stage && !isRoutine(makers[size_t(kept.first)]);
    });
    if (stage != last && !keeps)
      return;
    if (stage == last && reducesRows())
      return buildReducedRow(begin, end);
    vectorsThenElements(begin, end, [&](Value index, int64_t lanes) { buildElements(stage, index, lanes); });
  }

  bool reducesRows() const { return !space.reduced.empty() && space.reduced.back() == 0; }

  /// The last stage where the row is reduced: vectors of running results stay in registers.
  void buildReducedRow(Value begin, Value end) {
    SmallVector<Value> lanes, addresses;
    for (auto [buffer, result] : llvm::zip(results, function.results))
      if (isReduced(result)) {
        addresses.push_back(buffer.row);
        lanes.push_back(loadRaw(inResult(result), buffer.row, kLanes));
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

  //===-- elements
  //-------------------------------------------------------------------------------------------------===//

  struct Here {
    int stage;
    Value index;
    int64_t lanes;
    llvm::DenseMap<int, Value> known{};
  };

  void buildElements(int stage, Value index, int64_t lanes) {
    Here here{stage, index, lanes};
    for (const Instruction &instruction : function.body) {
      int result = instruction.results[0];
      if (!isFree(result) && !isRoutine(&instruction) && !isReduction(instruction) && levels[size_t(result)] == stage)
        here.known[result] = compute(instruction, here);
    }
    if (stage == last) {
      SmallVector<Value> made;
      for (int result : function.results)
        made.push_back(isReduced(result) ? read(makers[size_t(result)]->operands[0], here)
                                         : ops.narrowed(read(result, here), dtypeOf(result)));
      size_t reductions = 0;
      for (auto [value, buffer, result] : llvm::zip(made, results, function.results)) {
        if (!isReduced(result)) {
          storeRaw(value, at(buffer.row, inResult(result), index));
        } else if (reducesRows() && lanes > 1) {
          Value &sofar = running[reductions++];
          sofar = ops.combined(*makers[size_t(result)], sofar, value);
        } else {
          Value place =
              reducesRows() ? arith::AndIOp::create(builder, loc, index, integer(kLanes - 1)).getResult() : index;
          Value address = at(buffer.row, inResult(result), place);
          storeRaw(ops.combined(*makers[size_t(result)], loadRaw(inResult(result), address, lanes), value), address);
        }
      }
      return;
    }
    for (auto &[value, level] : keptAt) {
      if (level != stage || isRoutine(makers[size_t(value)]))
        continue;
      Value kept = read(value, here);
      if (dtypeOf(value) == DType::Bool)
        kept = ops.narrowed(kept, DType::Bool);
      storeRaw(kept, inBlockAt(value, index));
    }
  }

  Value inBlockAt(int value, Value index) {
    return at(blocks[value], inBlock(dtypeOf(value)), arith::SubIOp::create(builder, loc, index, blockStart));
  }

  Value read(int value, Here &here) {
    if (auto known = here.known.find(value); known != here.known.end())
      return known->second;
    Value made = isFree(value) ? readFree(value, here) : readBlock(value, here);
    here.known[value] = made;
    return made;
  }

  Value readBlock(int value, Here &here) {
    DType dtype = dtypeOf(value);
    Value raw = loadRaw(inBlock(dtype), inBlockAt(value, here.index), here.lanes);
    if (dtype == DType::Bool)
      return ops.widened(raw, dtype);
    return isRoutine(makers[size_t(value)]) ? ops.rounded(raw, dtype) : raw;
  }

  Value readFree(int value, Here &here) {
    DType dtype = dtypeOf(value);
    const Instruction *maker = makers[size_t(value)];
    if (!maker)
      return load(dtype, arguments[value].row, here.index, here.lanes);
    Type type = wide(ops.inRegister(dtype), here.lanes);
    auto constantOf = [&](const Instruction &constant) {
      return ops.constant(type, dtype, package::numberFrom(constant.attrs["value"][0]).value_or(0));
    };
    if (maker->op == "constant")
      return constantOf(*maker);
    int from = maker->operands[0];
    if (makers[size_t(from)])
      return constantOf(*makers[size_t(from)]);
    if (auto found = repeated.find(value); found != repeated.end())
      return here.lanes == 1 ? found->second
                             : vector::BroadcastOp::create(builder, loc, type, found->second).getResult();
    return load(dtype, arguments[from].data, sum(starts[size_t(broadcastOf[value])], here.index), here.lanes);
  }

  Value compute(const Instruction &instruction, Here &here) {
    SmallVector<Value> x;
    for (int operand : instruction.operands)
      x.push_back(read(operand, here));
    DType dtype = dtypeOf(instruction.results[0]);
    return ops.rounded(ops.compute(instruction, x, wide(ops.inRegister(dtype), here.lanes)), dtype);
  }

  ModuleOp module;
  const package::Function &function;
  const package::KernelSpace &space;
  std::vector<std::string> &routines;
  OpBuilder builder;
  ElementOps ops{builder};
  Location loc;
  Type pointer, i64;
  std::vector<const Instruction *> makers; // of each value; null of arguments
  std::vector<int> levels;                 // of each value: the stage that makes it
  int last = 0;                            // stage
  std::map<int, int> keptAt;               // value that lies in a block -> the stage after which it does
  std::map<int, int> broadcastOf;          // value -> which of KernelSpace::broadcasts
  std::map<int, Buffer> arguments;
  std::map<int, Value> blocks, repeated;
  std::map<const Instruction *, Value> called;
  std::vector<Buffer> results;
  std::vector<Value> starts;  // of each broadcast's row
  SmallVector<Value> running; // vectors of running results of the row
  Value blockStart;
};
} // namespace

Status buildKernel(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                   std::vector<std::string> &routines) {
  return KernelBuilder(module, function, space, routines).run();
}

} // namespace kerf::codegen
