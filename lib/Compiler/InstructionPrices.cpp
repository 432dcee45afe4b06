// SPDX-License-Identifier: Apache-2.0
#include "InstructionPrices.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Work.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {
double bytesOfTensor(Value value) {
  return static_cast<double>(elementsOf(shapeOf(value))) * static_cast<double>(bytesPerElement(value.getType()));
}

std::optional<Collective> collectiveOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Collective>>(op)
      .Case([](AllReduceOp) { return Collective::AllReduce; })
      .Case([](AllGatherOp) { return Collective::AllGather; })
      .Case([](ReduceScatterOp) { return Collective::ReduceScatter; })
      .Case([](AllToAllOp) { return Collective::AllToAll; })
      .Case<CollectivePermuteOp, RingShiftOp, RingBalanceOp>([](auto) { return Collective::Permute; })
      .Default([](Operation *) { return std::nullopt; });
}
} // namespace

InstructionPrices::InstructionPrices(ModuleOp device, const package::Program &program,
                                     const CollectiveModel &collectives)
    : collectives(collectives), symbols(device) {
  for (const package::Function &function :
       program.functions) { // emitPackage emits one instruction for each operator, in order
    auto made = symbols.lookup<func::FuncOp>(function.name);
    size_t i = 0;
    for (Operation &op : made.front().without_terminator())
      ops.emplace(&function.body[i++], &op);
  }
}

/// Returns the seconds of a chain of pointwise operators that is one kernel of machine code. The kernel reads its
/// arguments and writes its results once, and each operator counts as one operation per element.
double InstructionPrices::kernelSeconds(Operation *op) const {
  auto kernel = cast<func::FuncOp>(op);
  Work work;
  work.kernelClass = KernelClass::Pointwise;
  for (Operation &op : kernel.getOps()) {
    auto its = dyn_cast<WorkOpInterface>(op);
    if (!its || its.getKernelClass() == KernelClass::Nothing)
      continue;
    work.flops += static_cast<double>(
        elementsOf(shapeOf(op.getResult(0)))); // one operation for any formula, as vector units hide its length
    if (its.getKernelClass() == KernelClass::Reduction)
      work.kernelClass = KernelClass::Reduction;
    Type element = tensorType(op.getResult(0)).getElementType();
    work.dtype = (isa<FloatType>(element) ? "f" : "i") + std::to_string(element.getIntOrFloatBitWidth());
  }
  for (Value argument : kernel.getArguments())
    work.bytes += bytesOfTensor(argument);
  for (Value result : kernel.front().getTerminator()->getOperands())
    work.bytes += bytesOfTensor(result);
  return computeSeconds(collectives.cluster().device, work);
}

InstructionPrice InstructionPrices::priceOf(Operation *op) const {
  InstructionPrice price;
  price.isBackward = op->hasAttr(KerfDialect::kBackwardAttr);
  price.isUpdate = op->hasAttr(KerfDialect::kUpdateAttr);
  if (isa<OffloadOp, PrefetchOp>(op))
    return price;
  if (isa<TransferOp>(op)) {
    int stage = collectives.mesh().find(KerfDialect::kStageAxis.str());
    if (stage < 0)
      return price;
    price.collective = Collective::Permute;
    price.axes = {wholeAxis(collectives.mesh(), stage)};
    price.bytes = bytesOfTensor(op->getOperand(0));
    return price;
  }
  price.collective = collectiveOf(op);
  if (price.collective) {
    price.axes = axesFromFlat(op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef());
    price.bytes = bytesOfTensor(price.collective == Collective::AllGather ? op->getResult(0) : op->getOperand(0));
    return price;
  }
  if (auto call = dyn_cast<CallOp>(op)) {
    if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()); callee && callee->hasAttr(kKernelAttr))
      price.kernelSeconds = kernelSeconds(callee);
    return price;
  }
  if (isa<AccumulateOp>(op)) { // the first one of a step is a view
    Work work;
    work.kernelClass = KernelClass::Pointwise;
    work.flops = static_cast<double>(elementsOf(shapeOf(op->getResult(0))));
    work.bytes = bytesOfTensor(op->getOperand(0)) + 2 * bytesOfTensor(op->getResult(0));
    price.addingSeconds = computeSeconds(collectives.cluster().device, work);
    return price;
  }
  price.kernelSeconds = deviceOpSeconds(op, collectives);
  if (isa<DotGeneralOp>(op))
    price.addingSeconds = deviceOpSeconds(op, collectives, bytesOfTensor(op->getResult(0)));
  return price;
}

const InstructionPrice &InstructionPrices::of(const package::Instruction &instruction) {
  auto [known, isNew] = prices.try_emplace(&instruction);
  if (isNew)
    known->second = priceOf(ops.at(&instruction));
  return known->second;
}

double InstructionPrices::joinedSeconds(const package::Instruction &product, double moreBytes) const {
  return deviceOpSeconds(ops.at(&product), collectives, moreBytes);
}

StepPart InstructionPrices::partOf(const package::Expansion &expansion, int op) {
  const package::ExpandedOp &its = expansion.ops[size_t(op)];
  const package::Instruction &entry = expansion.entry->body[its.entry];
  package::Phase phase = entry.task ? entry.task->phase : package::Phase::Forward;
  if (phase == package::Phase::Update || of(*its.source).isUpdate)
    return StepPart::Optimizer;
  bool forward = phase == package::Phase::Forward || phase == package::Phase::Prepare;
  return forward && !of(entry).isBackward && !of(*its.source).isBackward ? StepPart::Forward : StepPart::Backward;
}

CollectiveSeconds InstructionPrices::mergedSeconds(const package::FlatInstruction &instruction) {
  std::map<std::pair<Collective, std::vector<AxisRef>>, double> bytes;
  auto add = [&](const package::Instruction &source) {
    if (const InstructionPrice &its = of(source); its.collective)
      bytes[{*its.collective, its.axes}] += its.bytes;
  };
  add(*instruction.source);
  for (const package::FlatInstruction::Member &other : instruction.others)
    add(*other.source);
  CollectiveSeconds seconds;
  for (const auto &[what, together] : bytes) {
    double latency = collectives.seconds(what.first, what.second, 0);
    seconds.latency = std::max(seconds.latency, latency);
    seconds.transfer += collectives.seconds(what.first, what.second, together) - latency;
  }
  return seconds;
}

std::string InstructionPrices::axisNames(const package::Instruction &collective) {
  std::string text;
  for (const AxisRef &axis : of(collective).axes)
    text += (text.empty() ? "" : ", ") + collectives.mesh().axes[axis.axis].name;
  return text;
}

} // namespace kerf
