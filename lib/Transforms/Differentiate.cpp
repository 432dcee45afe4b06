// SPDX-License-Identifier: Apache-2.0
// kerf-differentiate: reverse-mode gradients of the loss. Activity.h determines which values need a gradient, and each
// op defines its own (GradientOpInterface). This file adds up the gradients of a value's users, and splits a called
// function into a forward and a backward function.
#include "Activity.h"
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace kerf {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

namespace {

/// The backward function of a called function, and what its call takes from the forward call and gives back.
struct BackwardFunction {
  func::FuncOp function;
  SmallVector<unsigned> results;   // results of the forward function whose gradients the backward function reads
  SmallVector<unsigned> saved;     // results of the forward function that the backward function reads
  SmallVector<unsigned> arguments; // arguments of the forward function whose gradients it returns
};

/// A listener that marks new ops as backward and gives them the location of a forward op.
class BackwardMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override { inserted.push_back(op); }
  void mark(Location location) {
    for (Operation *op : inserted) {
      op->setLoc(location);
      op->setAttr(KerfDialect::kBackwardAttr, UnitAttr::get(op->getContext()));
    }
    inserted.clear();
  }

private:
  SmallVector<Operation *> inserted;
};

Value constantOf(OpBuilder &builder, Location location, Type type, double number) {
  auto tensor = cast<RankedTensorType>(type);
  auto value = DenseElementsAttr::get(tensor, builder.getFloatAttr(tensor.getElementType(), number));
  return ConstantOp::create(builder, location, tensor, value);
}

class Differentiator {
public:
  Differentiator(ModuleOp module, func::FuncOp main, Activity &activity)
      : module(module), main(main), symbols(module), activity(activity), builder(module.getContext(), &marker) {}

  LogicalResult run() {
    for (func::FuncOp function : activity.calleesFirst())
      if (function != main && failed(differentiateCallee(function)))
        return failure();
    return differentiateMain();
  }

private:
  LogicalResult differentiateMain();
  FailureOr<Value> seedOf(Value loss);
  LogicalResult differentiateCallee(func::FuncOp function);
  func::FuncOp outlineBackward(func::FuncOp function, ArrayRef<Operation *> backwardOps, ArrayRef<BlockArgument> seeds,
                               ArrayRef<Value> results, BackwardFunction &info);
  void returnSaved(func::FuncOp function, ArrayRef<Value> saved, BackwardFunction &info);
  LogicalResult sweep(Block &block, ArrayRef<Operation *> forward);
  LogicalResult sweepOp(Operation *op, ArrayRef<Value> resultGradients);
  LogicalResult sweepCall(CallOp call, ArrayRef<Value> resultGradients);
  LogicalResult accumulate(Operation *user, Value value, Value gradient);

  ModuleOp module;
  func::FuncOp main;
  SymbolTable symbols;
  Activity &activity;
  BackwardMarker marker;
  OpBuilder builder;
  /// The sum of the gradients found so far, for each value of the current function.
  DenseMap<Value, Value> gradients;
  llvm::MapVector<StringAttr, BackwardFunction> backwardOf;
};

/// The gradient of a value has the value's type. The gradient of a value in 8 bits is wider: all of its summands have
/// the type of the first one.
LogicalResult Differentiator::accumulate(Operation *user, Value value, Value gradient) {
  Value &sum = gradients[value];
  Type type = !isFloat8(tensorType(value).getElementType()) ? value.getType()
              : sum                                         ? sum.getType()
                                                            : gradient.getType();
  if (gradient.getType() != type)
    return user->emitOpError() << "its gradient for an operand of type " << value.getType() << " has type "
                               << gradient.getType() << "; it must be " << type;
  sum = sum ? AddOp::create(builder, user->getLoc(), type, sum, gradient).getResult() : gradient;
  return success();
}

LogicalResult Differentiator::sweepOp(Operation *op, ArrayRef<Value> resultGradients) {
  SmallVector<bool> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(activity.isUseful(operand));
  auto differentiable = dyn_cast<GradientOpInterface>(op);
  if (!differentiable || llvm::none_of(wanted, [](bool w) { return w; }))
    return success();
  SmallVector<Value> operandGradients(wanted.size());
  if (failed(differentiable.buildGradient(builder, resultGradients, wanted, operandGradients)))
    return failure();
  for (auto [operand, isWanted, gradient] : llvm::zip(op->getOperands(), wanted, operandGradients))
    if (isWanted && gradient && failed(accumulate(op, operand, gradient)))
      return failure();
  return success();
}

LogicalResult Differentiator::sweepCall(CallOp call, ArrayRef<Value> resultGradients) {
  auto found = backwardOf.find(call.getCalleeAttr().getAttr());
  if (found == backwardOf.end())
    return success();
  BackwardFunction &backward = found->second;
  SmallVector<Value> operands;
  for (unsigned index : backward.saved)
    operands.push_back(call.getResult(index));
  llvm::append_range(operands, call.getInputs());
  for (unsigned index : backward.results) {
    Value gradient = resultGradients[index];
    operands.push_back(gradient ? gradient : constantOf(builder, call.getLoc(), call.getResult(index).getType(), 0.0));
  }
  auto backwardCall = CallOp::create(builder, call.getLoc(), backward.function.getResultTypes(),
                                     backward.function.getSymName(), operands);
  for (auto [index, gradient] : llvm::zip(backward.arguments, backwardCall.getResults()))
    if (activity.isUseful(call.getInputs()[index]) && failed(accumulate(call, call.getInputs()[index], gradient)))
      return failure();
  return success();
}

/// Emits the gradients of all useful values of `forward` at the end of `block`, starting from those in `gradients`.
LogicalResult Differentiator::sweep(Block &block, ArrayRef<Operation *> forward) {
  builder.setInsertionPoint(block.getTerminator());
  for (Operation *op : llvm::reverse(forward)) {
    SmallVector<Value> resultGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(gradients.lookup(result));
    if (llvm::none_of(resultGradients, [](Value gradient) { return static_cast<bool>(gradient); }))
      continue;
    auto call = dyn_cast<CallOp>(op);
    if (failed(call ? sweepCall(call, resultGradients) : sweepOp(op, resultGradients)))
      return failure();
    marker.mark(op->getLoc());
  }
  return success();
}

SmallVector<Operation *> opsOf(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  return ops;
}

/// The gradients are first emitted after the forward ops, where they can use all values of the function. Then they move
/// into a function of their own, and the forward values that they use become results of the forward function.
LogicalResult Differentiator::differentiateCallee(func::FuncOp function) {
  Block &block = function.getBody().front();
  BackwardFunction info;
  SmallVector<CallOp> calls = callsOf(module, function);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (llvm::any_of(calls, [&](CallOp call) { return activity.isUseful(call.getResult(i)); }))
      info.results.push_back(i);
  SmallVector<Operation *> forward = opsOf(block);
  SmallVector<Value> arguments(block.getArguments().begin(), block.getArguments().end());

  gradients.clear();
  SmallVector<BlockArgument> seeds;
  builder.setInsertionPoint(block.getTerminator());
  for (unsigned index : info.results) {
    Value result = block.getTerminator()->getOperand(index);
    seeds.push_back(block.addArgument(result.getType(), result.getLoc()));
    if (failed(accumulate(block.getTerminator(), result, seeds.back())))
      return failure();
  }
  marker.mark(function.getLoc());
  if (failed(sweep(block, forward)))
    return failure();

  SmallVector<Value> results;
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (Value gradient = gradients.lookup(argument); gradient && activity.isUseful(argument)) {
      info.arguments.push_back(static_cast<unsigned>(i));
      results.push_back(gradient);
    }
  SmallVector<Operation *> backwardOps(ArrayRef(opsOf(block)).drop_front(forward.size()));
  if (!results.empty()) {
    info.function = outlineBackward(function, backwardOps, seeds, results, info);
    backwardOf[function.getSymNameAttr()] = info;
  }
  for (Operation *op : llvm::reverse(backwardOps))
    op->erase();
  block.eraseArguments(arguments.size(), seeds.size());
  return success();
}

bool isMagnitude(Operation *op) { return op->hasAttr(KerfDialect::kPerMicrobatchAttr); }

/// Returns whether the op converts an argument that is a parameter in all calls, or is a step of its quantization. The
/// backward function does so again, so that no copy has to be kept for each microbatch; kerf-convert-once then makes
/// one conversion of the two.
bool convertsParameter(Operation *op, ArrayRef<CallOp> calls) {
  bool quantizes =
      isa<QuantizeOp>(op) || isMagnitude(op) || (isa<AbsOp>(op) && llvm::all_of(op->getUsers(), isMagnitude));
  if (!isa<ConvertOp>(op) && !quantizes)
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    if (auto argument = dyn_cast<BlockArgument>(operand))
      return llvm::all_of(calls, [&](CallOp call) {
        unsigned number = argument.getArgNumber();
        return number < call.getInputs().size() && isParameter(call.getInputs()[number]);
      });
    return quantizes && convertsParameter(operand.getDefiningOp(), calls);
  });
}

bool isPointwise(Operation *op) {
  auto work = dyn_cast<WorkOpInterface>(op);
  return work && work.getKernelClass() == KernelClass::Pointwise && !op->hasTrait<FusesIntoUsers>();
}

/// Returns whether the value can be had without running an op that has a kernel of its own: it is an argument, is in
/// `kept`, or is cheaper to recompute from such values.
bool isAtHand(Value value, const DenseSet<Value> &kept) {
  Operation *op = value.getDefiningOp();
  return !op || kept.contains(value) ||
         (isCheaperToRecompute(op) &&
          llvm::all_of(op->getOperands(), [&](Value operand) { return isAtHand(operand, kept); }));
}

/// Returns whether only pointwise ops of the backward (`live`) read the value, directly or in another view.
bool onlyPointwiseReads(Value value, const DenseSet<Operation *> &live) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (live.contains(user))
      return isPointwise(user);
    return !isCheaperToRecompute(user) || onlyPointwiseReads(user->getResult(0), live);
  });
}

/// Removes results of pointwise ops from the saved values if their operands are at hand, and if only pointwise ops of
/// the backward read them: the kernels that read them compute them again (SwiGLU saves gate and up, but not the
/// activated gate). The cost model assumes the same (Bridge::recomputedValues).
void dropRecomputed(llvm::SetVector<Value> &saved, ArrayRef<Value> results, const DenseSet<Operation *> &live) {
  const DenseSet<Value> kept(saved.begin(), saved.end());
  saved.remove_if([&](Value value) {
    Operation *op = value.getDefiningOp();
    return isPointwise(op) && !llvm::is_contained(results, value) && onlyPointwiseReads(value, live) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isAtHand(operand, kept); });
  });
}

/// Creates @layer_backward(saved values, forward arguments, gradients of results) -> gradients of arguments. Arguments
/// without uses are removed later, when calls are pruned.
func::FuncOp Differentiator::outlineBackward(func::FuncOp function, ArrayRef<Operation *> backwardOps,
                                             ArrayRef<BlockArgument> seeds, ArrayRef<Value> results,
                                             BackwardFunction &info) {
  DenseSet<Operation *> own(backwardOps.begin(), backwardOps.end());
  DenseSet<Operation *> live;
  for (Value result : results)
    live.insert(result.getDefiningOp());
  for (Operation *op : llvm::reverse(backwardOps))
    if (live.contains(op))
      for (Value operand : op->getOperands())
        live.insert(operand.getDefiningOp());

  SmallVector<CallOp> calls = callsOf(module, function);
  llvm::SetVector<Value> saved;
  std::function<void(Value)> save = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || own.contains(op))
      return;
    if (!isCheaperToRecompute(op) && !convertsParameter(op, calls)) {
      saved.insert(value);
      return;
    }
    for (Value operand : op->getOperands())
      save(operand);
  };
  for (Operation *op : backwardOps)
    if (live.contains(op))
      llvm::for_each(op->getOperands(), save);
  for (Value result : results)
    save(result);
  dropRecomputed(saved, results, live);

  OpBuilder outer(function->getContext());
  outer.setInsertionPointAfter(function);
  auto backward = func::FuncOp::create(outer, function.getLoc(), (function.getSymName() + "_backward").str(),
                                       outer.getFunctionType({}, {}));
  backward.setPrivate();
  symbols.insert(backward);
  Block *body = backward.addEntryBlock();
  IRMapping mapping;
  auto addArgument = [&](Value value) { mapping.map(value, body->addArgument(value.getType(), value.getLoc())); };
  llvm::for_each(saved, addArgument);
  Block &block = function.getBody().front();
  llvm::for_each(block.getArguments().drop_back(seeds.size()), addArgument);
  llvm::for_each(seeds, addArgument);

  OpBuilder inner = OpBuilder::atBlockEnd(body);
  std::function<void(Value)> makeAgain = [&](Value value) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    llvm::for_each(op->getOperands(), makeAgain);
    Operation *clone = inner.clone(*op, mapping);
    clone->setAttr(KerfDialect::kBackwardAttr, inner.getUnitAttr());
  };
  for (Operation *op : backwardOps)
    if (live.contains(op))
      makeAgain(op->getResult(0));
  SmallVector<Value> returned;
  for (Value result : results) {
    makeAgain(result);
    returned.push_back(mapping.lookup(result));
  }
  func::ReturnOp::create(inner, function.getLoc(), returned);
  backward.setFunctionType(inner.getFunctionType(body->getArgumentTypes(), ValueRange(returned).getTypes()));
  returnSaved(function, saved.getArrayRef(), info);
  return backward;
}

/// Appends the saved values to the results of the function and of its calls, except for those that it already returns.
void Differentiator::returnSaved(func::FuncOp function, ArrayRef<Value> saved, BackwardFunction &info) {
  Operation *terminator = function.getBody().front().getTerminator();
  unsigned before = terminator->getNumOperands();
  for (Value value : saved) {
    auto operands = terminator->getOperands();
    auto found = llvm::find(operands, value);
    info.saved.push_back(static_cast<unsigned>(found - operands.begin()));
    if (found == operands.end())
      terminator->insertOperands(terminator->getNumOperands(), value);
  }
  SmallVector<Type> types(terminator->getOperandTypes());
  for (unsigned i = before; i < types.size(); ++i)
    (void)function.insertResult(i, types[i], {});
  for (CallOp call : callsOf(module, function)) {
    SmallVector<bool> useful;
    for (Value result : call.getResults())
      useful.push_back(activity.isUseful(result));
    CallOp rebuilt = rebuildCall(call, call.getInputs(), types, [](int64_t i) { return i; });
    for (auto [i, isUseful] : llvm::enumerate(useful))
      if (isUseful)
        activity.markUseful(rebuilt.getResult(i));
  }
}

/// Returns the gradient of the loss itself: 1, or the loss scale where there is one.
FailureOr<Value> Differentiator::seedOf(Value loss) {
  for (BlockArgument argument : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
    if (!name || name.getValue() != KerfDialect::kLossScaleName)
      continue;
    if (argument.getType() != loss.getType())
      return main.emitOpError() << "the loss has type " << loss.getType() << ", but its scale "
                                << KerfDialect::kLossScaleName << " has type " << argument.getType()
                                << "; they must be equal";
    return Value(argument);
  }
  return constantOf(builder, loss.getLoc(), loss.getType(), 1.0);
}

LogicalResult Differentiator::differentiateMain() {
  Block &block = main.getBody().front();
  Operation *terminator = block.getTerminator();
  Value loss = terminator->getOperand(0);
  SmallVector<Operation *> forward = opsOf(block);
  gradients.clear();
  builder.setInsertionPoint(terminator);
  FailureOr<Value> seed = seedOf(loss);
  if (failed(seed))
    return failure();
  gradients[loss] = *seed;
  marker.mark(loss.getLoc());
  if (failed(sweep(block, forward)))
    return failure();

  SmallVector<Value> returned = {loss};
  SmallVector<DictionaryAttr> attributes = {main.getResultAttrDict(0)};
  const SmallVector<unsigned> metrics = metricResults(main);
  for (unsigned i = 0; i < main.getNumArguments(); ++i) // the new values of buffers
    if (auto by = main.getArgAttrOfType<IntegerAttr>(i, KerfDialect::kUpdatedByAttr)) {
      auto result = static_cast<unsigned>(by.getInt());
      main.setArgAttr(i, KerfDialect::kUpdatedByAttr, builder.getI64IntegerAttr(static_cast<int64_t>(returned.size())));
      returned.push_back(terminator->getOperand(result));
      attributes.push_back(main.getResultAttrDict(result));
    }
  for (unsigned metric : metrics) {
    returned.push_back(terminator->getOperand(metric));
    attributes.push_back(main.getResultAttrDict(metric));
  }
  for (BlockArgument argument : block.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!main.getArgAttr(index, KerfDialect::kTrainableAttr))
      continue;
    auto name = main.getArgAttrOfType<StringAttr>(index, KerfDialect::kNameAttr);
    Value gradient = gradients.lookup(argument);
    if (!gradient) {
      emitWarning(argument.getLoc())
          << "parameter '" << name.getValue()
          << "' is not trained, because the loss does not depend on it; freeze it with <frozen> if this is intended";
      main.removeArgAttr(index, KerfDialect::kTrainableAttr);
      continue;
    }
    returned.push_back(gradient);
    NamedAttribute named(builder.getStringAttr(KerfDialect::kNameAttr),
                         builder.getStringAttr("gradient/" + name.getValue()));
    attributes.push_back(builder.getDictionaryAttr(named));
  }
  terminator->setOperands(returned);
  main.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), ValueRange(returned).getTypes()));
  main.setAllResultAttrs(attributes);
  return success();
}

struct DifferentiatePass : kerf::impl::DifferentiateBase<DifferentiatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Activity> activity = Activity::compute(module);
    if (failed(activity))
      return signalPassFailure();
    auto main = module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (failed(Differentiator(module, main, *activity).run()))
      return signalPassFailure();
    eraseDeadOps(main.getBody().front());
    pruneCalls(module);
  }
};
} // namespace
