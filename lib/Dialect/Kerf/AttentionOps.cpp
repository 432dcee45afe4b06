// SPDX-License-Identifier: Apache-2.0
// The ops attention and attention_backward: verifiers, sharding rules, gradient and decompositions.
// Decompositions split the H = G * R query heads into the dimensions [G, R], where the R heads of a group share a
// key/value head. The scores then are [B, G, S, R, T].
#include "CompositeRules.h"
#include "RingAttention.h"
#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
/// The dimensions of an attention op.
struct Sizes {
  int64_t batch, queries, keys, heads, groups, headsPerGroup, keyDim, valueDim;

  Sizes(Value query, Value key, Value value)
      : batch(tensorType(query).getDimSize(0)), queries(tensorType(query).getDimSize(1)),
        keys(tensorType(key).getDimSize(1)), heads(tensorType(query).getDimSize(2)),
        groups(tensorType(key).getDimSize(2)), headsPerGroup(groups > 0 ? heads / groups : 0),
        keyDim(tensorType(query).getDimSize(3)), valueDim(tensorType(value).getDimSize(3)) {}

  /// Returns the number of query-key pairs that are computed; causal attention computes about half of them.
  double pairs(bool causal) const {
    double all = static_cast<double>(queries) * static_cast<double>(keys);
    double seen = causal ? 0.5 * static_cast<double>(queries) * static_cast<double>(keys + 1) : all;
    return static_cast<double>(batch) * static_cast<double>(heads) * seen;
  }
};

enum Operand { kQuery, kKey, kValue, kMask };
} // namespace

/// Checks the shapes that attention and its backward op have in common (the bullets of their description).
static LogicalResult checkAttention(Operation *op, Value query, Value key, Value value, Value mask, bool causal,
                                    std::optional<ArrayRef<int64_t>> queryAxes) {
  for (auto [name, operand] : {std::pair{"query", query}, {"key", key}, {"value", value}})
    if (tensorType(operand).getRank() != 4)
      return op->emitOpError() << name << " has rank " << tensorType(operand).getRank()
                               << ", but should have 4 ([B, S, H, D])";
  Sizes n(query, key, value);
  if (n.groups <= 0 || n.heads % n.groups != 0)
    return op->emitOpError() << "has " << n.heads << " query heads and " << n.groups
                             << " key heads; the query heads must be a multiple of the key heads";
  if (failed(checkShape(op, "key", key, {n.batch, n.keys, n.groups, n.keyDim})) ||
      failed(checkShape(op, "value", value, {n.batch, n.keys, n.groups, n.valueDim})))
    return failure();
  if (causal && !queryAxes && n.queries != n.keys)
    return op->emitOpError() << "causal attention needs as many queries as keys, but there are " << n.queries << " and "
                             << n.keys;
  if (!mask)
    return success();
  RankedTensorType type = tensorType(mask);
  if (type.getRank() != 4)
    return op->emitOpError() << "mask has rank " << type.getRank() << ", but should have 4 ([1 or B, 1 or H, S, T])";
  if (!isa<FloatType>(type.getElementType()) && !type.getElementType().isInteger(1))
    return op->emitOpError() << "mask's elements are " << type.getElementType()
                             << ", but should be floating-point numbers or i1";
  int64_t batch = type.getDimSize(0) == 1 ? 1 : n.batch;
  int64_t heads = type.getDimSize(1) == 1 ? 1 : n.heads;
  return checkShape(op, "mask", mask, {batch, heads, n.queries, n.keys});
}

/// A writer of the sharding rule of an attention op: its factors, and the maps of its tensors.
namespace {
struct AttentionRule : RuleWriter {
  int b, g, r, s, t, d, e;
  FactorMap query, key, value, output, lse;

  explicit AttentionRule(const Sizes &n)
      : b(factor("b", n.batch)), g(factor("g", n.groups)), r(factor("r", n.headsPerGroup)), s(factor("s", n.queries)),
        t(factor("t", n.keys, FactorKind::Replicated)), d(factor("d", n.keyDim, FactorKind::Replicated)),
        e(factor("e", n.valueDim, FactorKind::Replicated)), query({{b}, {s}, {g, r}, {d}}), key({{b}, {t}, {g}, {d}}),
        value({{b}, {t}, {g}, {e}}), output({{b}, {s}, {g, r}, {e}}), lse({{b}, {g, r}, {s}}) {}

  /// Returns the map of the mask. A dimension of size 1, which is broadcast, has no factor.
  FactorMap maskMap(Value mask) const {
    bool wholeBatch = tensorType(mask).getDimSize(0) == rule.factors[b].size;
    bool wholeHeads = tensorType(mask).getDimSize(1) == rule.factors[g].size * rule.factors[r].size;
    return {wholeBatch ? std::vector{b} : std::vector<int>{},
            wholeHeads ? std::vector{g, r} : std::vector<int>{},
            {s},
            {t}};
  }
};
} // namespace

//===-- decomposition ---------------------------------------------------------------------------------------------===//

/// [B, S, H, X] -> [B, S, G, R, X]
static Value splitHeads(Emitter &emit, Value x, const Sizes &n) {
  return emit.reshape(x, {n.batch, n.queries, n.groups, n.headsPerGroup, tensorType(x).getDimSize(3)});
}

/// [B, G, S, R, X] -> [B, S, H, X]
static Value mergeHeads(Emitter &emit, Value x, const Sizes &n) {
  return emit.reshape(emit.transpose(x, {0, 2, 1, 3, 4}), {n.batch, n.queries, n.heads, tensorType(x).getDimSize(4)});
}

/// [B, H, S] -> [B, G, S, R]
static Value splitRows(Emitter &emit, Value x, const Sizes &n) {
  return emit.transpose(emit.reshape(x, {n.batch, n.groups, n.headsPerGroup, n.queries}), {0, 1, 3, 2});
}

/// [1 or B, 1 or H, S, T] -> [B, G, S, R, T]
static Value spreadMask(Emitter &emit, Value mask, ArrayRef<int64_t> scores, const Sizes &n) {
  int64_t maskBatch = tensorType(mask).getDimSize(0);
  if (tensorType(mask).getDimSize(1) == 1) {
    Value row = emit.reshape(mask, {maskBatch, 1, n.queries, n.keys});
    return emit.broadcast(row, scores, {0, 1, 2, 4});
  }
  Value split = emit.reshape(mask, {maskBatch, n.groups, n.headsPerGroup, n.queries, n.keys});
  return emit.broadcast(emit.transpose(split, {0, 1, 3, 2, 4}), scores, {0, 1, 2, 3, 4});
}

/// Returns the scores scale * q k^T + mask, [B, G, S, R, T], with -inf where a query does not attend to a key.
static Value scoresOf(Emitter &emit, Value query, Value key, Value mask, double scale, bool causal, const Sizes &n) {
  Value scores = emit.dot(splitHeads(emit, query, n), key, {0, 2}, {0, 2}, {4}, {3});
  scores = emit.multiply(scores, emit.splat(scale, scores));
  auto shape = tensorType(scores).getShape();
  Value excluded = mask && !isa<FloatType>(tensorType(mask).getElementType()) ? mask : Value();
  if (mask && !excluded)
    scores = emit.add(scores, spreadMask(emit, emit.convert(mask, tensorType(scores).getElementType()), shape, n));
  if (!excluded && !causal)
    return scores;
  Value hidden = emit.splat(-std::numeric_limits<double>::infinity(), scores);
  if (excluded)
    scores = emit.select(spreadMask(emit, excluded, shape, n), scores, hidden);
  if (!causal)
    return scores;
  Type index = emit.builder.getI64Type();
  Value sees =
      emit.compare(emit.iota({n.queries, n.keys}, index, 0), emit.iota({n.queries, n.keys}, index, 1), Comparison::GE);
  return emit.select(emit.broadcast(sees, shape, {2, 4}), scores, hidden);
}

/// Returns x with the lowest finite number in place of -inf. The row of a query that attends to no key then gives
/// exp(-inf - lowest) = 0 instead of NaN.
static Value finite(Emitter &emit, Value x) {
  auto type = cast<FloatType>(tensorType(x).getElementType());
  double lowest = llvm::APFloat::getLargest(type.getFloatSemantics(), /*Negative=*/true).convertToDouble();
  return emit.maximum(x, emit.splat(lowest, x));
}

//===-- attention -------------------------------------------------------------------------------------------------===//

LogicalResult AttentionOp::verify() {
  if (failed(checkAttention(*this, getQuery(), getKey(), getValue(), getMask(), getCausal(), getQueryAxes())))
    return failure();
  Sizes n(getQuery(), getKey(), getValue());
  if (failed(checkShape(*this, "result", getResult(), {n.batch, n.queries, n.heads, n.valueDim})))
    return failure();
  return checkShape(*this, "lse", getLse(), {n.batch, n.heads, n.queries});
}

Rule kerf::ir::ringRule(Rule rule) {
  int queries = rule.operands[kQuery][1].front(), keys = rule.operands[kKey][1].front();
  for (std::vector<FactorMap> *maps : {&rule.operands, &rule.results})
    for (FactorMap &map : *maps)
      if (!llvm::is_contained(map, std::vector<int>{queries}) || !llvm::is_contained(map, std::vector<int>{keys}))
        llvm::replace(map, std::vector<int>{keys}, std::vector<int>{queries});
  return rule;
}

/// Returns the rule of ring attention where the plan asks for it (kerf.ring), otherwise `rule`.
static Rule withRing(Operation *op, Rule rule) {
  return op->hasAttr(KerfDialect::kRingAttr) ? ringRule(std::move(rule)) : rule;
}

Rule AttentionOp::getShardingRule() {
  AttentionRule writer(Sizes(getQuery(), getKey(), getValue()));
  writer.rule.operands = {writer.query, writer.key, writer.value};
  if (getMask())
    writer.rule.operands.push_back(writer.maskMap(getMask()));
  writer.rule.results = {writer.output, writer.lse};
  return withRing(*this, std::move(writer.rule));
}

/// Where the queries of causal attention are sharded, the local op gets the axes that determine its
/// first query's number.
static SmallVector<Value> localAttention(OpBuilder &builder, Operation *op, bool causal, ValueRange operands,
                                         TypeRange resultTypes, ArrayRef<AxisRef> axes) {
  SmallVector<Value> results = cloneWithTypes(builder, op, operands, resultTypes);
  Operation *made = results.front().getDefiningOp();
  made->removeDiscardableAttr(KerfDialect::kRingAttr);
  if (causal && !axes.empty())
    made->setAttr("query_axes", builder.getDenseI64ArrayAttr(axisTriples(axes)));
  return results;
}

FailureOr<SmallVector<Value>> AttentionOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                    const LocalizeContext &context) {
  const std::vector<AxisRef> &axes = context.sharding.operands[kQuery].dims[1].axes;
  if ((*this)->hasAttr(KerfDialect::kRingAttr) && shardCount(axes) > 1)
    return ringAttention(builder, *this, operands, resultTypes, axes);
  return localAttention(builder, *this, getCausal(), operands, resultTypes, axes);
}

FailureOr<SmallVector<Value>> AttentionBackwardOp::localize(OpBuilder &builder, ValueRange operands,
                                                            TypeRange resultTypes, const LocalizeContext &context) {
  const std::vector<AxisRef> &axes = context.sharding.operands[kQuery].dims[1].axes;
  if ((*this)->hasAttr(KerfDialect::kRingAttr) && shardCount(axes) > 1)
    return ringAttentionBackward(builder, *this, operands, resultTypes, axes);
  return localAttention(builder, *this, getCausal(), operands, resultTypes, axes);
}

double AttentionOp::getFlops() {
  Sizes n(getQuery(), getKey(), getValue());
  return 2.0 * n.pairs(getCausal()) * static_cast<double>(n.keyDim + n.valueDim);
}
KernelClass AttentionOp::getKernelClass() { return KernelClass::Attention; }

/// Sets the sizes m, n, k and batch of an attention kernel from the local shapes [samples, length, heads, width].
static void describeAttention(const Shape &query, const Shape &key, Work &work) {
  work.batch = static_cast<double>(query[0] * query[2]);
  work.m = static_cast<double>(query[1]);
  work.n = static_cast<double>(key[1]);
  work.k = static_cast<double>(query[3]);
}
void AttentionOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  describeAttention(operands[kQuery], operands[kKey], work);
}
void AttentionBackwardOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  describeAttention(operands[kQuery], operands[kKey], work);
}
void AttentionBlockOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  describeAttention(shapeOf(getQuery()), shapeOf(getKey()), work);
}
void AttentionBlockBackwardOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  describeAttention(shapeOf(getQuery()), shapeOf(getKey()), work);
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (failed(refuseGradient(*this, "lse", resultGradients[1])))
    return failure();
  if (getMask() && wanted[kMask])
    return emitOpError() << "the mask depends on a trained parameter, but attention computes no gradient of its mask; "
                         << "give <no-recognition>";
  auto backward = AttentionBackwardOp::create(
      builder, getLoc(), getQuery().getType(), getKey().getType(), getValue().getType(), getQuery(), getKey(),
      getValue(), getMask(), getResult(), getLse(), resultGradients[0], getScaleAttr(), getCausalAttr(), nullptr);
  for (int i = kQuery; i <= kValue; ++i)
    if (wanted[i])
      operandGradients[i] = backward->getResult(i);
  return success();
}

SmallVector<Value> AttentionOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Sizes n(getQuery(), getKey(), getValue());
  Value scores = scoresOf(emit, getQuery(), getKey(), getMask(), getScale().convertToDouble(), getCausal(), n);
  Value largest = finite(emit, emit.reduce(scores, ReduceKindIR::max, {4}));
  Value exponentials = emit.exponential(emit.subtract(scores, emit.broadcastAlong(largest, scores, 4)));
  Value total = emit.sum(exponentials, {4});
  Value lse = emit.add(emit.log(total), largest);
  Value sees = emit.compare(total, emit.splat(0.0, total), Comparison::GT);
  Value denominator = emit.select(sees, total, emit.splat(1.0, total));
  Value probabilities = emit.divide(exponentials, emit.broadcastAlong(denominator, scores, 4));
  Value output = emit.dot(probabilities, getValue(), {0, 1}, {0, 2}, {4}, {1});
  return {mergeHeads(emit, output, n), emit.reshape(emit.transpose(lse, {0, 1, 3, 2}), {n.batch, n.heads, n.queries})};
}

//===-- attention_backward ----------------------------------------------------------------------------------------===//

LogicalResult AttentionBackwardOp::verify() {
  if (failed(checkAttention(*this, getQuery(), getKey(), getValue(), getMask(), getCausal(), getQueryAxes())))
    return failure();
  Sizes n(getQuery(), getKey(), getValue());
  Shape output = {n.batch, n.queries, n.heads, n.valueDim};
  if (failed(checkShape(*this, "output", getOutput(), output)) ||
      failed(checkShape(*this, "gradient", getGradient(), output)) ||
      failed(checkShape(*this, "lse", getLse(), {n.batch, n.heads, n.queries})) ||
      failed(checkShape(*this, "query's gradient", getQueryGradient(), tensorType(getQuery()).getShape())) ||
      failed(checkShape(*this, "key's gradient", getKeyGradient(), tensorType(getKey()).getShape())))
    return failure();
  return checkShape(*this, "value's gradient", getValueGradient(), tensorType(getValue()).getShape());
}

Rule AttentionBackwardOp::getShardingRule() {
  AttentionRule writer(Sizes(getQuery(), getKey(), getValue()));
  writer.rule.operands = {writer.query, writer.key, writer.value};
  if (getMask())
    writer.rule.operands.push_back(writer.maskMap(getMask()));
  writer.rule.operands.insert(writer.rule.operands.end(), {writer.output, writer.lse, writer.output});
  writer.rule.results = {writer.query, writer.key, writer.value};
  writer.linear({static_cast<int>(getNumOperands()) - 1}, {0, 1, 2});
  return withRing(*this, std::move(writer.rule));
}

double AttentionBackwardOp::getFlops() {
  // There are five products: the recomputed q k^T, dout v^T, and one for each of the three gradients.
  Sizes n(getQuery(), getKey(), getValue());
  return 2.0 * n.pairs(getCausal()) * static_cast<double>(3 * n.keyDim + 2 * n.valueDim);
}
KernelClass AttentionBackwardOp::getKernelClass() { return KernelClass::Attention; }

SmallVector<Value> AttentionBackwardOp::decompose(OpBuilder &builder) {
  Emitter emit{builder, getLoc()};
  Sizes n(getQuery(), getKey(), getValue());
  double scale = getScale().convertToDouble();
  Value scores = scoresOf(emit, getQuery(), getKey(), getMask(), scale, getCausal(), n);
  Value lse = finite(emit, splitRows(emit, getLse(), n));
  Value probabilities = emit.exponential(emit.subtract(scores, emit.broadcastAlong(lse, scores, 4)));
  Value dout = splitHeads(emit, getGradient(), n);
  Value dProbabilities = emit.dot(dout, getValue(), {0, 2}, {0, 2}, {4}, {3});
  Value agreement = emit.sum(emit.multiply(dout, splitHeads(emit, getOutput(), n)), {4}); // [B, S, G, R]
  Value shift = emit.broadcastAlong(emit.transpose(agreement, {0, 2, 1, 3}), scores, 4);
  Value dScores = emit.multiply(probabilities, emit.subtract(dProbabilities, shift));
  dScores = emit.multiply(dScores, emit.splat(scale, dScores));
  Value dQuery = emit.dot(dScores, getKey(), {0, 1}, {0, 2}, {4}, {1});                            // [B, G, S, R, D]
  Value dKey = emit.dot(dScores, splitHeads(emit, getQuery(), n), {0, 1}, {0, 2}, {2, 3}, {1, 3}); // [B, G, T, D]
  Value dValue = emit.dot(probabilities, dout, {0, 1}, {0, 2}, {2, 3}, {1, 3});                    // [B, G, T, E]
  return {mergeHeads(emit, dQuery, n), emit.transpose(dKey, {0, 2, 1, 3}), emit.transpose(dValue, {0, 2, 1, 3})};
}
