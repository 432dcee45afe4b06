// SPDX-License-Identifier: Apache-2.0
// kerf-split-backward: splits a layer's backward function into two, for schedules that fill bubbles
// with weight gradients.
#include "Calls.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_SPLITBACKWARD
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// Returns whether only sums over microbatches use the value, as for gradients of parameters, directly or after
/// collectives that sum and divide it among ranks.
bool isOnlySummed(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<AccumulateOp>(user))
      return true;
    bool isOnTheWay = isa<WaitOp, ReshapeOp, LocalSliceOp>(user) ||
                      llvm::any_of(user->getResultTypes(), [](Type type) { return isa<PendingType>(type); });
    return isOnTheWay && llvm::all_of(user->getResults(), isOnlySummed);
  });
}

/// Returns isOnlySummed for each result of a call.
std::vector<bool> onlySummed(CallOp call) {
  std::vector<bool> summed;
  for (Value result : call.getResults())
    summed.push_back(isOnlySummed(result));
  return summed;
}

/// The two functions into which a backward function is split.
struct Halves {
  func::FuncOp input, weights;
  // For each result of the backward function, its index among the results of one of the two, or -1.
  SmallVector<int64_t> ofInput, ofWeights;
  // The results of the input function that are the last arguments of the weights function.
  SmallVector<unsigned> crossing;
};

struct SplitBackward : impl::SplitBackwardBase<SplitBackward> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
    if (!main)
      return;
    SmallVector<CallOp> calls;
    for (auto call : main.getOps<CallOp>())
      if (call->hasAttr(KerfDialect::kBackwardAttr))
        calls.push_back(call);
    std::map<std::pair<std::string, std::vector<bool>>, Halves> known;
    for (CallOp call : calls) {
      std::vector<bool> summed = onlySummed(call);
      if (llvm::none_of(summed, [](bool s) { return s; }) || llvm::all_of(summed, [](bool s) { return s; }))
        continue;
      auto [found, isNew] = known.try_emplace({call.getCallee().str(), summed});
      if (isNew)
        found->second = split(symbols.lookup<func::FuncOp>(call.getCallee()), summed, symbols);
      rewrite(call, found->second);
    }
    pruneCalls(module);
  }

private:
  Halves split(func::FuncOp whole, const std::vector<bool> &summed, SymbolTable &symbols);
  void rewrite(CallOp call, Halves &halves);
};

func::FuncOp half(func::FuncOp whole, StringRef suffix, SymbolTable &symbols) {
  OpBuilder builder(whole->getContext());
  builder.setInsertionPointAfter(whole);
  auto made =
      func::FuncOp::create(builder, whole.getLoc(), (whole.getName() + suffix).str(), builder.getFunctionType({}, {}));
  made.setPrivate();
  symbols.insert(made);
  made.addEntryBlock();
  return made;
}

void finish(func::FuncOp function, ArrayRef<Value> results) {
  OpBuilder builder = OpBuilder::atBlockEnd(&function.front());
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setFunctionType(
      builder.getFunctionType(function.front().getArgumentTypes(), ValueRange(results).getTypes()));
}

Halves SplitBackward::split(func::FuncOp whole, const std::vector<bool> &summed, SymbolTable &symbols) {
  Block &block = whole.front();
  Operation *returned = block.getTerminator();
  DenseSet<Operation *> first; // ops on which the gradients of the layer's inputs depend
  for (auto [value, sums] : llvm::zip(returned->getOperands(), summed))
    if (!sums)
      if (Operation *op = value.getDefiningOp())
        first.insert(op);
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (first.contains(&op))
      for (Value operand : op.getOperands())
        if (Operation *definer = operand.getDefiningOp())
          first.insert(definer);

  Halves halves{half(whole, "_input", symbols), half(whole, "_weights", symbols), {}, {}, {}};
  IRMapping ofInput, ofWeights;
  for (BlockArgument argument : block.getArguments()) {
    ofInput.map(argument, halves.input.front().addArgument(argument.getType(), argument.getLoc()));
    ofWeights.map(argument, halves.weights.front().addArgument(argument.getType(), argument.getLoc()));
  }
  llvm::SetVector<Value> crossing;
  for (Operation &op : block.without_terminator())
    if (!first.contains(&op))
      for (Value operand : op.getOperands())
        if (Operation *definer = operand.getDefiningOp(); definer && first.contains(definer))
          crossing.insert(operand);
  for (Value value : crossing)
    ofWeights.map(value, halves.weights.front().addArgument(value.getType(), value.getLoc()));
  OpBuilder input = OpBuilder::atBlockEnd(&halves.input.front()),
            weights = OpBuilder::atBlockEnd(&halves.weights.front());
  for (Operation &op : block.without_terminator())
    first.contains(&op) ? input.clone(op, ofInput) : weights.clone(op, ofWeights);

  SmallVector<Value> inputResults, weightResults;
  for (Value value : returned->getOperands()) {
    Operation *definer = value.getDefiningOp();
    bool early = !definer || first.contains(definer);
    halves.ofInput.push_back(early ? static_cast<int64_t>(inputResults.size()) : -1);
    halves.ofWeights.push_back(early ? -1 : static_cast<int64_t>(weightResults.size()));
    early ? inputResults.push_back(ofInput.lookup(value)) : weightResults.push_back(ofWeights.lookup(value));
  }
  for (Value value : crossing) {
    auto *known = llvm::find(inputResults, ofInput.lookup(value));
    halves.crossing.push_back(static_cast<unsigned>(known - inputResults.begin()));
    if (known == inputResults.end())
      inputResults.push_back(ofInput.lookup(value));
  }
  finish(halves.input, inputResults);
  finish(halves.weights, weightResults);
  return halves;
}

void SplitBackward::rewrite(CallOp call, Halves &halves) {
  OpBuilder builder(call);
  auto make = [&](func::FuncOp callee, ValueRange operands) {
    auto made = CallOp::create(builder, call.getLoc(), callee.getResultTypes(), callee.getSymName(), operands);
    made->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    return made;
  };
  auto input = make(halves.input, call.getInputs());
  SmallVector<Value> operands(call.getInputs());
  for (unsigned result : halves.crossing)
    operands.push_back(input.getResult(result));
  auto weights = make(halves.weights, operands);
  for (auto [i, result] : llvm::enumerate(call.getResults()))
    result.replaceAllUsesWith(halves.ofInput[i] >= 0 ? input.getResult(halves.ofInput[i])
                                                     : weights.getResult(halves.ofWeights[i]));
  call.erase();
}

} // namespace
} // namespace kerf
