// SPDX-License-Identifier: Apache-2.0
// kerf-partition (planned level to device level): local shapes and explicit collectives, in one program for all ranks.
#include "Compression.h"
#include "TimeAxis.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/Placement.h"
#include "kerf/Transforms/Work.h"

#include "mlir/IR/IRMapping.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_PARTITION
#include "kerf/Transforms/Passes.h.inc"

namespace {

RankedTensorType localType(Type type, const Sharding &sharding) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(localShape(shapeOf(type), sharding), tensor.getElementType());
}

SmallVector<int64_t> flatSharding(const Sharding &sharding) {
  SmallVector<int64_t> flat{static_cast<int64_t>(sharding.dims.size())};
  for (const DimSharding &dim : sharding.dims) {
    flat.push_back(static_cast<int64_t>(dim.axes.size()));
    flat.append(flatAxes(dim.axes));
  }
  return flat;
}

/// A lowering that emits the device program of one function, op by op, before the old body.
class Lowering {
public:
  Lowering(func::FuncOp function, const Mesh &mesh, const StepPrice &price, SymbolTable &symbols)
      : function(function), mesh(mesh), price(price), symbols(symbols), builder(function.getContext()) {}
  LogicalResult run();

private:
  LogicalResult lower(Operation &op);
  Value sliced(Value value, Type type, int64_t dim, DenseI64ArrayAttr axes, Location loc);
  FailureOr<Value> reshard(Value local, RankedTensorType global, ShardingAttr from, ShardingAttr to, StringRef stream,
                           StringRef cause, Location loc);
  Value step(Value local, RankedTensorType global, const Sharding &before, const ReshardStep &step, StringRef stream,
             StringRef cause, Location loc);
  void markCompressed(Operation &sync, Value summed);
  Value masked(Value local, Shape globalShape, unsigned dim, const DimSharding &cut, ReduceKind fill, Location loc);
  SmallVector<Value> maskOperands(Operation &op, const Rule &rule, const OpSharding &sharding);
  FailureOr<Sharding> sharding(ShardingAttr attr, Type type, Operation *op) {
    return attr.toSharding(mesh, shapeOf(type), [op] { return op->emitError(); });
  }

  func::FuncOp function;
  const Mesh &mesh;
  const StepPrice &price;
  SymbolTable &symbols;
  OpBuilder builder;
  IRMapping local;
  std::map<std::tuple<void *, unsigned, int>, Value> maskedValues;
};

Value Lowering::step(Value value, RankedTensorType global, const Sharding &before, const ReshardStep &step,
                     StringRef stream, StringRef cause, Location loc) {
  RankedTensorType type = localType(global, step.after);
  auto axes = builder.getDenseI64ArrayAttr(flatAxes(step.axes));
  if (step.kind == ReshardStepKind::LocalSlice)
    return sliced(value, type, step.dim, axes, loc);
  Type pending = PendingType::get(builder.getContext(), type);
  auto dim = builder.getI64IntegerAttr(step.dim);
  auto kind = ReduceKindIRAttr::get(builder.getContext(), static_cast<ReduceKindIR>(before.partialKind));
  auto streamAttr = builder.getStringAttr(stream), causeAttr = builder.getStringAttr(cause);
  Value started;
  switch (step.kind) {
  case ReshardStepKind::AllReduce:
    started = AllReduceOp::create(builder, loc, pending, value, axes, kind, streamAttr, causeAttr);
    break;
  case ReshardStepKind::ReduceScatter:
    started = ReduceScatterOp::create(builder, loc, pending, value, axes, dim, kind, streamAttr, causeAttr);
    break;
  case ReshardStepKind::AllGather:
    started = AllGatherOp::create(builder, loc, pending, value, axes, dim, streamAttr, causeAttr);
    break;
  case ReshardStepKind::AllToAll:
    started = AllToAllOp::create(builder, loc, pending, value, axes, dim, builder.getI64IntegerAttr(step.otherDim),
                                 streamAttr, causeAttr);
    break;
  default:
    started = CollectivePermuteOp::create(
        builder, loc, pending, value, axes, builder.getDenseI64ArrayAttr(flatSharding(before)),
        builder.getDenseI64ArrayAttr(flatSharding(step.after)), streamAttr, causeAttr);
  }
  return WaitOp::create(builder, loc, type, started);
}

/// Returns a slice of `value`, of type `type`, along dimension `dim`. A slice of a broadcast along a dimension that the
/// broadcast adds is a smaller broadcast.
Value Lowering::sliced(Value value, Type type, int64_t dim, DenseI64ArrayAttr axes, Location loc) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (broadcast && !llvm::is_contained(broadcast.getBroadcastDimensions(), dim)) {
    auto smaller = cast<BroadcastInDimOp>(builder.clone(*broadcast));
    smaller.getResult().setType(cast<RankedTensorType>(type));
    return smaller;
  }
  return LocalSliceOp::create(builder, loc, type, value, builder.getI64IntegerAttr(dim), axes);
}

FailureOr<Value> Lowering::reshard(Value value, RankedTensorType global, ShardingAttr fromAttr, ShardingAttr toAttr,
                                   StringRef stream, StringRef cause, Location loc) {
  auto emitError = [&] { return mlir::emitError(loc); };
  auto from = fromAttr.toSharding(mesh, shapeOf(global), emitError),
       to = toAttr.toSharding(mesh, shapeOf(global), emitError);
  if (failed(from) || failed(to))
    return failure();
  auto steps = planReshard(mesh, shapeOf(global), bytesPerElement(global), *from, *to, price);
  if (!steps)
    return mlir::emitError(loc) << steps.error().message;
  Sharding before = *from;
  for (const ReshardStep &next : *steps) {
    if (next.kind != ReshardStepKind::LocalSlice &&
        (containsAxis(next.axes, microbatchAxis(mesh)) || containsAxis(next.axes, stageAxis(mesh))))
      return mlir::emitError(loc) << "would need a collective over microbatches or stages, to go from " << fromAttr
                                  << " to " << toAttr << "; both shardings must cut alike over those axes";
    value = step(value, global, before, next, stream, cause, loc);
    before = next.after;
  }
  return value;
}

/// Hands on the compression of a sync_gradient to the last of its collectives that adds numbers up. Where there are
/// two, the first one adds over neighbouring ranks.
void Lowering::markCompressed(Operation &sync, Value summed) {
  for (Operation *op = summed.getDefiningOp(); op && op->getNumOperands() == 1; op = op->getOperand(0).getDefiningOp())
    if (isa<AllReduceOp, ReduceScatterOp>(op) && op->getAttrOfType<StringAttr>("stream").getValue() == "gradients") {
      for (StringRef name : {StringRef(kCompressionAttr), StringRef(KerfDialect::kEachMicrobatchAttr)})
        if (Attribute attr = sync.getAttr(name))
          op->setAttr(name, attr);
      return;
    } else if (!isa<WaitOp, LocalSliceOp, AllGatherOp, AllToAllOp, CollectivePermuteOp>(op)) {
      return;
    }
}

Value Lowering::masked(Value value, Shape globalShape, unsigned dim, const DimSharding &cut, ReduceKind fill,
                       Location loc) {
  Value &known = maskedValues[{value.getAsOpaquePointer(), dim, static_cast<int>(fill)}];
  if (!known)
    known = MaskPaddingOp::create(builder, loc, value.getType(), value, builder.getI64IntegerAttr(dim),
                                  builder.getDenseI64ArrayAttr(flatAxes(cut.axes)),
                                  builder.getI64IntegerAttr(globalShape[dim]),
                                  ReduceKindIRAttr::get(builder.getContext(), static_cast<ReduceKindIR>(fill)));
  return known;
}

/// Padding must not contribute to a sum. Where a dimension is padded and a result lacks one of its factors, the
/// operand's padding is set to the neutral element. Indices in padding could be invalid, so they are set to 0.
SmallVector<Value> Lowering::maskOperands(Operation &op, const Rule &rule, const OpSharding &sharding) {
  SmallVector<Value> operands;
  bool looksUp = kernelClassOf(&op) == KernelClass::Gather || op.hasTrait<TakesIndices>();
  for (auto [i, value] : llvm::enumerate(op.getOperands())) {
    Shape shape = shapeOf(value);
    Value operand = local.lookup(value);
    bool isIndex = looksUp && isa<IntegerType>(getElementTypeOrSelf(value.getType()));
    for (size_t d = 0; d < shape.size(); ++d) {
      const DimSharding &cut = sharding.operands[i].dims[d];
      if (!isPadded(shape[d], cut))
        continue;
      std::optional<ReduceKind> fill;
      if (isIndex)
        fill = ReduceKind::Sum;
      for (int factor : rule.operands[i][d])
        for (const FactorMap &result : rule.results)
          if (rule.factors[factor].size > 1 &&
              llvm::none_of(result, [&](const std::vector<int> &dim) { return llvm::is_contained(dim, factor); }))
            fill = rule.factors[factor].reduction;
      if (fill)
        operand = masked(operand, shape, d, cut, *fill, op.getLoc());
    }
    operands.push_back(operand);
  }
  return operands;
}

LogicalResult Lowering::lower(Operation &op) {
  if (auto call = dyn_cast<CallOp>(op)) {
    SmallVector<Value> operands = llvm::map_to_vector(call.getInputs(), [&](Value v) { return local.lookup(v); });
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    auto made =
        CallOp::create(builder, op.getLoc(), callee.getFunctionType().getResults(), call.getCalleeAttr(), operands);
    made->setDiscardableAttrs(op.getDiscardableAttrDictionary());
    local.map(call.getOutputs(), made.getOutputs());
    return success();
  }
  if (auto sum = dyn_cast<AccumulateOp>(op)) {
    Value operand = local.lookup(sum.getOperand());
    local.map(sum.getResult(), AccumulateOp::create(builder, op.getLoc(), operand.getType(), operand).getResult());
    return success();
  }
  if (auto reshardOp = dyn_cast<ReshardOp>(op)) {
    auto cause = op.getAttrOfType<StringAttr>("cause");
    auto value = reshard(local.lookup(reshardOp.getOperand()), tensorType(reshardOp.getResult()), reshardOp.getFrom(),
                         reshardOp.getTo(), "collectives", cause ? cause.getValue() : "", op.getLoc());
    if (failed(value))
      return failure();
    local.map(reshardOp.getResult(), *value);
    return success();
  }
  if (auto sync = dyn_cast<SyncGradientOp>(op); sync && op.hasAttr("from")) {
    auto value = reshard(local.lookup(sync.getOperand()), tensorType(sync.getResult()),
                         op.getAttrOfType<ShardingAttr>("from"), op.getAttrOfType<ShardingAttr>("to"), "gradients",
                         "gradient of " + sync.getParameter().str(), op.getLoc());
    if (failed(value))
      return failure();
    if (op.hasAttr(kCompressionAttr))
      markCompressed(op, *value);
    local.map(sync.getResult(), *value);
    return success();
  }
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  auto attr = op.getAttrOfType<DictionaryAttr>(KerfDialect::kStrategyAttr);
  if (!ruled || !attr)
    return op.emitError() << "is not planned; run kerf-insert-reshards first";
  Rule rule = ruled.getShardingRule();
  auto strategy = parseStrategyAttr(attr, mesh, rule);
  if (!strategy)
    return op.emitError() << strategy.error().message;
  auto projected = project(rule, mesh, *strategy);
  if (!projected)
    return op.emitError() << "the strategy cannot be carried out; choose one that the rule allows: " << toString(rule);
  SmallVector<Value> operands = maskOperands(op, rule, *projected);
  SmallVector<Type> types;
  for (auto [result, lies] : llvm::zip(op.getResults(), projected->results))
    types.push_back(localType(result.getType(), lies));
  auto results = ruled.localize(builder, operands, types, LocalizeContext{mesh, *projected});
  if (failed(results))
    return failure();
  for (auto [old, made] : llvm::zip(op.getResults(), *results)) {
    if (Operation *definer = made.getDefiningOp())
      definer->removeAttr(KerfDialect::kStrategyAttr);
    local.map(old, made);
  }
  return success();
}

LogicalResult Lowering::run() {
  Block &old = function.front();
  auto *body = new Block;
  function.getBody().push_front(body);
  SmallVector<Type> argumentTypes, resultTypes;
  // Attributes are set at once, because each change would copy all of them.
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
  auto withGlobalType = [](DictionaryAttr described, Type type) {
    NamedAttrList attributes(described);
    attributes.set(KerfDialect::kGlobalTypeAttr, TypeAttr::get(type));
    return attributes.getDictionary(type.getContext());
  };
  for (BlockArgument argument : old.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto attr = function.getArgAttrOfType<ShardingAttr>(i, KerfDialect::kShardingAttr);
    auto lies = attr ? sharding(attr, argument.getType(), function)
                     : FailureOr<Sharding>(Sharding::replicated(shapeOf(argument).size()));
    if (failed(lies))
      return failure();
    RankedTensorType type = localType(argument.getType(), *lies);
    argumentAttributes.push_back(withGlobalType(function.getArgAttrDict(i), argument.getType()));
    body->addArgument(type, argument.getLoc());
    argumentTypes.push_back(type);
    local.map(argument, body->getArgument(i));
  }
  builder.setInsertionPointToEnd(body);
  for (Operation &op : old.without_terminator())
    if (failed(lower(op)))
      return failure();
  SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(old.getTerminator()->getOperands())) {
    resultAttributes.push_back(withGlobalType(function.getResultAttrDict(i), value.getType()));
    results.push_back(local.lookup(value));
    resultTypes.push_back(results.back().getType());
  }
  func::ReturnOp::create(builder, old.getTerminator()->getLoc(), results);
  old.dropAllReferences();
  old.erase();
  function.setFunctionType(FunctionType::get(function.getContext(), argumentTypes, resultTypes));
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(resultAttributes);
  return success();
}

struct Partition : impl::PartitionBase<Partition> {
  using PartitionBase::PartitionBase;
  explicit Partition(StepPrice price) : price(std::move(price)) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Mesh mesh = meshOf(module);
    SymbolTable symbols(module);
    for (bool calls : {false, true}) // callees first, because calls take their result types
      for (auto function : module.getOps<func::FuncOp>())
        if (function.getOps<CallOp>().empty() != calls)
          if (failed(Lowering(function, mesh, price, symbols).run()))
            return signalPassFailure();
  }
  StepPrice price = bytesReceived;
};

} // namespace

std::unique_ptr<Pass> createPartition(StepPrice price) { return std::make_unique<Partition>(std::move(price)); }

} // namespace kerf
