// SPDX-License-Identifier: Apache-2.0
#include "Timeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// The moments of the ops of one function, from 0. A call takes as many moments as its callee has ops, and
/// at least one.
struct Moments {
  DenseMap<Operation *, std::pair<int64_t, int64_t>> of; // half-open interval
  int64_t end = 0;
};

Moments momentsOf(func::FuncOp function, SymbolTable &symbols) {
  Moments moments;
  for (Operation &op : function.getOps()) {
    int64_t begin = moments.end;
    auto call = dyn_cast<CallOp>(op);
    int64_t length = call ? momentsOf(symbols.lookup<func::FuncOp>(call.getCallee()), symbols).end : 1;
    moments.end += std::max<int64_t>(length, 1);
    moments.of[&op] = {begin, moments.end};
  }
  return moments;
}

/// Views share their operand's memory, so a value lives at least as long as its views.
int64_t lastUse(Value value, const Moments &moments) {
  int64_t last = 0;
  for (Operation *user : value.getUsers()) {
    last = std::max(last, moments.of.lookup(user).second);
    if (isa<ReshapeOp>(user))
      last = std::max(last, lastUse(user->getResult(0), moments));
  }
  return last;
}

} // namespace

Timeline::Timeline(ModuleOp module) {
  SymbolTable symbols(module);
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  Moments moments = momentsOf(main, symbols);
  end = moments.end;
  llvm::MapVector<Value, Buffer> buffers;
  auto add = [&](Value value, int64_t begin, int64_t last) {
    Buffer &buffer = buffers[value];
    buffer.value = value;
    buffer.live.push_back({begin, std::max(last, begin + 1)});
  };
  auto isReturned = [](Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
  };
  // A result that replaces an argument is written into the argument's memory.
  DenseSet<Value> inPlace;
  Operation *terminator = main.front().getTerminator();
  for (BlockArgument argument : main.getArguments()) {
    add(argument, 0, end);
    if (auto by = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr))
      inPlace.insert(terminator->getOperand(by.getInt()));
  }
  for (Operation &op : main.getOps()) {
    auto [begin, unused] = moments.of[&op];
    if (isa<ReshapeOp>(op))
      continue;
    auto call = dyn_cast<CallOp>(op);
    if (!call) {
      for (Value result : op.getResults())
        if (!inPlace.contains(result))
          add(result, begin, lastUse(result, moments));
      continue;
    }
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    Moments inner = momentsOf(callee, symbols);
    for (Operation &innerOp : callee.getOps())
      if (!isa<ReshapeOp>(innerOp))
        for (Value value : innerOp.getResults())
          if (!isReturned(value))
            add(value, begin + inner.of[&innerOp].first, begin + lastUse(value, inner));
    for (auto [outer, returned] : llvm::zip(call.getOutputs(), callee.front().getTerminator()->getOperands())) {
      Value made = returned;
      while (auto view = made.getDefiningOp<ReshapeOp>())
        made = view.getOperand();
      if (Operation *definer = made.getDefiningOp())
        add(made, begin + inner.of[definer].first, lastUse(outer, moments));
    }
  }
  for (auto &[value, buffer] : buffers)
    list.push_back(std::move(buffer));
}

} // namespace kerf
