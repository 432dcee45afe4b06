// SPDX-License-Identifier: Apache-2.0
// kerf-recompute: a layer's backward function makes values again that the forward one would have kept.
#include "Calls.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/RecomputePins.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_RECOMPUTE
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Whether a layer of this kind makes the op's results again.
bool isMadeAgain(Operation *op, StringRef kind) {
  if (std::optional<bool> pin = recomputePin(op))
    return *pin;
  return kind == "full" || (kind == "selective" && isAttentionCore(op));
}

/// The ops that make `values` again, and what they take on the way that must not be made again.
struct Making {
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> unmade;
};
Making makingOf(ArrayRef<Value> values, const llvm::DenseSet<Value> &kept) {
  Making making;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (kept.contains(value) || !op)
      continue;
    if (recomputePin(op) == false)
      making.unmade.insert(value);
    else if (making.ops.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  return making;
}

struct Recompute : impl::RecomputeBase<Recompute> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<CallOp> calls;
    module.walk([&](CallOp call) {
      if (call->hasAttr(KerfDialect::kRecomputeAttr))
        calls.push_back(call);
    });
    for (CallOp call : calls)
      if (failed(handOver(call, symbols)))
        return signalPassFailure();
    for (CallOp call : calls)
      rewrite(call, symbols);
    module.walk([](Operation *op) { op->removeAttr(KerfDialect::kRecomputeAttr); });
    pruneCalls(module);
  }

private:
  /// For each operand of a backward call: the result of the forward call that it is and that is made again, or -1.
  using Made = std::vector<int64_t>;

  LogicalResult handOver(CallOp call, SymbolTable &symbols);
  void rewrite(CallOp call, SymbolTable &symbols);
  func::FuncOp variant(func::FuncOp backward, func::FuncOp forward, const Made &made, StringRef kind,
                       SymbolTable &symbols);

  std::map<std::tuple<std::string, std::string, Made>, func::FuncOp> variants; // by the backward function and the kind
};

CallOp forwardCallOf(CallOp backward) {
  std::string name = backward.getCallee().str();
  for (Value operand : backward.getInputs())
    if (auto call = operand.getDefiningOp<CallOp>(); call && call.getCallee().str() + "_backward" == name)
      return call;
  return {};
}

StringRef kindOf(CallOp call) { return cast<StringAttr>(call->getAttr(KerfDialect::kRecomputeAttr)).getValue(); }

/// Arguments, and results that layers of this kind hand over.
llvm::DenseSet<Value> keptBy(func::FuncOp forward, StringRef kind) {
  Block &body = forward.front();
  llvm::DenseSet<Value> kept(body.getArguments().begin(), body.getArguments().end());
  for (Value result : body.getTerminator()->getOperands())
    if (Operation *op = result.getDefiningOp(); !op || !isMadeAgain(op, kind))
      kept.insert(result);
  return kept;
}

/// Of each operand of a backward call, the result of its layer that is made again, or -1.
std::vector<int64_t> madeAgainOf(CallOp call, CallOp forwardCall, func::FuncOp forward) {
  Operation *returned = forward.front().getTerminator();
  std::vector<int64_t> made;
  for (Value operand : call.getInputs()) {
    auto result = dyn_cast<OpResult>(operand);
    bool its = result && result.getOwner() == forwardCall;
    Operation *definer = its ? returned->getOperand(result.getResultNumber()).getDefiningOp() : nullptr;
    made.push_back(definer && isMadeAgain(definer, kindOf(call)) ? static_cast<int64_t>(result.getResultNumber()) : -1);
  }
  return made;
}

/// Adds what is not to be made again, and is needed to make something else again, to the results of the layer.
LogicalResult Recompute::handOver(CallOp call, SymbolTable &symbols) {
  auto kind = call->getAttrOfType<StringAttr>(KerfDialect::kRecomputeAttr);
  if (!kind || (kind != "none" && kind != "selective" && kind != "full"))
    return call.emitError() << "kerf.recompute is " << call->getAttr(KerfDialect::kRecomputeAttr)
                            << "; there are \"none\", \"selective\" and \"full\"";
  CallOp forwardCall = forwardCallOf(call);
  if (!forwardCall)
    return success();
  auto forward = symbols.lookup<func::FuncOp>(forwardCall.getCallee());
  Operation *returned = forward.front().getTerminator();
  SmallVector<Value> again;
  for (int64_t result : madeAgainOf(call, forwardCall, forward))
    if (result >= 0)
      again.push_back(returned->getOperand(static_cast<unsigned>(result)));
  Making making = makingOf(again, keptBy(forward, kind.getValue()));
  if (making.unmade.empty())
    return success();
  SmallVector<Value> added(making.unmade.begin(), making.unmade.end());
  SmallVector<unsigned> places(added.size(), returned->getNumOperands());
  SmallVector<DictionaryAttr> attributes(added.size(), DictionaryAttr::get(forward.getContext()));
  returned->insertOperands(returned->getNumOperands(), added);
  if (failed(forward.insertResults(places, ValueRange(added).getTypes(), attributes)))
    return failure();
  for (CallOp its : callsOf(getOperation(), forward))
    rebuildCall(its, its.getInputs(), returned->getOperandTypes(), [](int64_t result) { return result; });
  return success();
}

void Recompute::rewrite(CallOp call, SymbolTable &symbols) {
  std::string kind = kindOf(call).str();
  CallOp forwardCall = forwardCallOf(call);
  auto forward = forwardCall ? symbols.lookup<func::FuncOp>(forwardCall.getCallee()) : func::FuncOp();
  auto backward = symbols.lookup<func::FuncOp>(call.getCallee());
  Made made = forward ? madeAgainOf(call, forwardCall, forward) : Made();
  call->removeAttr(KerfDialect::kRecomputeAttr);
  if (llvm::all_of(made, [](int64_t result) { return result < 0; })) // it keeps nothing, or all
    return;
  func::FuncOp &callee = variants[{backward.getName().str(), kind, made}];
  if (!callee)
    callee = variant(backward, forward, made, kind, symbols);
  SmallVector<Value> operands;
  for (auto [operand, result] : llvm::zip(call.getInputs(), made))
    if (result < 0)
      operands.push_back(operand);
  llvm::append_range(operands, forwardCall.getInputs());
  llvm::append_range(operands, forwardCall.getOutputs()); // pruning drops what the variant does not use
  OpBuilder builder(call);
  auto rebuilt = CallOp::create(builder, call.getLoc(), call.getResultTypes(), callee.getSymName(), operands);
  rebuilt->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  call.replaceAllUsesWith(rebuilt.getResults());
  call.erase();
}

/// backward(what is kept, forward's arguments, forward's results): the values of `made` are computed first. What is
/// made again takes kept results of the forward function where there are any.
func::FuncOp Recompute::variant(func::FuncOp backward, func::FuncOp forward, const Made &made, StringRef kind,
                                SymbolTable &symbols) {
  OpBuilder outer(backward->getContext());
  outer.setInsertionPointAfter(backward);
  auto function = func::FuncOp::create(outer, backward.getLoc(), (backward.getName() + "_" + kind).str(),
                                       outer.getFunctionType({}, {}));
  function.setPrivate();
  symbols.insert(function);
  Block *body = function.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping ofBackward, ofForward;
  for (auto [argument, result] : llvm::zip(backward.getArguments(), made))
    if (result < 0)
      ofBackward.map(argument, body->addArgument(argument.getType(), argument.getLoc()));
  for (BlockArgument argument : forward.getArguments())
    ofForward.map(argument, body->addArgument(argument.getType(), argument.getLoc()));
  Operation *returned = forward.front().getTerminator();
  const llvm::DenseSet<Value> kept = keptBy(forward, kind);
  for (Value result : returned->getOperands()) {
    BlockArgument argument = body->addArgument(result.getType(), result.getLoc());
    if (result.getDefiningOp() && kept.contains(result))
      ofForward.map(result, argument);
  }
  SmallVector<Value> again;
  for (int64_t result : made)
    if (result >= 0)
      again.push_back(returned->getOperand(static_cast<unsigned>(result)));
  Making making = makingOf(again, kept);
  for (Operation &op : forward.front().without_terminator())
    if (making.ops.contains(&op))
      builder.clone(op, ofForward);
  for (auto [argument, result] : llvm::zip(backward.getArguments(), made))
    if (result >= 0)
      ofBackward.map(argument, ofForward.lookup(returned->getOperand(static_cast<unsigned>(result))));
  for (Operation &op : backward.front())
    builder.clone(op, ofBackward);
  function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), backward.getResultTypes()));
  return function;
}

} // namespace
} // namespace kerf
