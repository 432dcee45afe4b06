// SPDX-License-Identifier: Apache-2.0
// A kernel's loops. Whole vectors first, then one element after the other, by the same operations: an element's bits do
// not depend on where it lies. What a routine computes it computes for a block at once, between the stages of the
// kernel: values that pass from one stage to the next lie in blocks on the stack. Results are stored by the last stage
// alone, after all reads of their elements, so that they may lie over operands. What is reduced is combined with
// running results of the runtime, which decides on their order (Reduction.h there).
#include "KernelIr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
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
using package::KernelOp;

constexpr int64_t kLanes = 16;          // of a vector: one register of AVX-512 in f32, two of AVX2
constexpr int64_t kBlock = 1024;        // elements between the stages: a few blocks stay in the first cache
constexpr int64_t kStackAlignment = 64; // bytes
static_assert(kLanes == package::kReductionLanes);

bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

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
    return instruction && package::kernelOp(instruction->op) == KernelOp::Routine;
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

  //===-- types and small values
  //-----------------------------------------------------------------------------------===//

  Type inRegister(DType dtype) {
    return dtype == DType::F64    ? Type(builder.getF64Type())
           : dtype == DType::Bool ? Type(builder.getI1Type())
                                  : Type(builder.getF32Type());
  }
  Type inMemory(DType dtype) {
    switch (dtype) {
    case DType::Bool:
      return builder.getI8Type();
    case DType::BF16:
      return builder.getI16Type();
    case DType::F16:
      return builder.getF16Type();
    default:
      return inRegister(dtype);
    }
  }
  /// On the stack: as in registers, bool as bytes.
  Type inBlock(DType dtype) { return dtype == DType::Bool ? inMemory(dtype) : inRegister(dtype); }
  /// Of a reduction's: running results.
  Type inResult(int result) {
    if (!isReduced(result))
      return inMemory(dtypeOf(result));
    const Instruction &reduce = *makers[size_t(result)];
    return reduce.attrs["kind"] == "sum" ? Type(builder.getF64Type()) : inRegister(dtypeOf(reduce.operands[0]));
  }
  Type wide(Type element, int64_t lanes) { return lanes == 1 ? element : VectorType::get({lanes}, element); }

  Value integer(int64_t value) { return arith::ConstantIntOp::create(builder, loc, i64, value); }
  Value number(Type type, double value) {
    Type element = getElementTypeOrSelf(type);
    APFloat exact(value);
    bool inexact;
    exact.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
    return constant(type, builder.getFloatAttr(element, exact));
  }
  Value bits(Type type, uint64_t value) {
    Type element = getElementTypeOrSelf(type);
    return constant(type, builder.getIntegerAttr(element, APInt(element.getIntOrFloatBitWidth(), value)));
  }
  Value constant(Type type, TypedAttr element) {
    if (auto vector = dyn_cast<VectorType>(type))
      element = DenseElementsAttr::get(vector, Attribute(element));
    return arith::ConstantOp::create(builder, loc, element);
  }
  Value sum(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value product(Value a, int64_t b) { return arith::MulIOp::create(builder, loc, a, integer(b)); }
  Value at(Value base, Type element, Value index) {
    return LLVM::GEPOp::create(builder, loc, pointer, element, base, ValueRange{index});
  }
  unsigned bytesOf(Type element) { return std::max(1u, element.getIntOrFloatBitWidth() / 8); }

  Value loadRaw(Type element, Value address, int64_t lanes) {
    return LLVM::LoadOp::create(builder, loc, wide(element, lanes), address, bytesOf(element));
  }
  void storeRaw(Value value, Value address) {
    LLVM::StoreOp::create(builder, loc, value, address, bytesOf(getElementTypeOrSelf(value.getType())));
  }

  //===-- 16-bit floats are float32 whose values the narrow type has
  //------------------------------------------------===//

  Value rounded(Value value, DType dtype, int64_t lanes) {
    if (dtype == DType::F16)
      return widened(arith::TruncFOp::create(builder, loc, wide(builder.getF16Type(), lanes), value), dtype, lanes);
    if (dtype != DType::BF16)
      return value;
    // As bf16FromFloat, kept in the upper half.
    Type word = wide(builder.getI32Type(), lanes);
    Value raw = arith::BitcastOp::create(builder, loc, word, value);
    Value magnitude = arith::AndIOp::create(builder, loc, raw, bits(word, 0x7fffffff));
    Value isNan = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ugt, magnitude, bits(word, 0x7f800000));
    Value odd =
        arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, raw, bits(word, 16)), bits(word, 1));
    Value up = sum(sum(raw, bits(word, 0x7fff)), odd);
    Value quiet = arith::OrIOp::create(builder, loc, raw, bits(word, 0x400000));
    Value chosen = arith::SelectOp::create(builder, loc, isNan, quiet, up);
    chosen = arith::AndIOp::create(builder, loc, chosen, bits(word, 0xffff0000));
    return arith::BitcastOp::create(builder, loc, value.getType(), chosen);
  }
  /// From memory's type to a register's.
  Value widened(Value value, DType dtype, int64_t lanes) {
    Type to = wide(inRegister(dtype), lanes), word = wide(builder.getI32Type(), lanes);
    if (dtype == DType::F16)
      return arith::ExtFOp::create(builder, loc, to, value);
    if (dtype == DType::BF16) {
      Value low = arith::ExtUIOp::create(builder, loc, word, value);
      return arith::BitcastOp::create(builder, loc, to, arith::ShLIOp::create(builder, loc, low, bits(word, 16)));
    }
    if (dtype == DType::Bool)
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value, bits(value.getType(), 0));
    return value;
  }
  Value narrowed(Value value, DType dtype, int64_t lanes) {
    Type to = wide(inMemory(dtype), lanes), word = wide(builder.getI32Type(), lanes);
    if (dtype == DType::F16)
      return arith::TruncFOp::create(builder, loc, to, value);
    if (dtype == DType::BF16) {
      Value raw = arith::BitcastOp::create(builder, loc, word, value);
      return arith::TruncIOp::create(builder, loc, to, arith::ShRUIOp::create(builder, loc, raw, bits(word, 16)));
    }
    if (dtype == DType::Bool)
      return arith::ExtUIOp::create(builder, loc, to, value);
    return value;
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
        begin(buffer, inMemory(dtypeOf(value)));
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
        repeated[value] = widened(loadRaw(inMemory(dtypeOf(value)),
                                          at(arguments[from].data, inMemory(dtypeOf(value)), starts[size_t(index)]), 1),
                                  dtypeOf(value), 1);
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
      given.push_back(isInPlace(operand) ? at(arguments[operand].row, inMemory(dtypeOf(operand)), blockStart)
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
      storeRaw(rounded(loadRaw(inBlock(dtypeOf(result)), address, lanes), dtypeOf(result), lanes), address);
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
        here.known[result] = rounded(compute(instruction, here), dtypeOf(result), lanes);
    }
    if (stage == last) {
      SmallVector<Value> made;
      for (int result : function.results)
        made.push_back(isReduced(result) ? read(makers[size_t(result)]->operands[0], here)
                                         : narrowed(read(result, here), dtypeOf(result), lanes));
      size_t reductions = 0;
      for (auto [value, buffer, result] : llvm::zip(made, results, function.results)) {
        if (!isReduced(result)) {
          storeRaw(value, at(buffer.row, inResult(result), index));
        } else if (reducesRows() && lanes > 1) {
          Value &sofar = running[reductions++];
          sofar = combined(*makers[size_t(result)], sofar, value);
        } else {
          Value place =
              reducesRows() ? arith::AndIOp::create(builder, loc, index, integer(kLanes - 1)).getResult() : index;
          Value address = at(buffer.row, inResult(result), place);
          storeRaw(combined(*makers[size_t(result)], loadRaw(inResult(result), address, lanes), value), address);
        }
      }
      return;
    }
    for (auto &[value, level] : keptAt) {
      if (level != stage || isRoutine(makers[size_t(value)]))
        continue;
      Value kept = read(value, here);
      if (dtypeOf(value) == DType::Bool)
        kept = narrowed(kept, DType::Bool, lanes);
      storeRaw(kept, inBlockAt(value, index));
    }
  }

  /// As the runtime combines elements in `reduce`.
  Value combined(const Instruction &reduce, Value sofar, Value value) {
    if (reduce.attrs["kind"] == "sum")
      return arith::AddFOp::create(builder, loc, sofar, converted(value, sofar.getType()));
    bool max = reduce.attrs["kind"] == "max";
    Value keeps = compare(max ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT, sofar, value);
    Value isNan = compare(arith::CmpFPredicate::UNO, sofar, sofar);
    return choose(arith::OrIOp::create(builder, loc, keeps, isNan), sofar, value);
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
      return widened(raw, dtype, here.lanes);
    return isRoutine(makers[size_t(value)]) ? rounded(raw, dtype, here.lanes) : raw;
  }

  Value readFree(int value, Here &here) {
    DType dtype = dtypeOf(value);
    const Instruction *maker = makers[size_t(value)];
    if (!maker)
      return widened(loadRaw(inMemory(dtype), at(arguments[value].row, inMemory(dtype), here.index), here.lanes), dtype,
                     here.lanes);
    Type type = wide(inRegister(dtype), here.lanes);
    if (maker->op == "constant")
      return constantOf(*maker, type, dtype);
    int from = maker->operands[0];
    if (makers[size_t(from)])
      return constantOf(*makers[size_t(from)], type, dtype);
    if (auto found = repeated.find(value); found != repeated.end())
      return here.lanes == 1 ? found->second
                             : vector::BroadcastOp::create(builder, loc, type, found->second).getResult();
    Value first = sum(starts[size_t(broadcastOf[value])], here.index);
    return widened(loadRaw(inMemory(dtype), at(arguments[from].data, inMemory(dtype), first), here.lanes), dtype,
                   here.lanes);
  }

  Value constantOf(const Instruction &instruction, Type type, DType dtype) {
    double value = package::numberFrom(instruction.attrs["value"][0]).value_or(0);
    return dtype == DType::Bool ? bits(type, value != 0)
                                : rounded(number(type, value), dtype, isa<VectorType>(type) ? kLanes : 1);
  }

  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  }
  Value choose(Value condition, Value a, Value b) { return arith::SelectOp::create(builder, loc, condition, a, b); }

  Value compute(const Instruction &instruction, Here &here) {
    SmallVector<Value> x;
    for (int operand : instruction.operands)
      x.push_back(read(operand, here));
    std::string_view op = instruction.op;
    Type type = x[0].getType(), to = wide(inRegister(dtypeOf(instruction.results[0])), here.lanes);
    if (op == "select")
      return choose(x[0], x[1], x[2]);
    if (op == "and")
      return arith::AndIOp::create(builder, loc, x[0], x[1]);
    if (op == "or")
      return arith::OrIOp::create(builder, loc, x[0], x[1]);
    if (op == "not")
      return arith::XOrIOp::create(builder, loc, x[0], bits(type, 1));
    if (op == "convert")
      return converted(x[0], to);
    if (op == "add")
      return arith::AddFOp::create(builder, loc, x[0], x[1]);
    if (op == "subtract")
      return arith::SubFOp::create(builder, loc, x[0], x[1]);
    if (op == "multiply")
      return arith::MulFOp::create(builder, loc, x[0], x[1]);
    if (op == "divide")
      return arith::DivFOp::create(builder, loc, x[0], x[1]);
    if (op == "maximum" || op == "minimum") {
      // A NaN on the right wins by itself, one on the left by being unordered.
      auto wins = op == "maximum" ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
      Value isNan = compare(arith::CmpFPredicate::UNO, x[0], x[0]);
      return choose(arith::OrIOp::create(builder, loc, compare(wins, x[0], x[1]), isNan), x[0], x[1]);
    }
    if (op == "negate")
      return arith::NegFOp::create(builder, loc, x[0]);
    if (op == "abs")
      return math::AbsFOp::create(builder, loc, x[0]);
    if (op == "sign") {
      Value zero = number(type, 0);
      Value below = choose(compare(arith::CmpFPredicate::OLT, x[0], zero), number(type, -1), x[0]);
      return choose(compare(arith::CmpFPredicate::OGT, x[0], zero), number(type, 1), below);
    }
    if (op == "sqrt")
      return math::SqrtOp::create(builder, loc, x[0]);
    if (op == "rsqrt")
      return arith::DivFOp::create(builder, loc, number(type, 1), math::SqrtOp::create(builder, loc, x[0]));
    if (op == "floor")
      return math::FloorOp::create(builder, loc, x[0]);
    if (op == "ceil")
      return math::CeilOp::create(builder, loc, x[0]);
    if (op == "round_nearest_even")
      return math::RoundEvenOp::create(builder, loc, x[0]);
    if (op == "is_nan")
      return compare(arith::CmpFPredicate::UNO, x[0], x[0]);
    if (getElementTypeOrSelf(type).isInteger(1))
      return arith::CmpIOp::create(builder, loc, bitPredicateOf(instruction), x[0], x[1]);
    return compare(predicateOf(instruction), x[0], x[1]);
  }

  static arith::CmpFPredicate predicateOf(const Instruction &compare) {
    using P = arith::CmpFPredicate;
    const auto &direction = compare.attrs["direction"];
    return direction == "EQ"   ? P::OEQ
           : direction == "NE" ? P::UNE
           : direction == "LT" ? P::OLT
           : direction == "LE" ? P::OLE
           : direction == "GT" ? P::OGT
                               : P::OGE;
  }
  /// Of truth values: false is less than true.
  static arith::CmpIPredicate bitPredicateOf(const Instruction &compare) {
    using P = arith::CmpIPredicate;
    const auto &direction = compare.attrs["direction"];
    return direction == "EQ"   ? P::eq
           : direction == "NE" ? P::ne
           : direction == "LT" ? P::ult
           : direction == "LE" ? P::ule
           : direction == "GT" ? P::ugt
                               : P::uge;
  }

  Value converted(Value value, Type to) {
    Type from = getElementTypeOrSelf(value.getType()), element = getElementTypeOrSelf(to);
    if (from == element)
      return value;
    if (from.isInteger(1))
      return arith::UIToFPOp::create(builder, loc, to, value);
    if (element.isInteger(1))
      return compare(arith::CmpFPredicate::UNE, value, number(value.getType(), 0));
    if (from.isF32())
      return arith::ExtFOp::create(builder, loc, to, value);
    return arith::TruncFOp::create(builder, loc, to, value);
  }

  ModuleOp module;
  const package::Function &function;
  const package::KernelSpace &space;
  std::vector<std::string> &routines;
  OpBuilder builder;
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
