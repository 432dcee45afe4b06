// SPDX-License-Identifier: Apache-2.0
// kerf-recompute: lets a layer's backward function recompute values that the forward function would otherwise save.
#include "kerf/CostModel/Recompute.h"
#include "Calls.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/RecomputePins.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <algorithm>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_RECOMPUTE
#include "kerf/Transforms/Passes.h.inc"

namespace {

using Ops = llvm::DenseSet<Operation *>;

/// Returns the ops whose results a layer with mode `kind` recomputes.
Ops recomputedUnder(func::FuncOp forward, StringRef kind) {
  const auto mode = parsePlanWord<kerf::Recompute>(kind);
  Block &body = forward.front();
  llvm::DenseSet<Value> kept(body.getArguments().begin(), body.getArguments().end());
  kept.insert_range(body.getTerminator()->getOperands());
  Ops pointwise;
  if (mode == kerf::Recompute::Pointwise)
    pointwise = pointwiseRecomputation(
        body, [&](Value value) { return kept.contains(value); }, [](OpOperand &) { return true; });
  Ops ops;
  for (Operation &op : body.without_terminator()) {
    const bool inMode = mode == kerf::Recompute::Full || pointwise.contains(&op) ||
                        (mode == kerf::Recompute::Selective && isAttentionCore(&op)) ||
                        (mode == kerf::Recompute::ExceptAttention && !isAttentionKernel(&op));
    if (recomputationPin(&op).value_or(inMode))
      ops.insert(&op);
  }
  return ops;
}

/// The ops that recompute some values, and the values that they need but that may not be recomputed.
struct Recomputation {
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> saved;
};
Recomputation recomputationOf(ArrayRef<Value> values, const llvm::DenseSet<Value> &kept, StringRef kind) {
  const bool keepsAttention = parsePlanWord<kerf::Recompute>(kind) == kerf::Recompute::ExceptAttention;
  Recomputation recomputation;
  SmallVector<Value> open(values);
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (kept.contains(value) || !op)
      continue;
    if (!recomputationPin(op).value_or(!keepsAttention || !isAttentionKernel(op)))
      recomputation.saved.insert(value);
    else if (recomputation.ops.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  return recomputation;
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
      if (failed(saveRequiredValues(call, symbols)))
        return signalPassFailure();
    for (CallOp call : calls)
      rewrite(call, symbols);
    module.walk([](Operation *op) { op->removeAttr(KerfDialect::kRecomputeAttr); });
    pruneCalls(module);
  }

private:
  /// For each operand of a backward call: the index of the forward call's result that it is and that is
  /// recomputed, or -1.
  using RecomputedResults = std::vector<int64_t>;

  LogicalResult saveRequiredValues(CallOp call, SymbolTable &symbols);
  void rewrite(CallOp call, SymbolTable &symbols);
  func::FuncOp variant(func::FuncOp backward, func::FuncOp forward, const RecomputedResults &results, StringRef kind,
                       SymbolTable &symbols);

  /// The variants created so far, by the name of the backward function, the mode and the recomputed results.
  std::map<std::tuple<std::string, std::string, RecomputedResults>, func::FuncOp> variants;
};

CallOp forwardCallOf(CallOp backward) {
  std::string name = backward.getCallee().str();
  for (Value operand : backward.getInputs())
    if (auto call = operand.getDefiningOp<CallOp>(); call && call.getCallee().str() + "_backward" == name)
      return call;
  return {};
}

StringRef kindOf(CallOp call) { return cast<StringAttr>(call->getAttr(KerfDialect::kRecomputeAttr)).getValue(); }

/// Returns the values of the forward function that a layer of this mode has in its backward pass: arguments,
/// and saved results.
llvm::DenseSet<Value> savedValues(func::FuncOp forward, StringRef kind) {
  Block &body = forward.front();
  const Ops recomputed = recomputedUnder(forward, kind);
  llvm::DenseSet<Value> kept(body.getArguments().begin(), body.getArguments().end());
  for (Value result : body.getTerminator()->getOperands())
    if (Operation *op = result.getDefiningOp(); !op || !recomputed.contains(op))
      kept.insert(result);
  return kept;
}

/// Returns, for each operand of a backward call, the index of the layer's result that is recomputed in its
/// place, or -1.
std::vector<int64_t> recomputedResults(CallOp call, CallOp forwardCall, func::FuncOp forward) {
  Operation *returned = forward.front().getTerminator();
  const Ops recomputed = recomputedUnder(forward, kindOf(call));
  std::vector<int64_t> results;
  for (Value operand : call.getInputs()) {
    auto result = dyn_cast<OpResult>(operand);
    bool its = result && result.getOwner() == forwardCall;
    Operation *definer = its ? returned->getOperand(result.getResultNumber()).getDefiningOp() : nullptr;
    bool isRecomputed = definer && recomputed.contains(definer);
    results.push_back(isRecomputed ? static_cast<int64_t>(result.getResultNumber()) : -1);
  }
  return results;
}

/// Adds values that may not be recomputed, but that recomputation reads, to the results of the layer.
LogicalResult Recompute::saveRequiredValues(CallOp call, SymbolTable &symbols) {
  auto kind = call->getAttrOfType<StringAttr>(KerfDialect::kRecomputeAttr);
  if (!kind || !llvm::is_contained(kDeviceModes, parsePlanWord<kerf::Recompute>(kind.getValue())))
    return call.emitError() << "kerf.recompute is " << call->getAttr(KerfDialect::kRecomputeAttr)
                            << "; there are \"none\", \"selective\", \"pointwise\", \"except-attention\" and \"full\"";
  CallOp forwardCall = forwardCallOf(call);
  if (!forwardCall)
    return success();
  auto forward = symbols.lookup<func::FuncOp>(forwardCall.getCallee());
  Operation *returned = forward.front().getTerminator();
  SmallVector<Value> recomputed;
  for (int64_t result : recomputedResults(call, forwardCall, forward))
    if (result >= 0)
      recomputed.push_back(returned->getOperand(static_cast<unsigned>(result)));
  Recomputation recomputation = recomputationOf(recomputed, savedValues(forward, kind.getValue()), kind.getValue());
  if (recomputation.saved.empty())
    return success();
  SmallVector<Value> added(recomputation.saved.begin(), recomputation.saved.end());
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
  RecomputedResults results = forward ? recomputedResults(call, forwardCall, forward) : RecomputedResults();
  call->removeAttr(KerfDialect::kRecomputeAttr);
  if (llvm::all_of(results, [](int64_t result) { return result < 0; })) // nothing is recomputed
    return;
  func::FuncOp &callee = variants[{backward.getName().str(), kind, results}];
  if (!callee)
    callee = variant(backward, forward, results, kind, symbols);
  SmallVector<Value> operands;
  for (auto [operand, result] : llvm::zip(call.getInputs(), results))
    if (result < 0)
      operands.push_back(operand);
  llvm::append_range(operands, forwardCall.getInputs());
  llvm::append_range(operands, forwardCall.getOutputs()); // pruning removes results that the variant does not read
  OpBuilder builder(call);
  auto rebuilt = CallOp::create(builder, call.getLoc(), call.getResultTypes(), callee.getSymName(), operands);
  rebuilt->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  call.replaceAllUsesWith(rebuilt.getResults());
  call.erase();
}

/// Creates the variant backward(saved values, forward's arguments, forward's results), which first recomputes the
/// results in `results`. Recomputation reads saved results of the forward function where there are any.
func::FuncOp Recompute::variant(func::FuncOp backward, func::FuncOp forward, const RecomputedResults &results,
                                StringRef kind, SymbolTable &symbols) {
  OpBuilder outer(backward->getContext());
  outer.setInsertionPointAfter(backward);
  std::string name = (backward.getName() + "_" + kind).str();
  std::ranges::replace(name, '-', '_');
  auto function = func::FuncOp::create(outer, backward.getLoc(), name, outer.getFunctionType({}, {}));
  function.setPrivate();
  symbols.insert(function);
  Block *body = function.addEntryBlock();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping ofBackward, ofForward;
  for (auto [argument, result] : llvm::zip(backward.getArguments(), results))
    if (result < 0)
      ofBackward.map(argument, body->addArgument(argument.getType(), argument.getLoc()));
  for (BlockArgument argument : forward.getArguments())
    ofForward.map(argument, body->addArgument(argument.getType(), argument.getLoc()));
  Operation *returned = forward.front().getTerminator();
  const llvm::DenseSet<Value> kept = savedValues(forward, kind);
  for (Value result : returned->getOperands()) {
    BlockArgument argument = body->addArgument(result.getType(), result.getLoc());
    if (result.getDefiningOp() && kept.contains(result))
      ofForward.map(result, argument);
  }
  SmallVector<Value> recomputed;
  for (int64_t result : results)
    if (result >= 0)
      recomputed.push_back(returned->getOperand(static_cast<unsigned>(result)));
  Recomputation recomputation = recomputationOf(recomputed, kept, kind);
  for (Operation &op : forward.front().without_terminator())
    if (recomputation.ops.contains(&op))
      builder.clone(op, ofForward);
  for (auto [argument, result] : llvm::zip(backward.getArguments(), results))
    if (result >= 0)
      ofBackward.map(argument, ofForward.lookup(returned->getOperand(static_cast<unsigned>(result))));
  for (Operation &op : backward.front())
    builder.clone(op, ofBackward);
  function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), backward.getResultTypes()));
  return function;
}

} // namespace
} // namespace kerf
