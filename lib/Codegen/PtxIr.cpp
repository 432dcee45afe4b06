// SPDX-License-Identifier: Apache-2.0
// Generates the MLIR of a kernel for GPUs. The threads share the work items (package::ptxItems) in turn. For an item, a
// thread loads a vector of each argument, computes one element of the vector after the other with the operations of
// ElementOps and the functions of Runtime/Cuda/Kernels/Routines.cu, and stores vectors. It stores after all of its
// loads, so that results may overwrite arguments. A kernel that computes reductions passes functions with the work for
// one and for several items to a routine of Runtime/Cuda/Kernels/FusedReduceCode.h, which calls them in the order of
// the reduction.
#include "PtxIr.h"
#include "ElementOps.h"
#include "kerf/Package/Ptx.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <fmt/format.h>

using namespace mlir;

namespace kerf::codegen {

namespace {
using package::Instruction;
using Lanes = SmallVector<Value>; // the elements of a vector

constexpr unsigned kGlobalMemory = 1;                        // address space of NVPTX
constexpr int64_t kMostSmall = int64_t(1) << 30;             // fewer elements are counted in 32 bits
constexpr const char *kSpecial = "llvm.nvvm.read.ptx.sreg."; // prefix of the intrinsics that number threads

static_assert(kMostSmall + package::kMostPtxBlocks * package::kPtxThreads < int64_t(1) << 31);

class PtxBuilder {
public:
  PtxBuilder(ModuleOp module, const package::Function &function, const package::KernelSpace &space)
      : module(module), function(function), space(space), items(package::ptxItems(function, space)),
        stored(package::storedValues(function)), reduction(package::ptxReduction(function)),
        builder(module.getContext()), loc(builder.getUnknownLoc()),
        plain(LLVM::LLVMPointerType::get(module.getContext())),
        global(LLVM::LLVMPointerType::get(module.getContext(), kGlobalMemory)),
        number(space.rows() * space.columns() < kMostSmall ? builder.getI32Type() : builder.getI64Type()),
        makers(function.values.size(), nullptr) {}

  void run(const std::string &entry) {
    int broadcasts = 0;
    for (const Instruction &instruction : function.body) {
      makers[size_t(instruction.results[0])] = &instruction;
      if (instruction.op == "broadcast_in_dim")
        broadcastOf[instruction.results[0]] = broadcasts++;
    }
    const int64_t together = itemsTogether();
    LLVM::LLVMFuncOp one, several;
    if (reduction) {
      one = elementsFunction(entry + "_elements", 1);
      several = elementsFunction(entry + "_more_elements", together);
    }
    Block *block = beginFunction(entry, {plain});
    loadAddresses(block->getArgument(0));
    if (reduction)
      return callReduction(one, several, together, block->getArgument(0));
    Value threads = special("ntid.x");
    Value first = sum(product(special("ctaid.x"), threads), special("tid.x"));
    loop(first, product(special("nctaid.x"), threads));
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

private:
  /// Begins a function at the end of the module, and sets the insertion point into it.
  Block *beginFunction(const std::string &name, ArrayRef<Type> parameters) {
    builder.setInsertionPointToEnd(module.getBody());
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()), parameters);
    Block *block = LLVM::LLVMFuncOp::create(builder, loc, name, type).addEntryBlock(builder);
    builder.setInsertionPointToStart(block);
    return block;
  }

  //===-- reductions ----------------------------------------------------------------------------------------------===//

  /// Returns how many items a thread of a reduction loads before it computes the first one: 2, or 4 if an item reads at
  /// most 16 bytes of tensors of the kernel's size.
  int64_t itemsTogether() const {
    constexpr int64_t kFewBytes = 16;
    int64_t bytes = 0;
    for (int arg : function.args) {
      const package::Value &value = function.values[size_t(arg)];
      if (reduction && elementsOf(value.shape) == space.rows() * space.columns())
        bytes += bytesOf(value.dtype) * reduction->width;
    }
    return bytes <= kFewBytes ? 4 : 2;
  }

  /// Generates a function that a reduction calls for `count` items: ElementsOf in FusedReduceCode.h.
  LLVM::LLVMFuncOp elementsFunction(const std::string &name, int64_t count) {
    Block *block = beginFunction(name, {plain, builder.getI64Type(), builder.getI64Type(), plain});
    loadAddresses(block->getArgument(0));
    SmallVector<Value> starts;
    for (int64_t i = 0; i < count; ++i) {
      Value start = i == 0 ? block->getArgument(1) : sum(starts.back(), block->getArgument(2));
      starts.push_back(start);
    }
    for (Value &start : starts)
      if (!number.isInteger(64))
        start = arith::TruncIOp::create(builder, loc, number, start);
    int32_t place = 0;
    for (Item &item : buildItems(starts, reduction->width))
      for (int result : reduction->results)
        for (Value x : item.known[package::reductionOf(function, result)->operands[0]]) {
          Value to = LLVM::GEPOp::create(builder, loc, plain, builder.getF64Type(), block->getArgument(3),
                                         ArrayRef<LLVM::GEPArg>{place++});
          if (!x.getType().isF64())
            x = arith::ExtFOp::create(builder, loc, builder.getF64Type(), x);
          LLVM::StoreOp::create(builder, loc, x, to);
        }
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return cast<LLVM::LLVMFuncOp>(block->getParentOp());
  }

  /// Generates the call of the routine that computes the kernel's reductions.
  void callReduction(LLVM::LLVMFuncOp one, LLVM::LLVMFuncOp several, int64_t together, Value addresses) {
    constexpr const char *kForms[] = {"table", "threads", "warps", "blocks"};
    constexpr const char *kKinds[] = {"sum", "max", "min"}; // in the order of Reduction in Parameters.h
    const package::ReducePlan &plan = reduction->plan;
    SmallVector<Value> given = {LLVM::AddressOfOp::create(builder, loc, one),
                                LLVM::AddressOfOp::create(builder, loc, several),
                                arith::ConstantIntOp::create(builder, loc, builder.getI32Type(), together), addresses};
    for (int64_t size : {plan.outer, plan.kept, plan.inner, plan.outerOfPiece, plan.innerOfPiece, plan.innerPieces,
                         plan.pieces, plan.rowsOfWarp})
      given.push_back(arith::ConstantIntOp::create(builder, loc, builder.getI64Type(), size));
    for (auto [r, result] : llvm::enumerate(reduction->results)) {
      std::string kind = package::reductionOf(function, result)->attrs["kind"];
      for (int64_t value : {std::find(kKinds, kKinds + 3, kind) - kKinds, int64_t(dtypeOf(result))})
        given.push_back(arith::ConstantIntOp::create(builder, loc, builder.getI32Type(), value));
      given.push_back(LLVM::AddrSpaceCastOp::create(builder, loc, plain, reducedResults[r]));
    }
    std::string name =
        fmt::format("reduce.{}.w{}.r{}", kForms[size_t(plan.form)], reduction->width, reduction->results.size());
    auto routine = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!routine) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(module.getBody());
      routine = LLVM::LLVMFuncOp::create(builder, loc, name,
                                         LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(module.getContext()),
                                                                     SmallVector<Type>(ValueRange(given).getTypes())));
    }
    LLVM::CallOp::create(builder, loc, routine, given);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  }

  //===-- items ---------------------------------------------------------------------------------------------------===//

  void loop(Value first, Value step) {
    auto made = scf::ForOp::create(builder, loc, first, integer(items.count()), step);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(made.getBody());
    Value item = made.getInductionVar();
    if (items.elements == 0)
      return void(buildItems(product(item, integer(items.width)), items.width));
    if (items.vectors == 0)
      return void(buildItems(item, 1));
    Value isVector = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, item, integer(items.vectors));
    auto choice = scf::IfOp::create(builder, loc, isVector, /*withElseRegion=*/true);
    builder.setInsertionPointToStart(choice.thenBlock());
    buildItems(product(item, integer(items.width)), items.width);
    builder.setInsertionPointToStart(choice.elseBlock());
    buildItems(sum(item, integer(items.vectors * (items.width - 1))), 1);
  }

  /// An item, of which `first` is the first element, counted from the first element of row 0 over all rows.
  struct Item {
    Value first;
    std::vector<Value> starts;        // for each broadcast: the element of its tensor
    llvm::DenseMap<int, Lanes> known; // the elements of values
  };

  /// Generates the work for items of `width` elements that begin at the elements `firsts`. The arguments of several
  /// items are all loaded before an item is computed, and nothing is stored before all items are computed, so that all
  /// loads are under way at the same time. Returns the items, which know all values that are reduced.
  SmallVector<Item> buildItems(ArrayRef<Value> firsts, int64_t width) {
    lanes = width;
    SmallVector<Item> made(firsts.size());
    for (auto [next, first] : llvm::zip(made, firsts)) {
      item = &next;
      item->first = first;
      findBroadcasts();
      if (firsts.size() > 1)
        readArguments();
    }
    for (Item &next : made) {
      item = &next;
      for (const Instruction &instruction : function.body) {
        int result = instruction.results[0];
        if (!isFree(result) && instruction.op != "reduce")
          item->known[result] = compute(instruction);
      }
      for (int value : stored)
        read(value);
      for (size_t r = 0; reduction && r < reduction->results.size(); ++r)
        read(package::reductionOf(function, reduction->results[r])->operands[0]);
    }
    for (Item &next : made) {
      item = &next;
      for (auto [value, address] : llvm::zip(stored, results))
        store(dtypeOf(value), item->known[value], address);
    }
    return made;
  }

  /// Loads the arguments of the kernel's size.
  void readArguments() {
    for (const Instruction &instruction : function.body)
      for (int operand : instruction.operands)
        if (instruction.op != "broadcast_in_dim" && !makers[size_t(operand)])
          read(operand);
  }

  /// Computes where each broadcast's tensor is read for the first element of the item.
  void findBroadcasts() {
    std::vector<Value> &starts = item->starts;
    starts.assign(space.broadcasts.size(), integer(0));
    if (space.broadcasts.empty())
      return;
    Value columns = integer(space.columns());
    bool oneRow = space.rows() == 1;
    Value first = item->first;
    Value column = oneRow ? first : arith::RemUIOp::create(builder, loc, first, columns).getResult();
    Value rest = oneRow ? integer(0) : arith::DivUIOp::create(builder, loc, first, columns).getResult();
    for (size_t d = space.sizes.size() - 1; d-- > 0 && !oneRow;) {
      Value size = integer(space.sizes[d]);
      Value index = d == 0 ? rest : arith::RemUIOp::create(builder, loc, rest, size).getResult();
      rest = d == 0 ? rest : arith::DivUIOp::create(builder, loc, rest, size).getResult();
      for (size_t b = 0; b < starts.size(); ++b)
        if (int64_t stride = space.broadcasts[b][d])
          starts[b] = sum(starts[b], product(index, integer(stride)));
    }
    for (size_t b = 0; b < starts.size(); ++b)
      if (space.broadcasts[b].back() != 0)
        starts[b] = sum(starts[b], column);
  }

  //===-- values --------------------------------------------------------------------------------------------------===//

  DType dtypeOf(int value) const { return function.values[size_t(value)].dtype; }
  /// Returns true if the value is read or made where it is used: arguments, constants, broadcasts.
  bool isFree(int value) const {
    const Instruction *maker = makers[size_t(value)];
    return !maker || maker->op == "constant" || maker->op == "broadcast_in_dim";
  }

  const Lanes &read(int value) {
    auto found = item->known.find(value);
    if (found != item->known.end())
      return found->second;
    Lanes made = readFree(value);
    return item->known[value] = std::move(made);
  }

  Lanes readFree(int value) {
    DType dtype = dtypeOf(value);
    const Instruction *maker = makers[size_t(value)];
    if (!maker)
      return load(dtype, arguments[value], item->first, lanes);
    if (maker->op == "constant")
      return constantOf(*maker, dtype);
    int from = maker->operands[0];
    if (makers[size_t(from)])
      return constantOf(*makers[size_t(from)], dtype);
    size_t broadcast = size_t(broadcastOf[value]);
    const std::vector<int64_t> &strides = space.broadcasts[broadcast];
    Value start = item->starts[broadcast];
    if (strides.back() == 0)
      return Lanes(size_t(lanes), load(dtype, arguments[from], start, 1)[0]);
    // The columns of an item begin at a multiple of its width. The rows of the tensor may not.
    bool isAligned = std::all_of(strides.begin(), strides.end() - 1, [&](int64_t s) { return s % lanes == 0; });
    if (isAligned)
      return load(dtype, arguments[from], start, lanes);
    Lanes elements;
    for (int64_t lane = 0; lane < lanes; ++lane)
      elements.push_back(load(dtype, arguments[from], sum(start, integer(lane)), 1)[0]);
    return elements;
  }

  Lanes constantOf(const Instruction &constant, DType dtype) {
    double value = package::parseNumber(constant.attrs["value"][0]).value_or(0);
    return Lanes(size_t(lanes), ops.constant(ops.registerType(dtype), dtype, value));
  }

  Lanes compute(const Instruction &instruction) {
    DType dtype = dtypeOf(instruction.results[0]);
    SmallVector<Lanes> operands;
    for (int operand : instruction.operands)
      operands.push_back(read(operand));
    LLVM::LLVMFuncOp routine;
    if (!ElementOps::isInline(instruction.op))
      routine = routineFor(instruction, dtype);
    Lanes elements;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      SmallVector<Value> x;
      for (const Lanes &operand : operands)
        x.push_back(operand[size_t(lane)]);
      Value y = routine                     ? LLVM::CallOp::create(builder, loc, routine, x).getResult()
                : instruction.op == kRandom ? ops.random(x[0], indexOf(lane))
                                            : ops.compute(instruction, x, ops.registerType(dtype));
      elements.push_back(y);
    }
    return rounded(std::move(elements), dtype);
  }

  /// Rounds numbers to the precision of `dtype`. For bf16, one instruction of the GPU rounds two numbers.
  Lanes rounded(Lanes elements, DType dtype) {
    if (dtype != DType::BF16) {
      for (Value &element : elements)
        element = ops.rounded(element, dtype);
      return elements;
    }
    Type word = builder.getI32Type(), pair = VectorType::get(2, builder.getBF16Type());
    auto toFloat = [&](Value bits) { return arith::BitcastOp::create(builder, loc, builder.getF32Type(), bits); };
    auto constant = [&](int32_t bits) { return arith::ConstantIntOp::create(builder, loc, word, bits); };
    for (size_t lane = 0; lane < elements.size(); lane += 2) {
      bool isLast = lane + 1 == elements.size();
      Value low = elements[lane], high = isLast ? low : elements[lane + 1];
      Value both = LLVM::CallIntrinsicOp::create(builder, loc, pair, builder.getStringAttr("llvm.nvvm.ff2bf16x2.rn"),
                                                 ValueRange{high, low})
                       .getResult(0);
      both = LLVM::BitcastOp::create(builder, loc, word, both);
      elements[lane] = toFloat(arith::ShLIOp::create(builder, loc, both, constant(16)));
      if (!isLast)
        elements[lane + 1] = toFloat(arith::AndIOp::create(builder, loc, both, constant(-0x10000)));
    }
    return elements;
  }

  /// Returns the declaration of the function of Routines.cu that computes the op.
  LLVM::LLVMFuncOp routineFor(const Instruction &instruction, DType dtype) {
    std::string name = routineName(instruction, dtype);
    if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
      return known;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(module.getBody());
    Type type = ops.registerType(dtype);
    return LLVM::LLVMFuncOp::create(
        builder, loc, name, LLVM::LLVMFunctionType::get(type, SmallVector<Type>(instruction.operands.size(), type)));
  }

  //===-- memory --------------------------------------------------------------------------------------------------===//

  void loadAddresses(Value parameter) {
    results.clear();
    reducedResults.clear();
    int32_t at = 0;
    auto next = [&] {
      Value place = LLVM::GEPOp::create(builder, loc, plain, global, parameter, ArrayRef<LLVM::GEPArg>{at++});
      return LLVM::LoadOp::create(builder, loc, global, place).getResult();
    };
    for (int arg : function.args)
      arguments[arg] = next();
    for (size_t r = 0; r < stored.size(); ++r)
      results.push_back(next());
    for (size_t r = 0; reduction && r < reduction->results.size(); ++r)
      reducedResults.push_back(next());
  }

  Value address(DType dtype, Value base, Value element) {
    if (!number.isInteger(64))
      element = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), element);
    return LLVM::GEPOp::create(builder, loc, global, ops.memoryType(dtype), base, ValueRange{element});
  }
  static unsigned bytesAt(DType dtype, int64_t count) { return unsigned(bytesOf(dtype) * count); }

  /// Loads `count` elements, which begin at a multiple of `count`.
  Lanes load(DType dtype, Value base, Value element, int64_t count) {
    Value vector = LLVM::LoadOp::create(builder, loc, vectorType(ops.memoryType(dtype), count),
                                        address(dtype, base, element), bytesAt(dtype, count));
    Lanes elements;
    for (int64_t lane = 0; lane < count; ++lane)
      elements.push_back(ops.toRegister(
          count == 1 ? vector : LLVM::ExtractElementOp::create(builder, loc, vector, integer(lane)).getResult(),
          dtype));
    return elements;
  }

  void store(DType dtype, const Lanes &elements, Value base) {
    Value vector;
    if (lanes == 1)
      vector = ops.toMemory(elements[0], dtype);
    else
      vector = LLVM::PoisonOp::create(builder, loc, vectorType(ops.memoryType(dtype), lanes));
    for (int64_t lane = 0; lane < lanes && lanes > 1; ++lane)
      vector = LLVM::InsertElementOp::create(builder, loc, vector, ops.toMemory(elements[size_t(lane)], dtype),
                                             integer(lane));
    LLVM::StoreOp::create(builder, loc, vector, address(dtype, base, item->first), bytesAt(dtype, lanes));
  }

  /// Returns the row-major index of an element of the item, modulo 2^32.
  Value indexOf(int64_t lane) {
    Value index = sum(item->first, integer(lane));
    return number.isInteger(64) ? arith::TruncIOp::create(builder, loc, builder.getI32Type(), index).getResult()
                                : index;
  }
  Value integer(int64_t value) { return arith::ConstantIntOp::create(builder, loc, number, value); }
  Value sum(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value product(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  /// Reads a special register of the GPU.
  Value special(const char *name) {
    Value read = LLVM::CallIntrinsicOp::create(builder, loc, builder.getI32Type(),
                                               builder.getStringAttr(std::string(kSpecial) + name), ValueRange())
                     .getResult(0);
    return number.isInteger(64) ? arith::ExtUIOp::create(builder, loc, number, read).getResult() : read;
  }

  ModuleOp module;
  const package::Function &function;
  const package::KernelSpace &space;
  const package::PtxItems items;
  const std::vector<int> stored;
  const std::optional<package::PtxReduction> reduction;
  OpBuilder builder;
  ElementOps ops{builder};
  Location loc;
  Type plain, global, number; // pointers to any memory and to the GPU's; type of numbers of items and elements
  std::vector<const Instruction *> makers; // for each value: the instruction that computes it; null for arguments
  llvm::DenseMap<int, int> broadcastOf;    // value -> its index in KernelSpace::broadcasts
  llvm::DenseMap<int, Value> arguments;    // argument -> its address
  SmallVector<Value> results;              // addresses of `stored`
  SmallVector<Value> reducedResults;       // addresses of the reductions' results
  Item *item = nullptr;                    // the current item
  int64_t lanes = 1;                       // the number of its elements
};
} // namespace

void buildPtxKernel(ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                    const std::string &entry) {
  PtxBuilder(module, function, space).run(entry);
}

} // namespace kerf::codegen
