// SPDX-License-Identifier: Apache-2.0
// Utilities for functions that kerf.call calls. A call whose operands or results change is replaced, because the number
// of results of an op is fixed.
#include "Calls.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

SmallVector<CallOp> kerf::callsOf(ModuleOp module, func::FuncOp function) {
  SmallVector<CallOp> calls;
  module.walk([&](CallOp call) {
    if (call.getCallee() == function.getSymName())
      calls.push_back(call);
  });
  return calls;
}

CallOp kerf::rebuildCall(CallOp call, ValueRange operands, TypeRange types,
                         llvm::function_ref<int64_t(int64_t oldResult)> newResult) {
  OpBuilder builder(call);
  auto rebuilt = CallOp::create(builder, call.getLoc(), types, call.getCallee(), operands);
  rebuilt->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  for (auto [i, result] : llvm::enumerate(call.getResults()))
    if (int64_t to = newResult(static_cast<int64_t>(i)); to >= 0)
      result.replaceAllUsesWith(rebuilt.getResult(to));
  call.erase();
  return rebuilt;
}

bool kerf::eraseDeadOps(Block &block) {
  bool changed = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && (isMemoryEffectFree(&op) || isa<CallOp>(op)) && !op.hasTrait<OpTrait::IsTerminator>()) {
      op.erase();
      changed = true;
    }
  return changed;
}

/// Returns whether the function lost a result or an argument.
static bool pruneFunction(func::FuncOp function, ArrayRef<CallOp> calls) {
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  unsigned resultCount = terminator->getNumOperands();
  BitVector unusedResults(resultCount, true);
  for (CallOp call : calls)
    for (unsigned i = 0; i < resultCount; ++i)
      if (!call.getResult(i).use_empty())
        unusedResults.reset(i);
  terminator->eraseOperands(unusedResults);
  eraseDeadOps(block);

  BitVector unusedArguments(block.getNumArguments());
  for (BlockArgument argument : block.getArguments())
    if (argument.use_empty())
      unusedArguments.set(argument.getArgNumber());
  if (unusedResults.none() && unusedArguments.none())
    return false;

  SmallVector<Type> types(terminator->getOperandTypes());
  SmallVector<int64_t> newIndex;
  int64_t kept = 0;
  for (unsigned i = 0; i < resultCount; ++i)
    newIndex.push_back(unusedResults.test(i) ? -1 : kept++);
  for (CallOp call : calls) {
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(call.getInputs()))
      if (!unusedArguments.test(i))
        operands.push_back(operand);
    rebuildCall(call, operands, types, [&](int64_t i) { return newIndex[i]; });
  }
  return succeeded(function.eraseArguments(unusedArguments)) && succeeded(function.eraseResults(unusedResults));
}

void kerf::pruneCalls(ModuleOp module) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (function.isDeclaration())
        continue;
      SmallVector<CallOp> calls = callsOf(module, function);
      if (!function.isPrivate()) {
        changed |= eraseDeadOps(function.getBody().front());
      } else if (calls.empty()) {
        function.erase();
        changed = true;
      } else {
        changed |= pruneFunction(function, calls);
      }
    }
  }
}

Type kerf::elementOf(Type type) {
  auto pending = dyn_cast<PendingType>(type);
  return cast<RankedTensorType>(pending ? pending.getTensor() : type).getElementType();
}

Type kerf::withElement(Type type, Type element) {
  if (auto pending = dyn_cast<PendingType>(type))
    return PendingType::get(type.getContext(), cast<RankedTensorType>(withElement(pending.getTensor(), element)));
  return cast<RankedTensorType>(type).clone(element);
}

bool kerf::isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto main = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!main || main.getSymName() != KerfDialect::kEntryName)
    return false;
  auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
  return kind && kind.getValue() == "parameter";
}

SmallVector<unsigned> kerf::metricResults(func::FuncOp main) {
  llvm::SmallDenseSet<int64_t> replacing;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto by = main.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kUpdatedByAttr))
      replacing.insert(by.getInt());
  SmallVector<unsigned> metrics;
  for (unsigned i = 1; i < main.getNumResults(); ++i) {
    auto type = dyn_cast<RankedTensorType>(main.getResultTypes()[i]);
    auto name = main.getResultAttrOfType<StringAttr>(i, KerfDialect::kNameAttr);
    if (type && type.getRank() == 0 && isa<FloatType>(type.getElementType()) && name &&
        !name.getValue().starts_with("gradient/") && !replacing.contains(i))
      metrics.push_back(i);
  }
  return metrics;
}

LogicalResult kerf::splitRepeat(CallOp call, func::FuncOp main) {
  auto repeat = call->getAttrOfType<IntegerAttr>(KerfDialect::kRepeatAttr);
  if (!repeat)
    return success();
  std::string own = nodeName(call.getLoc());
  StringRef module = StringRef(own).rtrim("0123456789");
  int64_t first = 0;
  if (call.getNumResults() != 1 || StringRef(own).drop_front(module.size()).getAsInteger(10, first))
    return call.emitError() << "stands for " << repeat.getInt() << " layers that cannot be separated; the call has "
                            << call.getNumResults() << " results and the location '" << own
                            << "', but needs one result and a location that ends in the number of its first layer";
  call->removeAttr(KerfDialect::kRepeatAttr);
  OpBuilder builder(call->getContext());
  CallOp last = call;
  for (int64_t layer = 1; layer < repeat.getInt(); ++layer) {
    std::string name = (module + Twine(first + layer)).str();
    SmallVector<Value> operands = {last.getResult(0)};
    for (Value operand : call.getInputs().drop_front()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      NamedAttrList attributes(argument ? main.getArgAttrDict(argument.getArgNumber()) : DictionaryAttr());
      auto its = argument ? cast_or_null<StringAttr>(attributes.get(KerfDialect::kNameAttr)) : StringAttr();
      StringRef rest = its ? its.getValue() : "";
      if (!rest.consume_front(own + ".")) { // all layers share this operand
        operands.push_back(operand);
        continue;
      }
      attributes.set(KerfDialect::kNameAttr, builder.getStringAttr(name + "." + rest));
      unsigned index = main.getNumArguments();
      (void)main.insertArgument(index, operand.getType(), attributes.getDictionary(builder.getContext()),
                                operand.getLoc());
      operands.push_back(main.getArgument(index));
    }
    builder.setInsertionPointAfter(last);
    auto next = CallOp::create(builder, NameLoc::get(builder.getStringAttr(name)), call.getResultTypes(),
                               call.getCallee(), operands);
    last.getResult(0).replaceAllUsesExcept(next.getResult(0), next);
    last = next;
  }
  return success();
}
