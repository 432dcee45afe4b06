// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/Work.h"

#include "kerf/CostModel/Compute.h"
#include "kerf/Package/Package.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// The number of passes over its operand that a composite makes when it is decomposed, and of the small all-reduces
/// between them (maximum, sum, picked element), counted from the decompositions in lib/Dialect/Kerf.
constexpr double kDecomposedPasses = 6;
constexpr double kDecomposedAllReduces = 3;

std::string dtypeKey(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isBF16())
    return "bf16";
  return (isa<FloatType>(element) ? "f" : "i") + std::to_string(element.getIntOrFloatBitWidth());
}

/// Returns the type in which an op computes. A product may give the sums of 16-bit elements in f32.
std::string dtypeOf(Operation *op) {
  bool byOperand = kernelClassOf(op) == KernelClass::Product || op->getNumResults() == 0;
  return dtypeKey((byOperand ? op->getOperand(0) : op->getResult(0)).getType());
}

double bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += static_cast<double>(elementsOf(shapeOf(value))) * bytesPerElement(value.getType());
  return bytes;
}

} // namespace

StepPrice stepPriceFor(const CollectiveModel &collectives) {
  return [&collectives](const ReshardStep &step, int64_t bytesIn, int64_t bytesOut) {
    return collectives.seconds(step, static_cast<double>(bytesIn), static_cast<double>(bytesOut));
  };
}

double secondsToReshard(const CollectiveModel &collectives, const Shape &shape, int64_t elementBytes,
                        const Sharding &from, const Sharding &to) {
  if (from == to)
    return 0;
  if (!canReshard(from, to))
    return std::numeric_limits<double>::infinity();
  StepPrice price = stepPriceFor(collectives);
  auto steps = planReshard(collectives.mesh(), shape, elementBytes, from, to, price);
  if (!steps)
    return std::numeric_limits<double>::infinity();
  double seconds = 0;
  const Sharding *before = &from;
  for (const ReshardStep &step : *steps) {
    seconds += price(step, elementsOf(localShape(shape, *before)) * elementBytes,
                     elementsOf(localShape(shape, step.after)) * elementBytes);
    before = &step.after;
  }
  return seconds;
}

double opSeconds(Operation *op, const Rule &rule, const Strategy &strategy, const OpSharding &sharding,
                 const CollectiveModel &collectives) {
  auto work = cast<WorkOpInterface>(op);
  Work local;
  local.kernelClass = work.getKernelClass();
  if (local.kernelClass == KernelClass::Nothing)
    return 0;
  local.flops = work.getFlops();
  local.dtype = dtypeOf(op);
  // Each rank has ceil(size / shard count) of a factor's indices.
  std::vector<int64_t> factorShards(rule.factors.size(), 1);
  std::vector<AxisRef> decomposed;
  for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis)
    if (int factor = strategy.factorOfAxis[axis]; factor >= 0 && rule.factors[factor].kind != FactorKind::PartialSum) {
      factorShards[factor] *= collectives.mesh().axes[axis].size;
      if (rule.factors[factor].kind == FactorKind::Decomposed)
        decomposed.push_back(wholeAxis(collectives.mesh(), static_cast<int>(axis)));
    }
  for (size_t f = 0; f < factorShards.size(); ++f)
    if (factorShards[f] > 1)
      local.flops *=
          static_cast<double>((rule.factors[f].size + factorShards[f] - 1) / factorShards[f]) / rule.factors[f].size;
  for (auto [value, lies] : llvm::zip(op->getOperands(), sharding.operands))
    local.bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), lies))) * bytesPerElement(value.getType());
  for (auto [value, lies] : llvm::zip(op->getResults(), sharding.results))
    local.bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), lies))) * bytesPerElement(value.getType());
  const DeviceSpec &device = collectives.cluster().device;
  if (device.kind == "cpu") {
    SmallVector<Shape> operands, results;
    for (auto [value, lies] : llvm::zip(op->getOperands(), sharding.operands))
      operands.push_back(localShape(shapeOf(value), lies));
    for (auto [value, lies] : llvm::zip(op->getResults(), sharding.results))
      results.push_back(localShape(shapeOf(value), lies));
    work.describe(operands, results, local);
  }
  double seconds = 0;
  if (!decomposed.empty()) {
    local.bytes *= kDecomposedPasses;
    local.launches = kDecomposedPasses;
    // The result of the reductions has the shape of the first operand without its sharded dimension.
    Shape shape = localShape(shapeOf(op->getOperand(0)), sharding.operands[0]);
    double reduced = static_cast<double>(elementsOf(shape)) / std::max<int64_t>(1, shape.back()) *
                     bytesPerElement(op->getOperand(0).getType());
    seconds = kDecomposedAllReduces * collectives.seconds(Collective::AllReduce, decomposed, reduced);
  }
  return seconds + computeSeconds(device, local);
}

double deviceOpSeconds(Operation *op, const CollectiveModel &collectives, double moreBytes) {
  if (const CollectiveOp *record = findCollective(op->getName().stripDialect().str())) {
    ValueRange priced = record->pricedByResult ? ValueRange(op->getResults()) : ValueRange(op->getOperands());
    auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
    return collectives.seconds(record->pricedAs, axesFromFlat(axes.asArrayRef()), bytesOf(priced));
  }
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](WorkOpInterface op) {
        Work work{op.getKernelClass(), op.getFlops(), bytesOf(op->getOperands()) + bytesOf(op->getResults()),
                  dtypeOf(op), 1};
        work.bytes += moreBytes;
        if (work.kernelClass == KernelClass::Nothing)
          return 0.0;
        const DeviceSpec &device = collectives.cluster().device;
        if (device.kind == "cpu") {
          SmallVector<Shape> operands, results;
          for (Value value : op->getOperands())
            operands.push_back(shapeOf(value));
          for (Value value : op->getResults())
            results.push_back(shapeOf(value));
          op.describe(operands, results, work);
        }
        return computeSeconds(device, work);
      })
      .Case<MaskPaddingOp, LocalSliceOp>([&](Operation *op) {
        Work work{KernelClass::Movement, 0, 2 * bytesOf(op->getResults()), dtypeKey(op->getResult(0).getType()), 1};
        return computeSeconds(collectives.cluster().device, work);
      })
      .Default([](Operation *) { return 0.0; });
}

} // namespace kerf
