// SPDX-License-Identifier: Apache-2.0
// kerf-recompute: a layer's backward function makes values again that the forward one would have kept.
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_RECOMPUTE
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// The core of attention keeps what is dear in memory and cheap to compute (Korthikanti et al. 2022, section 5).
bool isAttentionCore(Operation *op) {
  while (op && isa<ConvertOp, WaitOp, RingBalanceOp>(op)) // behind the last block of a ring
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<AttentionOp, AttentionBlockOp, SoftmaxOp>(op);
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
      if (failed(rewrite(call, symbols)))
        return signalPassFailure();
    pruneCalls(module);
  }

private:
  /// For each operand of a backward call: the result of the forward call that it is and that is made again, or -1.
  using Made = std::vector<int64_t>;

  LogicalResult rewrite(CallOp call, SymbolTable &symbols);
  func::FuncOp variant(func::FuncOp backward, func::FuncOp forward, const Made &made, StringRef kind,
                       SymbolTable &symbols);

  std::map<std::pair<std::string, Made>, func::FuncOp> variants; // by the backward function's name
};

CallOp forwardCallOf(CallOp backward) {
  std::string name = backward.getCallee().str();
  for (Value operand : backward.getInputs())
    if (auto call = operand.getDefiningOp<CallOp>(); call && call.getCallee().str() + "_backward" == name)
      return call;
  return {};
}

LogicalResult Recompute::rewrite(CallOp call, SymbolTable &symbols) {
  StringRef kind = cast<StringAttr>(call->getAttr(KerfDialect::kRecomputeAttr)).getValue();
  if (kind != "selective" && kind != "full")
    return call.emitError() << "kerf.recompute is \"" << kind << "\"; there are \"selective\" and \"full\"";
  call->removeAttr(KerfDialect::kRecomputeAttr);
  CallOp forwardCall = forwardCallOf(call);
  if (!forwardCall)
    return success(); // it keeps nothing
  auto forward = symbols.lookup<func::FuncOp>(forwardCall.getCallee()),
       backward = symbols.lookup<func::FuncOp>(call.getCallee());
  Operation *returned = forward.front().getTerminator();
  Made made;
  bool any = false;
  for (Value operand : call.getInputs()) {
    made.push_back(-1);
    auto result = dyn_cast<OpResult>(operand);
    if (!result || result.getOwner() != forwardCall)
      continue;
    Operation *definer = returned->getOperand(result.getResultNumber()).getDefiningOp();
    if (!definer || (kind == "selective" && !isAttentionCore(definer)))
      continue;
    made.back() = result.getResultNumber();
    any = true;
  }
  if (!any)
    return success();
  func::FuncOp &callee = variants[{backward.getName().str(), made}];
  if (!callee)
    callee = variant(backward, forward, made, kind, symbols);
  SmallVector<Value> operands;
  for (auto [operand, result] : llvm::zip(call.getInputs(), made))
    if (result < 0)
      operands.push_back(operand);
  llvm::append_range(operands, forwardCall.getInputs());
  // What is kept of a selective layer goes in as it is; pruning drops what the variant does not use.
  llvm::append_range(operands, forwardCall.getOutputs());
  OpBuilder builder(call);
  auto rebuilt = CallOp::create(builder, call.getLoc(), call.getResultTypes(), callee.getSymName(), operands);
  rebuilt->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  call.replaceAllUsesWith(rebuilt.getResults());
  call.erase();
  return success();
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
  DenseSet<Value> again;
  Operation *returned = forward.front().getTerminator();
  for (int64_t result : made)
    if (result >= 0)
      again.insert(returned->getOperand(static_cast<unsigned>(result)));
  for (Value result : returned->getOperands()) {
    BlockArgument argument = body->addArgument(result.getType(), result.getLoc());
    if (!again.contains(result) && kind != "full")
      ofForward.map(result, argument);
  }

  llvm::SetVector<Operation *> needed;
  SmallVector<Value> open(again.begin(), again.end());
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!ofForward.contains(value) && op && needed.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  for (Operation &op : forward.front().without_terminator())
    if (needed.contains(&op))
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
