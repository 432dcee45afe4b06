// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/RecomputePins.h"
#include "kerf/Transforms/OpKeys.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include <fmt/format.h>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

std::optional<bool> recomputationPin(Operation *op) {
  for (; op; op = op->getOperand(0).getDefiningOp()) {
    if (auto pin = op->getAttrOfType<BoolAttr>(KerfDialect::kRecomputeAttr))
      return pin.getValue();
    if (!op->hasTrait<SameValue>())
      break;
  }
  return std::nullopt;
}

/// Returns the op whose result `op` moves or converts: the last block of ring attention is followed by such ops.
static Operation *computing(Operation *op) {
  while (op && isa<ConvertOp, WaitOp, RingBalanceOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

bool isAttentionKernel(Operation *op) { return kernelClassOf(computing(op)) == KernelClass::Attention; }

bool isAttentionCore(Operation *op) { return isAttentionKernel(op) || isa_and_nonnull<SoftmaxOp>(computing(op)); }

/// Returns whether an op takes no longer than its operands and results take to move, and communicates with nobody.
static bool onlyMovesElements(Operation *op) {
  switch (kernelClassOf(op)) {
  case KernelClass::Pointwise:
  case KernelClass::Movement:
    return true;
  case KernelClass::Reduction:
    return op->hasTrait<NormalizesRows>() || isa<ReduceOp>(op);
  default:
    return op->hasTrait<FusesIntoUsers>(); // a view or a constant
  }
}

llvm::DenseSet<Operation *> pointwiseRecomputation(Block &layer, llvm::function_ref<bool(Value)> isSaved,
                                                   llvm::function_ref<bool(OpOperand &)> isAtHand) {
  llvm::SetVector<Operation *> able;
  for (Operation &op : layer.without_terminator()) {
    auto isThere = [&](OpOperand &operand) {
      return isAtHand(operand) && (able.contains(operand.get().getDefiningOp()) || isSaved(operand.get()));
    };
    if (onlyMovesElements(&op) && !isAttentionCore(&op) && recomputationPin(&op) != false &&
        llvm::all_of(op.getOpOperands(), isThere))
      able.insert(&op);
  }
  llvm::DenseSet<Operation *> ops; // those of `able` that lead to a saved value
  for (Operation *op : llvm::reverse(able))
    if (llvm::any_of(op->getResults(), isSaved) ||
        llvm::any_of(op->getUsers(), [&](Operation *user) { return ops.contains(user); }))
      ops.insert(op);
  return ops;
}

Status pinRecomputation(ModuleOp module, llvm::ArrayRef<OpRecompute> pins) {
  if (pins.empty())
    return ok();
  llvm::StringSet<> layers;
  module.walk([&](CallOp call) {
    if (!call->hasAttr(KerfDialect::kBackwardAttr))
      layers.insert(call.getCallee());
  });
  std::vector<bool> used(pins.size(), false);
  for (const auto &[op, key] : opKeys(module)) {
    if (!layers.contains(op->getParentOfType<func::FuncOp>().getName()))
      continue;
    if (size_t i = entryOf(pins, key); i < pins.size()) {
      op->setAttr(KerfDialect::kRecomputeAttr, BoolAttr::get(module.getContext(), pins[i].recompute));
      used[i] = true;
    }
  }
  for (size_t i = 0; i < pins.size(); ++i)
    if (!used[i])
      return Error{fmt::format("ops[\"{}\"].recompute matches no op of a repeated layer's forward pass that an "
                               "earlier pattern left over; kerf explain lists the names of ops",
                               pins[i].pattern)};
  return ok();
}

} // namespace kerf
