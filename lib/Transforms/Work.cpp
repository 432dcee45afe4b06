// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/Work.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

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

/// Passes over its operand that a composite makes when it is decomposed into pointwise ops and reductions, and the
/// small all-reduces between them (maximum, sum, picked element): counted from the decompositions in lib/Dialect/Kerf.
constexpr double kDecomposedPasses = 6;
constexpr double kDecomposedAllReduces = 3;

std::string dtypeKey(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isBF16())
    return "bf16";
  return (isa<FloatType>(element) ? "f" : "i") + std::to_string(element.getIntOrFloatBitWidth());
}

/// What it computes in: a product may give the sums of 16-bit elements in f32.
std::string dtypeOf(Operation *op) {
  bool byOperand = isa<DotGeneralOp>(op) || op->getNumResults() == 0;
  return dtypeKey((byOperand ? op->getOperand(0) : op->getResult(0)).getType());
}

double bytesOf(ValueRange values) {
  double bytes = 0;
  for (Value value : values)
    bytes += static_cast<double>(elementsOf(shapeOf(value))) * bytesPerElement(value.getType());
  return bytes;
}

double countOf(const Shape &shape, ArrayRef<int64_t> dims) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(shape[dim]);
  return count;
}

/// What a core's curves ask of the work beyond flops and bytes, from local shapes of operands and results: sizes of
/// products and attention, and bytes that are really touched.
void refineForCore(Operation *op, ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  auto bytes = [&](const Shape &shape, Value value) {
    return static_cast<double>(elementsOf(shape)) * bytesPerElement(value.getType());
  };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](DotGeneralOp dot) {
        const Shape &lhs = operands[0], &rhs = operands[1];
        work.batch = countOf(lhs, dot.getLhsBatching());
        work.k = countOf(lhs, dot.getLhsContracting());
        work.m = static_cast<double>(elementsOf(lhs)) / (work.batch * work.k);
        work.n = static_cast<double>(elementsOf(rhs)) / (work.batch * work.k);
      })
      .Case<ConvolutionOp, ConvolutionTransposeOp, ConvolutionKernelOp>([&](Operation *op) {
        ProductSizes sizes = convolutionSizes(op, operands[0], operands[1], results[0]);
        work.m = sizes.m, work.n = sizes.n, work.k = sizes.k, work.batch = sizes.batch;
      })
      .Case<AttentionOp, AttentionBackwardOp>([&](Operation *) { // [batch, length, heads, width]
        const Shape &query = operands[0], &key = operands[1];
        work.batch = static_cast<double>(query[0] * query[2]);
        work.m = static_cast<double>(query[1]), work.n = static_cast<double>(key[1]),
        work.k = static_cast<double>(query[3]);
      })
      .Case<AttentionBlockOp, AttentionBlockBackwardOp>([&](auto op) {
        Shape query = shapeOf(op.getQuery());
        work.batch = static_cast<double>(query[0] * query[2]);
        work.m = static_cast<double>(query[1]), work.n = static_cast<double>(shapeOf(op.getKey())[1]),
        work.k = static_cast<double>(query[3]);
      })
      .Case<CombineOp, CombineBackwardOp>([&](Operation *op) { // of the slots those that hold a copy
        double copies = static_cast<double>(elementsOf(operands[1]) * operands[0].back()),
               slots = static_cast<double>(elementsOf(operands[0]));
        work.bytes -= std::max(0.0, slots - copies) * static_cast<double>(bytesPerElement(op->getOperand(0).getType()));
      })
      .Case<EmbeddingOp, GatherOp, TakeAlongOp, SliceOp>(
          [&](Operation *op) { // reads no more of the first operand than it writes
            double whole = bytes(operands[0], op->getOperand(0)), read = bytes(results[0], op->getResult(0));
            work.bytes -= std::max(0.0, whole - read);
          });
}

} // namespace

ProductSizes convolutionSizes(Operation *op, const Shape &first, const Shape &second, const Shape &made) {
  bool isTranspose = isa<ConvolutionTransposeOp>(op), makesKernel = isa<ConvolutionKernelOp>(op);
  const Shape &operand = isTranspose ? made : first, &kernel = makesKernel ? made : second,
              &result = isTranspose   ? first
                        : makesKernel ? second
                                      : made;
  double groups = static_cast<double>(operand[1] / kernel[1]);
  double outputs = static_cast<double>(result[1]) / groups;
  double places = static_cast<double>(elementsOf(result)) / static_cast<double>(result[1]); // of all samples
  double weights = static_cast<double>(elementsOf(kernel)) / static_cast<double>(kernel[0]);
  if (isTranspose)
    return {weights, places, outputs, groups};
  return makesKernel ? ProductSizes{outputs, weights, places, groups} : ProductSizes{outputs, places, weights, groups};
}

int64_t bytesPerElement(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    type = pending.getTensor();
  return std::max<int64_t>(1, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8);
}

StepPrice priceOn(const CollectiveModel &collectives) {
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
  StepPrice price = priceOn(collectives);
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
  // Each rank has ceil(size / ways) of a factor's indices.
  std::vector<int64_t> factorWays(rule.factors.size(), 1);
  std::vector<AxisRef> decomposed;
  for (size_t axis = 0; axis < strategy.factorOfAxis.size(); ++axis)
    if (int factor = strategy.factorOfAxis[axis]; factor >= 0 && rule.factors[factor].kind != FactorKind::PartialSum) {
      factorWays[factor] *= collectives.mesh().axes[axis].size;
      if (rule.factors[factor].kind == FactorKind::Decomposed)
        decomposed.push_back(wholeAxis(collectives.mesh(), static_cast<int>(axis)));
    }
  for (size_t f = 0; f < factorWays.size(); ++f)
    if (factorWays[f] > 1)
      local.flops *=
          static_cast<double>((rule.factors[f].size + factorWays[f] - 1) / factorWays[f]) / rule.factors[f].size;
  for (auto [value, lies] : llvm::zip(op->getOperands(), sharding.operands))
    local.bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), lies))) * bytesPerElement(value.getType());
  for (auto [value, lies] : llvm::zip(op->getResults(), sharding.results))
    local.bytes += static_cast<double>(elementsOf(localShape(shapeOf(value), lies))) * bytesPerElement(value.getType());
  const Device &device = collectives.cluster().device;
  if (device.kind == "cpu") {
    SmallVector<Shape> operands, results;
    for (auto [value, lies] : llvm::zip(op->getOperands(), sharding.operands))
      operands.push_back(localShape(shapeOf(value), lies));
    for (auto [value, lies] : llvm::zip(op->getResults(), sharding.results))
      results.push_back(localShape(shapeOf(value), lies));
    refineForCore(op, operands, results, local);
  }
  double seconds = 0;
  if (!decomposed.empty()) {
    local.bytes *= kDecomposedPasses;
    local.launches = kDecomposedPasses;
    // What the reductions leave is the first operand without its cut dimension.
    Shape shape = localShape(shapeOf(op->getOperand(0)), sharding.operands[0]);
    double reduced = static_cast<double>(elementsOf(shape)) / std::max<int64_t>(1, shape.back()) *
                     bytesPerElement(op->getOperand(0).getType());
    seconds = kDecomposedAllReduces * collectives.seconds(Collective::AllReduce, decomposed, reduced);
  }
  return seconds + computeSeconds(device, local);
}

double deviceOpSeconds(Operation *op, const CollectiveModel &collectives) {
  auto collective = [&](Collective kind, ArrayRef<int64_t> flatAxes, Value measured) {
    return collectives.seconds(kind, axesFromFlat(flatAxes), bytesOf(measured));
  };
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](AllReduceOp op) { return collective(Collective::AllReduce, op.getAxes(), op.getOperand()); })
      .Case([&](AllGatherOp op) { return collective(Collective::AllGather, op.getAxes(), op.getResult()); })
      .Case([&](ReduceScatterOp op) { return collective(Collective::ReduceScatter, op.getAxes(), op.getOperand()); })
      .Case([&](AllToAllOp op) { return collective(Collective::AllToAll, op.getAxes(), op.getOperand()); })
      .Case([&](CollectivePermuteOp op) { return collective(Collective::Permute, op.getAxes(), op.getOperand()); })
      .Case<RingShiftOp, RingBalanceOp>(
          [&](auto op) { return collective(Collective::Permute, op.getAxes(), op.getOperand()); })
      .Case([&](WorkOpInterface op) {
        Work work{op.getKernelClass(), op.getFlops(), bytesOf(op->getOperands()) + bytesOf(op->getResults()),
                  dtypeOf(op), 1};
        if (work.kernelClass == KernelClass::Nothing)
          return 0.0;
        const Device &device = collectives.cluster().device;
        if (device.kind == "cpu") {
          SmallVector<Shape> operands, results;
          for (Value value : op->getOperands())
            operands.push_back(shapeOf(value));
          for (Value value : op->getResults())
            results.push_back(shapeOf(value));
          refineForCore(op, operands, results, work);
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
