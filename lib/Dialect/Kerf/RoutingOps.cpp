// SPDX-License-Identifier: Apache-2.0
// Ops of mixtures of experts: verifiers, sharding rules, work and gradients. dispatch and combine are each other's
// transpose, so each computes the other's gradient with respect to the moved values; combine_backward computes the
// gradient of both with respect to the weights.
#include "CompositeRules.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

static LogicalResult checkSameElements(Operation *op, StringRef left, Value a, StringRef right, Value b) {
  Type first = tensorType(a).getElementType(), second = tensorType(b).getElementType();
  if (first == second)
    return success();
  return op->emitOpError() << "has elements of " << first << " in " << left << " and of " << second << " in " << right
                           << "; they must agree";
}

static LogicalResult checkRank(Operation *op, StringRef what, Value value, int64_t rank) {
  if (tensorType(value).getRank() == rank)
    return success();
  return op->emitOpError() << what << " has rank " << tensorType(value).getRank() << ", but should have " << rank;
}

//===-- top_k -----------------------------------------------------------------------------------------------------===//

/// Checks that `picked` has the shape of `all` except for the last dimension, which is at most that of `all`.
static LogicalResult checkPicked(Operation *op, StringRef allName, Value all, StringRef pickedName, Value picked) {
  ArrayRef<int64_t> whole = tensorType(all).getShape(), part = tensorType(picked).getShape();
  if (whole.empty() || part.empty())
    return op->emitOpError() << (whole.empty() ? allName : pickedName) << " is a scalar, but should have a dimension";
  if (whole.drop_back() != part.drop_back())
    return op->emitOpError() << pickedName << " is " << shapeText(part) << ", but should be "
                             << shapeText(whole.drop_back()) << " and one more dimension";
  if (part.back() < 1 || part.back() > whole.back())
    return op->emitOpError() << "picks " << part.back() << " of " << whole.back()
                             << " elements; it must pick at least 1 and at most all of them";
  return success();
}

LogicalResult TopKOp::verify() {
  if (failed(checkPicked(*this, "scores", getScores(), "values", getValues())) ||
      failed(checkShape(*this, "indices", getIndices(), tensorType(getValues()).getShape())))
    return failure();
  return checkSameElements(*this, "scores", getScores(), "values", getValues());
}

LogicalResult TopKBackwardOp::verify() {
  if (failed(checkPicked(*this, "result", getResult(), "gradient", getGradient())) ||
      failed(checkShape(*this, "indices", getIndices(), tensorType(getGradient()).getShape())))
    return failure();
  return checkSameElements(*this, "gradient", getGradient(), "result", getResult());
}

namespace {
/// A writer of the sharding rules of top_k and its backward op: the leading dimensions, which may be sharded, and the
/// last dimensions of all elements and of the picked ones, which may not.
struct TopKRule : RuleWriter {
  FactorMap all, picked;
  TopKRule(Value whole, Value part) {
    FactorMap rows = dims("i", tensorType(whole).getShape().drop_back());
    all = rows + FactorMap{{factor("v", tensorType(whole).getShape().back(), FactorKind::Replicated)}};
    picked = rows + FactorMap{{factor("k", tensorType(part).getShape().back(), FactorKind::Replicated)}};
  }
};
} // namespace

// ([i.., v]) -> ([i.., k], [i.., k])      v and k may not be sharded
Rule TopKOp::getShardingRule() {
  TopKRule writer(getScores(), getValues());
  writer.rule.operands = {writer.all};
  writer.rule.results = {writer.picked, writer.picked};
  return writer.rule;
}

double TopKOp::getFlops() { return elements(getScores()); }
KernelClass TopKOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult TopKOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  if (wanted[0] && resultGradients[0])
    operandGradients[0] =
        TopKBackwardOp::create(builder, getLoc(), getScores().getType(), getIndices(), resultGradients[0]);
  return success();
}

// ([i.., k], [i.., k]) -> ([i.., v])      v and k may not be sharded
Rule TopKBackwardOp::getShardingRule() {
  TopKRule writer(getResult(), getGradient());
  writer.rule.operands = {writer.picked, writer.picked};
  writer.rule.results = {writer.all};
  writer.linear({1}, {0});
  return writer.rule;
}

double TopKBackwardOp::getFlops() { return elements(getGradient()); }
KernelClass TopKBackwardOp::getKernelClass() { return KernelClass::Gather; }

//===-- dispatch and combine --------------------------------------------------------------------------------------===//

namespace {

/// The tensors of a routing op by their role, whichever of them is the result.
struct Routing {
  Value slots, indices, weights, tokens; // [e, b, c, d], [b, s, k], [b, s, k], [b, s, d]
  Value offset;
  StringRef slotsName, weightsName, tokensName;
  int64_t experts;
};

Routing routingOf(DispatchOp op) {
  return {op.getResult(),  op.getIndices(), op.getWeights(),
          op.getOperand(), op.getOffset(),  "result",
          "weights",       "operand",       static_cast<int64_t>(op.getExperts())};
}
Routing routingOf(CombineOp op) {
  return {op.getOperand(), op.getIndices(), op.getWeights(),
          op.getResult(),  op.getOffset(),  "operand",
          "weights",       "result",        static_cast<int64_t>(op.getExperts())};
}
Routing routingOf(CombineBackwardOp op) {
  return {op.getOperand(), op.getIndices(), op.getResult(),
          op.getTokens(),  op.getOffset(),  "operand",
          "result",        "tokens",        static_cast<int64_t>(op.getExperts())};
}

LogicalResult check(Operation *op, const Routing &r) {
  if (failed(checkRank(op, r.slotsName, r.slots, 4)) || failed(checkRank(op, r.tokensName, r.tokens, 3)) ||
      failed(checkRank(op, "indices", r.indices, 3)))
    return failure();
  ArrayRef<int64_t> slots = tensorType(r.slots).getShape(), tokens = tensorType(r.tokens).getShape(),
                    choices = tensorType(r.indices).getShape();
  if (failed(checkShape(op, "indices", r.indices, {tokens[0], tokens[1], choices[2]})) ||
      failed(checkShape(op, r.weightsName, r.weights, choices)) ||
      failed(checkShape(op, r.slotsName, r.slots, {r.offset ? slots[0] : r.experts, tokens[0], slots[2], tokens[2]})) ||
      failed(checkSameElements(op, r.slotsName, r.slots, r.tokensName, r.tokens)) ||
      failed(checkSameElements(op, r.slotsName, r.slots, r.weightsName, r.weights)))
    return failure();
  if (!r.offset)
    return success();
  if (!tensorType(r.offset).getElementType().isInteger(64))
    return op->emitOpError() << "offset's element type is " << tensorType(r.offset).getElementType()
                             << ", but should be i64";
  return checkShape(op, "offset", r.offset, {});
}

struct RoutingRule : RuleWriter {
  FactorMap slots, choices, tokens;
  explicit RoutingRule(const Routing &r) {
    ArrayRef<int64_t> from = tensorType(r.slots).getShape(), to = tensorType(r.indices).getShape();
    int e = factor("e", from[0]), b = factor("b", from[1]), c = factor("c", from[2], FactorKind::Replicated),
        d = factor("d", from[3]);
    int s = factor("s", to[1], FactorKind::Replicated), k = factor("k", to[2], FactorKind::Replicated);
    slots = {{e}, {b}, {c}, {d}};
    choices = {{b}, {s}, {k}};
    tokens = {{b}, {s}, {d}};
  }
};

/// Returns the number of elements moved on this rank: those of copies with a slot, of which there are at most as many
/// as slots.
double movedElements(const Routing &r) {
  double width = static_cast<double>(tensorType(r.tokens).getShape().back());
  return std::min(elements(r.indices) * width, elements(r.slots));
}

/// Returns the number of the first expert in a rank's shard; null where experts are not sharded.
Value firstExpert(Emitter &emit, const DimSharding &experts) {
  if (experts.axes.empty())
    return Value();
  auto type = RankedTensorType::get({}, emit.builder.getI64Type());
  return ShardOffsetOp::create(emit.builder, emit.loc, type, axisTriples(experts.axes),
                               static_cast<uint64_t>(experts.chunk));
}

/// Emits the op on shards, where `slots` has the given sharding. Choices in padding become 0, because an invalid one
/// would end the run.
template <typename Op>
SmallVector<Value> localized(Op op, OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                             const Sharding &slots, const LocalizeContext &context) {
  Emitter emit{builder, op.getLoc()};
  Value choices = zeroPadding(emit, operands[1], shapeOf(op.getIndices()), context.sharding.operands[1]);
  Value first = firstExpert(emit, slots.dims[0]);
  return {
      Op::create(builder, op.getLoc(), resultTypes[0], operands[0], choices, operands[2], first, op.getExpertsAttr())};
}

} // namespace

LogicalResult DispatchOp::verify() { return check(*this, routingOf(*this)); }
LogicalResult CombineOp::verify() { return check(*this, routingOf(*this)); }
LogicalResult CombineBackwardOp::verify() { return check(*this, routingOf(*this)); }

// ([b, s, d], [b, s, k], [b, s, k]) -> ([e, b, c, d])      s, k and c may not be sharded
Rule DispatchOp::getShardingRule() {
  RoutingRule writer(routingOf(*this));
  writer.rule.operands = {writer.tokens, writer.choices, writer.choices};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.slots};
  writer.linear({0}, {0});
  writer.linear({2}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> DispatchOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                   const LocalizeContext &context) {
  return localized(*this, builder, operands, resultTypes, context.sharding.results[0], context);
}

double DispatchOp::getFlops() { return movedElements(routingOf(*this)); }
KernelClass DispatchOp::getKernelClass() { return KernelClass::Gather; }
Value DispatchOp::getSlots() { return getResult(); }
Value DispatchOp::getTokenStream() { return getOperand(); }

LogicalResult DispatchOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[0])
    operandGradients[0] = CombineOp::create(builder, getLoc(), getOperand().getType(), resultGradients[0], getIndices(),
                                            getWeights(), getOffset(), getExpertsAttr());
  if (wanted[2])
    operandGradients[2] = CombineBackwardOp::create(builder, getLoc(), getWeights().getType(), resultGradients[0],
                                                    getIndices(), getOperand(), getOffset(), getExpertsAttr());
  return success();
}

// ([e, b, c, d], [b, s, k], [b, s, k]) -> ([b, s, d])  e: reduction(sum)      s, k and c may not be sharded
Rule CombineOp::getShardingRule() {
  RoutingRule writer(routingOf(*this));
  writer.rule.operands = {writer.slots, writer.choices, writer.choices};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.tokens};
  writer.linear({0}, {0});
  writer.linear({2}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> CombineOp::localize(OpBuilder &builder, ValueRange operands, TypeRange resultTypes,
                                                  const LocalizeContext &context) {
  return localized(*this, builder, operands, resultTypes, context.sharding.operands[0], context);
}

double CombineOp::getFlops() { return 2 * movedElements(routingOf(*this)); }
KernelClass CombineOp::getKernelClass() { return KernelClass::Gather; }
Value CombineOp::getSlots() { return getOperand(); }
Value CombineOp::getTokenStream() { return getResult(); }

/// Corrects `work.bytes` of an op that reads slots: it reads only slots that hold a token.
static void readsFilledSlots(Operation *op, ArrayRef<Shape> operands, Work &work) {
  double slots = elementsIn(operands[0]), copies = elementsIn(operands[1]) * static_cast<double>(operands[0].back());
  work.bytes -= std::max(0.0, slots - copies) * static_cast<double>(bytesPerElement(op->getOperand(0).getType()));
}
void CombineOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  readsFilledSlots(*this, operands, work);
}

LogicalResult CombineOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (wanted[0])
    operandGradients[0] = DispatchOp::create(builder, getLoc(), getOperand().getType(), resultGradients[0],
                                             getIndices(), getWeights(), getOffset(), getExpertsAttr());
  if (wanted[2])
    operandGradients[2] = CombineBackwardOp::create(builder, getLoc(), getWeights().getType(), getOperand(),
                                                    getIndices(), resultGradients[0], getOffset(), getExpertsAttr());
  return success();
}

// ([e, b, c, d], [b, s, k], [b, s, d]) -> ([b, s, k])  e, d: reduction(sum)      s, k and c may not be sharded
Rule CombineBackwardOp::getShardingRule() {
  RoutingRule writer(routingOf(*this));
  writer.rule.operands = {writer.slots, writer.choices, writer.tokens};
  if (getOffset())
    writer.rule.operands.push_back({});
  writer.rule.results = {writer.choices};
  writer.linear({0}, {0});
  writer.linear({2}, {0});
  return writer.rule;
}

FailureOr<SmallVector<Value>> CombineBackwardOp::localize(OpBuilder &builder, ValueRange operands,
                                                          TypeRange resultTypes, const LocalizeContext &context) {
  return localized(*this, builder, operands, resultTypes, context.sharding.operands[0], context);
}

double CombineBackwardOp::getFlops() { return 2 * movedElements(routingOf(*this)); }
KernelClass CombineBackwardOp::getKernelClass() { return KernelClass::Gather; }
Value CombineBackwardOp::getSlots() { return getOperand(); }
Value CombineBackwardOp::getTokenStream() { return getTokens(); }
void CombineBackwardOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  readsFilledSlots(*this, operands, work);
}
