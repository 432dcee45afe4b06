// SPDX-License-Identifier: Apache-2.0
// kerf-convert-once: converts parameters to 16 bits once a step, and not in every call of a layer.
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include <optional>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_CONVERTONCE
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Returns whether elements of type `one` have fewer bits than elements of type `other`.
bool isNarrower(Type one, Type other) { return one.getIntOrFloatBitWidth() < other.getIntOrFloatBitWidth(); }

/// Returns whether the op only brings shards together, so that it may as well do so after a conversion.
bool onlyMoves(Operation *op) { return isa<AllGatherOp, WaitOp>(op); }

/// Returns the element type to which all uses of `value` convert it, or null where some use does not.
Type convertedTo(Value value) {
  Type common;
  for (Operation *user : value.getUsers()) {
    auto convert = dyn_cast<ConvertOp>(user);
    if (!convert && !onlyMoves(user))
      return {};
    Type its = convert ? elementOf(convert.getType()) : convertedTo(user->getResult(0));
    if (!its || (common && common != its))
      return {};
    common = its;
  }
  return common;
}

/// Gives `value` elements of type `element`, and all values that are made of it up to its conversions, which go.
void convertEarlier(Value value, Type element) {
  value.setType(withElement(value.getType(), element));
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    if (onlyMoves(user)) {
      convertEarlier(user->getResult(0), element);
      continue;
    }
    user->getResult(0).replaceAllUsesWith(value);
    user->erase();
  }
}

struct ConvertOnce : impl::ConvertOnceBase<ConvertOnce> {
  void runOnOperation() override {
    main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    atStart.emplace(OpBuilder::atBlockBegin(&main.front()));
    bool changed = rewriteMain();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function != main && !function.isDeclaration())
        changed |= rewrite(function);
    // All gathers start before the first one is awaited, so that they can run together.
    for (Operation *wait : waits)
      if (llvm::none_of(wait->getUsers(), onlyMoves))
        wait->moveBefore(atStart->getInsertionBlock(), atStart->getInsertionPoint());
    if (changed)
      pruneCalls(getOperation());
  }

private:
  /// Returns whether the value is a parameter of the step, or is gathered from its shards.
  bool isFixed(Value value) {
    Operation *op = value.getDefiningOp();
    return op ? onlyMoves(op) && isFixed(op->getOperand(0)) : isParameter(value);
  }

  /// Returns a fixed value converted to elements of type `element`: shards are converted, and then gathered. There is
  /// one conversion for each parameter and type.
  Value converted(Value value, Type element) {
    Value &known = copies[{value, element}];
    if (known)
      return known;
    Type type = withElement(value.getType(), element);
    Value made;
    if (Operation *op = value.getDefiningOp()) {
      IRMapping mapping;
      mapping.map(op->getOperand(0), converted(op->getOperand(0), element));
      made = atStart->clone(*op, mapping)->getResult(0);
      made.setType(type);
      if (isa<WaitOp>(op))
        waits.push_back(made.getDefiningOp());
    } else {
      made = ConvertOp::create(*atStart, value.getLoc(), type, value);
    }
    return copies[{value, element}] = made;
  }

  /// Makes @main, too, convert parameters before it gathers them. Returns whether a conversion changed.
  bool rewriteMain() {
    bool changed = false;
    for (auto convert : llvm::make_early_inc_range(main.getOps<ConvertOp>())) {
      Value value = convert.getOperand();
      Type element = elementOf(convert.getType());
      if (!value.getDefiningOp() || !isFixed(value) || !isNarrower(element, elementOf(value.getType())))
        continue;
      convert.getResult().replaceAllUsesWith(converted(value, element));
      convert.erase();
      changed = true;
    }
    return changed;
  }

  /// Moves the conversions of a function's arguments to its callers. Returns whether there were any.
  bool rewrite(func::FuncOp function) {
    SmallVector<CallOp> calls = callsOf(getOperation(), function);
    Block &body = function.getBody().front();
    BitVector moved(body.getNumArguments());
    for (BlockArgument argument : body.getArguments()) {
      unsigned index = argument.getArgNumber();
      if (calls.empty() || llvm::any_of(calls, [&](CallOp call) { return !isFixed(call.getInputs()[index]); }))
        continue;
      Type element = convertedTo(argument);
      if (!element || !isNarrower(element, elementOf(argument.getType())))
        continue;
      for (CallOp call : calls)
        call->setOperand(index, converted(call.getInputs()[index], element));
      convertEarlier(argument, element);
      if (auto global = function.getArgAttrOfType<TypeAttr>(index, KerfDialect::kGlobalTypeAttr))
        function.setArgAttr(index, KerfDialect::kGlobalTypeAttr,
                            TypeAttr::get(withElement(global.getValue(), element)));
      moved.set(index);
    }
    if (moved.none())
      return false;
    function.setFunctionType(
        FunctionType::get(&getContext(), body.getArgumentTypes(), function.getFunctionType().getResults()));
    // The function no longer makes these values, so that its results need not have them.
    for (auto [result, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (auto argument = dyn_cast<BlockArgument>(value); argument && moved.test(argument.getArgNumber()))
        for (CallOp call : calls)
          call.getResult(result).replaceAllUsesWith(call.getInputs()[argument.getArgNumber()]);
    return true;
  }

  func::FuncOp main;
  std::optional<OpBuilder> atStart;               // adds ops to the beginning of @main, in order
  DenseMap<std::pair<Value, Type>, Value> copies; // converted values, by value and element type
  SmallVector<Operation *> waits;                 // among them, those that wait for a gather
};

} // namespace
} // namespace kerf
