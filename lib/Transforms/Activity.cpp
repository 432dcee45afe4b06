// SPDX-License-Identifier: Apache-2.0
// Activity analysis: forward and backward spreading over all functions until nothing changes, then the checks.
#include "Activity.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

static func::FuncOp calleeOf(CallOp call, SymbolTable &symbols) {
  return symbols.lookup<func::FuncOp>(call.getCallee());
}

static Operation *returnOf(func::FuncOp function) { return function.getBody().front().getTerminator(); }

static std::string nodeOf(Operation *op) {
  std::string node = nodeName(op->getLoc());
  return node.empty() ? "(no name)" : node;
}

/// Appends callees before callers. A function is appended after its callees; `open` lists the functions on the current
/// call path.
LogicalResult Activity::order(func::FuncOp function, SymbolTable &symbols, SmallVectorImpl<func::FuncOp> &open) {
  if (llvm::is_contained(functions, function))
    return success();
  open.push_back(function);
  if (!function.getBody().hasOneBlock())
    return function.emitOpError() << "has " << function.getBody().getBlocks().size()
                                  << " blocks; differentiation needs one";
  for (CallOp call : function.getBody().front().getOps<CallOp>()) {
    func::FuncOp callee = calleeOf(call, symbols);
    if (llvm::is_contained(open, callee))
      return call.emitOpError() << "calls @" << call.getCallee() << " from inside of it; a layer may not call itself";
    if (failed(order(callee, symbols, open)))
      return failure();
  }
  open.pop_back();
  functions.push_back(function);
  return success();
}

LogicalResult Activity::checkLoss(func::FuncOp main) const {
  Operation *terminator = returnOf(main);
  if (terminator->getNumOperands() == 0)
    return main.emitOpError() << "returns nothing; its first result must be the loss";
  Value loss = terminator->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(loss.getType());
  if (!type || type.getRank() != 0 || !isFloat(loss))
    return emitError(loss.getLoc())
           << "the loss has type " << loss.getType()
           << ", not that of a floating scalar (tensor<f32>); choose another output with <loss>";
  if (active.contains(loss))
    return success();
  int64_t trainable = 0;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    trainable += static_cast<bool>(main.getArgAttr(i, KerfDialect::kTrainableAttr));
  return emitError(loss.getLoc()) << "the loss depends on none of the " << trainable
                                  << " trainable parameters; choose others with <trainable>";
}

/// Returns whether it found more active values.
bool Activity::spreadForward(func::FuncOp function, SymbolTable &symbols) {
  bool changed = false;
  auto mark = [&](Value value) { changed |= isFloat(value) && active.insert(value).second; };
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto isActive = [&](Value value) { return active.contains(value); };
    if (auto call = dyn_cast<CallOp>(op)) {
      func::FuncOp callee = calleeOf(call, symbols);
      for (auto [operand, argument] : llvm::zip(call.getInputs(), callee.getArguments()))
        if (isActive(operand))
          mark(argument);
      for (auto [result, returned] : llvm::zip(call.getResults(), returnOf(callee)->getOperands()))
        if (isActive(returned))
          mark(result);
    } else if (llvm::any_of(op.getOperands(), isActive)) {
      llvm::for_each(op.getResults(), mark);
    }
  }
  return changed;
}

/// Returns whether it found more useful values.
bool Activity::spreadBackward(func::FuncOp function, SymbolTable &symbols) {
  bool changed = false;
  auto mark = [&](Value value) { changed |= active.contains(value) && useful.insert(value).second; };
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
    auto isUsefulValue = [&](Value value) { return useful.contains(value); };
    if (auto call = dyn_cast<CallOp>(op)) {
      func::FuncOp callee = calleeOf(call, symbols);
      for (auto [result, returned] : llvm::zip(call.getResults(), returnOf(callee)->getOperands()))
        if (isUsefulValue(result))
          mark(returned);
      for (auto [operand, argument] : llvm::zip(call.getInputs(), callee.getArguments()))
        if (isUsefulValue(argument))
          mark(operand);
    } else if (llvm::any_of(op.getResults(), isUsefulValue)) {
      llvm::for_each(op.getOperands(), mark);
    }
  }
  return changed;
}

/// Returns the names of the trainable parameters of `main` on which `op` depends; empty for an op of a called function.
static std::string parametersBefore(Operation *op, func::FuncOp main) {
  llvm::SetVector<Value> seen(op->operand_begin(), op->operand_end());
  std::string names;
  for (size_t i = 0; i < seen.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(seen[i]);
    if (!argument) {
      seen.insert(seen[i].getDefiningOp()->operand_begin(), seen[i].getDefiningOp()->operand_end());
    } else if (argument.getOwner()->getParentOp() == main &&
               main.getArgAttr(argument.getArgNumber(), KerfDialect::kTrainableAttr)) {
      auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
      names += (names.empty() ? "'" : ", '") + name.str() + "'";
    }
  }
  return names;
}

LogicalResult Activity::checkGradients(func::FuncOp main) const {
  SmallVector<Operation *> missing;
  auto isUsefulValue = [&](Value value) { return useful.contains(value); };
  for (func::FuncOp function : functions)
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<CallOp, GradientOpInterface>(op) && llvm::any_of(op.getResults(), isUsefulValue) &&
          llvm::any_of(op.getOperands(), isUsefulValue))
        missing.push_back(&op);
  if (missing.empty())
    return success();
  Operation *first = missing.front();
  std::string names = parametersBefore(first, main);
  InFlightDiagnostic error = emitError(first->getLoc())
                             << first->getName() << " at node '" << nodeOf(first)
                             << "' has no gradient, but stands between trainable parameters"
                             << (names.empty() ? "" : " (" + names + ")") << " and the loss; freeze them with <frozen>";
  for (Operation *op : ArrayRef(missing).drop_front())
    error.attachNote(op->getLoc()) << "so does " << op->getName() << " at node '" << nodeOf(op) << "'";
  return error;
}

FailureOr<Activity> Activity::compute(ModuleOp module) {
  Activity activity;
  SymbolTable symbols(module);
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  if (!main)
    return module.emitError() << "no function @" << KerfDialect::kEntryName << "; import a model first";
  SmallVector<func::FuncOp> open;
  if (failed(activity.order(main, symbols, open)))
    return failure();
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!main.getArgAttr(index, KerfDialect::kTrainableAttr))
      continue;
    if (!main.getArgAttrOfType<StringAttr>(index, KerfDialect::kNameAttr))
      return emitError(argument.getLoc())
             << "trainable argument " << index << " has no " << KerfDialect::kNameAttr << "; give it one";
    if (!isFloat(argument))
      return emitError(argument.getLoc()) << "trainable argument " << index << " has type " << argument.getType()
                                          << "; only floating-point tensors can be trained, so freeze it with <frozen>";
    activity.active.insert(argument);
  }
  auto spread = [&](bool (Activity::*step)(func::FuncOp, SymbolTable &)) {
    bool changed = true;
    while (changed) {
      changed = false;
      for (func::FuncOp function : llvm::reverse(activity.functions))
        changed |= (activity.*step)(function, symbols);
    }
  };
  spread(&Activity::spreadForward);
  if (failed(activity.checkLoss(main)))
    return failure();
  activity.useful.insert(returnOf(main)->getOperand(0));
  spread(&Activity::spreadBackward);
  if (failed(activity.checkGradients(main)))
    return failure();
  return activity;
}
