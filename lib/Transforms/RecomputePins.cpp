// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/RecomputePins.h"
#include "kerf/Transforms/OpKeys.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
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

bool isAttentionCore(Operation *op) {
  while (op && isa<ConvertOp, WaitOp, RingBalanceOp>(op)) // the last block of ring attention is followed by such ops
    op = op->getOperand(0).getDefiningOp();
  return kernelClassOf(op) == KernelClass::Attention || isa_and_nonnull<SoftmaxOp>(op);
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
