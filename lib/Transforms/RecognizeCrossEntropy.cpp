// SPDX-License-Identifier: Apache-2.0
// Recognition of a cross entropy that is written out. There are three forms, where z = log_softmax(x) over the classes:
//    -z.gather(y), -z[arange(n), y]                 a gather in z
//    -(one_hot(y) * z).sum(), where(y == c, z, 0)   a sum over a mask that is 1 at the label
//    logsumexp(x) - x.gather(y)                     a gather in the logits, and their log-sum-exp
// Each is the result of kerf.cross_entropy or its negative. The op saves one number for each row for the backward pass,
// instead of z and its mask. Masks and means around the loss stay as they are; they are computed on rows.
#include "Recognize.h"
#include "kerf/Dialect/Kerf/TakeAlong.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

/// The label of rows that do not count, for cross_entropy ops created here. Any number that is no class would do.
static constexpr int64_t kNoLabel = -100;

static int64_t rankOf(Value value) { return tensorType(value).getRank(); }

/// Returns the x where `rows` is log(sum(exp(x))) over `dim`, or log(sum(exp(x - m))) + m for an m that is constant
/// along `dim`. `rows` lacks `dim`; `full` is the shape of x.
static Value logSumExpOperand(Value rows, ArrayRef<int64_t> full, int64_t dim) {
  rows = rows ? rowsAlong(rows, full, dim) : Value();
  if (!rows)
    return {};
  auto exponentialUnder = [&](Value value) -> Value { // the operand of exp
    value = value ? rowsAlong(value, full, dim) : Value();
    auto log = value ? value.getDefiningOp<LogOp>() : LogOp();
    Value sum = log ? rowsAlong(log.getOperand(), full, dim) : Value();
    Value terms = reducedOperand(sum, ReduceKindIR::sum, dim);
    auto exponential = terms ? terms.getDefiningOp<ExponentialOp>() : ExponentialOp();
    return exponential ? exponential.getOperand() : Value();
  };
  if (Value x = exponentialUnder(rows))
    return x;
  auto add = rows.getDefiningOp<AddOp>();
  if (!add)
    return {};
  for (auto [log, shift] : {std::pair{add.getLhs(), add.getRhs()}, {add.getRhs(), add.getLhs()}}) {
    Value shifted = exponentialUnder(log);
    auto subtract = shifted ? shifted.getDefiningOp<SubtractOp>() : SubtractOp();
    if (!subtract)
      continue;
    Value m = rowsAlong(subtract.getRhs(), full, dim);
    if (m && m == rowsAlong(shift, full, dim))
      return subtract.getLhs();
  }
  return {};
}

/// Returns the x where `value` is log_softmax(x) over `dim`: z - log(sum(exp(z))) for z = x - m, x -
/// logsumexp(x), or log(softmax(x)).
static Value logSoftmaxOperand(Value value, int64_t dim) {
  if (auto log = value.getDefiningOp<LogOp>())
    if (auto softmax = log.getOperand().getDefiningOp<SoftmaxOp>())
      return static_cast<int64_t>(softmax.getDimension()) == dim ? softmax.getOperand() : Value();
  auto subtract = value.getDefiningOp<SubtractOp>();
  auto full = tensorType(value).getShape();
  if (!subtract || logSumExpOperand(subtract.getRhs(), full, dim) != subtract.getLhs())
    return {};
  // Subtracting the same number from all classes changes nothing.
  Value x = subtract.getLhs();
  auto shifted = x.getDefiningOp<SubtractOp>();
  return shifted && rowsAlong(shifted.getRhs(), full, dim) ? shifted.getLhs() : x;
}

namespace {
/// The value log_softmax(logits) over one dimension, multiplied by `factor`, and the ops that move its elements to
/// their reader, the last first. The same ops are applied to the logits.
struct MovedLogSoftmax {
  Value logits;
  double factor = 1;
  SmallVector<Operation *> moves;

  Value movedLogits(OpBuilder &builder) const {
    Value value = logits;
    for (Operation *move : llvm::reverse(moves))
      value = cloneWithTypes(builder, move, value, move->getResultTypes())[0];
    return value;
  }
};
} // namespace

/// Returns the dimension of the reshape's operand that becomes exactly dimension `dim` of its result, or -1 where there
/// is none.
static int64_t dimBeforeReshape(ReshapeOp reshape, int64_t dim) {
  auto from = tensorType(reshape.getOperand()).getShape(), to = tensorType(reshape.getResult()).getShape();
  auto elements = [](ArrayRef<int64_t> sizes) {
    int64_t product = 1;
    for (int64_t size : sizes)
      product *= size;
    return product;
  };
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d)
    if (from[d] == to[dim] && elements(from.drop_front(d + 1)) == elements(to.drop_front(dim + 1)))
      return d;
  return -1;
}

/// Returns `value` as log_softmax over its dimension `dim`, looking through transposes, reshapes and slices of other
/// dimensions, and through factors; nothing where it is not.
static std::optional<MovedLogSoftmax> asLogSoftmax(Value value, int64_t dim) {
  MovedLogSoftmax found;
  while (true) {
    if ((found.logits = logSoftmaxOperand(value, dim)))
      return found;
    Operation *op = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
      dim = transpose.getPermutation()[dim];
    } else if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
      dim = dimBeforeReshape(reshape, dim);
      if (dim < 0)
        return std::nullopt;
    } else if (auto slice = dyn_cast_or_null<SliceOp>(op)) {
      if (tensorType(slice.getOperand()).getDimSize(dim) != tensorType(value).getDimSize(dim))
        return std::nullopt;
    } else if (auto negate = dyn_cast_or_null<NegateOp>(op)) {
      found.factor = -found.factor;
      value = negate.getOperand();
      continue;
    } else if (auto scaled = asScaled(value)) {
      found.factor *= scaled->factor;
      value = scaled->value;
      continue;
    } else {
      return std::nullopt;
    }
    found.moves.push_back(op);
    value = op->getOperand(0);
  }
}

/// Returns -log_softmax(logits)[.., label] for each row, multiplied by `factor`, and 0 for the label kNoLabel.
static Value crossEntropyOf(Emitter &emit, Value logits, Value labels, double factor) {
  auto rows = RankedTensorType::get(tensorType(logits).getShape().drop_back(), tensorType(logits).getElementType());
  Value nll = CrossEntropyOp::create(emit.builder, emit.loc, rows, rows, logits, labels,
                                     emit.builder.getI64IntegerAttr(kNoLabel), /*classes=*/nullptr)
                  .getResult();
  if (factor == 1)
    return nll;
  if (factor == -1)
    return NegateOp::create(emit.builder, emit.loc, rows, nll);
  return emit.multiply(nll, emit.splat(factor, nll));
}

/// Returns whether the gather reads one element of each row of the operand, along the last dimension.
static bool isOneOfEachRow(TakeAlongOp gather) {
  Value operand = gather.getOperand();
  int64_t last = rankOf(operand) - 1;
  return last >= 0 && !gather.getOffset() && isa<FloatType>(tensorType(operand).getElementType()) &&
         static_cast<int64_t>(gather.getBatchDims()) == last &&
         tensorType(gather.getIndices()).getNumElements() * tensorType(operand).getShape().back() ==
             tensorType(operand).getNumElements();
}

/// Returns the indices of such a gather as labels of `logits`. A negative index counts from the end.
static Value labelsOf(Emitter &emit, TakeAlongOp gather, Value logits) {
  auto shape = tensorType(logits).getShape();
  Value labels = emit.reshape(gather.getIndices(), shape.drop_back());
  Value isNegative = emit.compare(labels, emit.splat(int64_t(0), labels), Comparison::LT);
  return emit.select(isNegative, emit.add(labels, emit.splat(shape.back(), labels)), labels);
}

static bool recognizeGather(TakeAlongOp gather) {
  if (!isOneOfEachRow(gather))
    return false;
  auto found = asLogSoftmax(gather.getOperand(), rankOf(gather.getOperand()) - 1);
  if (!found)
    return false;
  OpBuilder builder(gather);
  Emitter emit{builder, gather.getLoc()};
  Value logits = found->movedLogits(builder);
  Value nll = crossEntropyOf(emit, logits, labelsOf(emit, gather, logits), -found->factor);
  gather.getResult().replaceAllUsesWith(emit.reshape(nll, tensorType(gather.getResult()).getShape()));
  return true;
}

/// Recognizes logsumexp(x) - x.gather(y), and its negative.
static bool recognizeDifference(SubtractOp subtract) {
  for (bool gatherIsRight : {true, false}) {
    Value picked = gatherIsRight ? subtract.getRhs() : subtract.getLhs(),
          sum = gatherIsRight ? subtract.getLhs() : subtract.getRhs();
    while (auto reshape = picked.getDefiningOp<ReshapeOp>())
      picked = reshape.getOperand();
    auto gather = picked.getDefiningOp<TakeAlongOp>();
    if (!gather || !isOneOfEachRow(gather))
      continue;
    Value logits = gather.getOperand();
    auto full = tensorType(logits).getShape();
    while (auto reshape = sum.getDefiningOp<ReshapeOp>())
      sum = reshape.getOperand();
    if (tensorType(sum).getNumElements() * full.back() != tensorType(logits).getNumElements() ||
        logSumExpOperand(sum, full, rankOf(logits) - 1) != logits)
      continue;
    OpBuilder builder(subtract);
    Emitter emit{builder, subtract.getLoc()};
    Value nll = crossEntropyOf(emit, logits, labelsOf(emit, gather, logits), gatherIsRight ? 1 : -1);
    subtract.getResult().replaceAllUsesWith(emit.reshape(nll, tensorType(subtract.getResult()).getShape()));
    return true;
  }
  return false;
}

/// Returns whether the integers of `value` are 0, 1, 2, ... along `dim`, the same for all other indices.
static bool countsAlong(Value value, int64_t dim) {
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    auto dims = broadcast.getBroadcastDimensions();
    for (auto [inner, outer] : llvm::enumerate(dims))
      if (outer == dim)
        return tensorType(broadcast.getOperand()).getDimSize(inner) == tensorType(value).getDimSize(dim) &&
               countsAlong(broadcast.getOperand(), static_cast<int64_t>(inner));
    return false;
  }
  if (auto convert = value.getDefiningOp<ConvertOp>())
    return countsAlong(convert.getOperand(), dim);
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    int64_t inner = dimBeforeReshape(reshape, dim);
    return inner >= 0 && countsAlong(reshape.getOperand(), inner);
  }
  auto iota = value.getDefiningOp<IotaOp>();
  return iota && !iota.getOffset() && static_cast<int64_t>(iota.getDimension()) == dim;
}

/// Returns the labels y (one for each row) where `mask` is y == class, with classes counted along
/// `dim`; null otherwise.
static Value labelsOfMask(Value mask, int64_t dim) {
  auto compare = mask ? mask.getDefiningOp<CompareOp>() : CompareOp();
  if (!compare || compare.getDirection() != Comparison::EQ)
    return {};
  for (auto [classes, labels] : {std::pair{compare.getLhs(), compare.getRhs()}, {compare.getRhs(), compare.getLhs()}}) {
    if (!isa<IntegerType>(tensorType(labels).getElementType()) || !countsAlong(classes, dim))
      continue;
    Value rows = rowsAlong(labels, tensorType(mask).getShape(), dim);
    Type element = rows ? tensorType(rows).getElementType() : Type();
    if (rows && (element.isInteger(64) || element.isInteger(32)))
      return rows;
  }
  return {};
}

/// Returns the labels where `value` is 1 at each row's label and 0 elsewhere; null otherwise.
static Value labelsOfOneHot(Value value, int64_t dim) {
  while (auto convert = value.getDefiningOp<ConvertOp>()) {
    if (tensorType(convert.getOperand()).getElementType().isInteger(1))
      return labelsOfMask(convert.getOperand(), dim);
    value = convert.getOperand();
  }
  auto select = value.getDefiningOp<SelectOp>();
  if (!select)
    return {};
  auto one = scalarOf(select.getOnTrue()), zero = scalarOf(select.getOnFalse());
  return one == 1.0 && zero == 0.0 ? labelsOfMask(select.getPredicate(), dim) : Value();
}

namespace {
/// The operands of a sum over a one-hot mask.
struct MaskedLogSoftmax {
  MovedLogSoftmax values;
  Value labels;
  int64_t dim;
};
} // namespace

static std::optional<MaskedLogSoftmax> asMaskedLogSoftmax(Value value, int64_t dim) {
  auto masked = [&](Value labels, Value terms) -> std::optional<MaskedLogSoftmax> {
    auto found = labels ? asLogSoftmax(terms, dim) : std::nullopt;
    return found ? std::optional(MaskedLogSoftmax{*found, labels, dim}) : std::nullopt;
  };
  if (auto select = value.getDefiningOp<SelectOp>()) {
    if (scalarOf(select.getOnFalse()) == 0.0)
      return masked(labelsOfMask(select.getPredicate(), dim), select.getOnTrue());
    return std::nullopt;
  }
  if (auto multiply = value.getDefiningOp<MultiplyOp>())
    for (auto [mask, terms] : {std::pair{multiply.getLhs(), multiply.getRhs()}, {multiply.getRhs(), multiply.getLhs()}})
      if (auto found = masked(labelsOfOneHot(mask, dim), terms))
        return found;
  return std::nullopt;
}

/// Recognizes sum(one_hot(y) * log_softmax(x)) over the classes, possibly summed over other dimensions too.
static bool recognizeMaskedSum(ReduceOp reduce) {
  if (reduce.getKind() != ReduceKindIR::sum || !isa<FloatType>(tensorType(reduce.getResult()).getElementType()) ||
      reduce.getType().getElementType() != tensorType(reduce.getOperand()).getElementType())
    return false;
  double factor = 1;
  Value terms = reduce.getOperand();
  while (auto negate = terms.getDefiningOp<NegateOp>()) {
    factor = -factor;
    terms = negate.getOperand();
  }
  std::optional<MaskedLogSoftmax> found;
  for (int64_t dim : reduce.getDimensions())
    if (!found)
      found = asMaskedLogSoftmax(terms, dim);
  if (!found)
    return false;
  OpBuilder builder(reduce);
  Emitter emit{builder, reduce.getLoc()};
  Value logits = found->values.movedLogits(builder);
  int64_t rank = rankOf(logits), dim = found->dim;
  SmallVector<int64_t> classesLast;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim)
      classesLast.push_back(d);
  classesLast.push_back(dim);
  logits = emit.transpose(logits, classesLast);
  // A label that is no class has no 1 in its row, so its row does not count.
  auto shape = tensorType(logits).getShape();
  Value labels = emit.reshape(found->labels, shape.drop_back());
  Value none = emit.splat(kNoLabel, labels);
  Value isBelow = emit.compare(labels, emit.splat(shape.back(), labels), Comparison::LT);
  labels = emit.select(isBelow, labels, none);
  labels = emit.select(emit.compare(labels, emit.splat(int64_t(0), labels), Comparison::GE), labels, none);
  Value nll = crossEntropyOf(emit, logits, labels, -factor * found->values.factor);
  SmallVector<int64_t> others; // the remaining dimensions that are summed
  for (int64_t d : reduce.getDimensions())
    if (d != dim)
      others.push_back(d > dim ? d - 1 : d);
  reduce.getResult().replaceAllUsesWith(emit.sum(nll, others));
  return true;
}

bool kerf::recognizeCrossEntropy(Operation *op) {
  if (auto gather = dyn_cast<TakeAlongOp>(op))
    return recognizeGather(gather);
  if (auto subtract = dyn_cast<SubtractOp>(op))
    return recognizeDifference(subtract);
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && recognizeMaskedSum(reduce);
}
