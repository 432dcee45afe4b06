// SPDX-License-Identifier: Apache-2.0
// kerf-recognize-composites: the recognition of gelu and norms. Softmax, cross entropy, attention and rows have files
// of their own.
#include "Recognize.h"
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"
#include <map>
#include <numbers>

namespace kerf {
#define GEN_PASS_DEF_RECOGNIZECOMPOSITES
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

//===-- gelu ------------------------------------------------------------------------------------------------------===//

namespace {
/// A polynomial in x and t as its coefficients: {(i, j): c} stands for c x^i t^j.
using Polynomial = std::map<std::pair<int, int>, double>;
} // namespace

constexpr int kDepthLimit = 12; // largest number of ops between a gelu's result and its operand
constexpr double kHighestPower = 3;

static Polynomial product(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (const auto &[i, x] : a)
    for (const auto &[j, y] : b)
      result[{i.first + j.first, i.second + j.second}] += x * y;
  return result;
}

static bool isPolynomial(Operation *op) { return isa<AddOp, SubtractOp, MultiplyOp, DivideOp, PowerOp, NegateOp>(op); }

/// Returns `value` as a polynomial in x and t (t may be null), or nothing where it is not one.
static std::optional<Polynomial> polynomialOf(Value value, Value x, Value t, int depth = kDepthLimit) {
  if (value == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (t && value == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (auto number = scalarOf(value))
    return Polynomial{{{0, 0}, *number}};
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !isPolynomial(op))
    return std::nullopt;
  auto left = polynomialOf(op->getOperand(0), x, t, depth - 1);
  if (!left)
    return std::nullopt;
  if (isa<NegateOp>(op))
    return product(*left, {{{0, 0}, -1.0}});
  if (isa<DivideOp, PowerOp>(op)) {
    auto right = scalarOf(op->getOperand(1));
    if (!right)
      return std::nullopt;
    if (isa<DivideOp>(op))
      return product(*left, {{{0, 0}, 1.0 / *right}});
    if (*right < 1 || *right > kHighestPower || *right != static_cast<int>(*right))
      return std::nullopt;
    Polynomial power = *left;
    for (int i = 1; i < static_cast<int>(*right); ++i)
      power = product(power, *left);
    return power;
  }
  auto right = polynomialOf(op->getOperand(1), x, t, depth - 1);
  if (!right)
    return std::nullopt;
  if (isa<MultiplyOp>(op))
    return product(*left, *right);
  for (const auto &[powers, coefficient] : *right)
    (*left)[powers] += isa<SubtractOp>(op) ? -coefficient : coefficient;
  return left;
}

static bool isClosePolynomial(const std::optional<Polynomial> &found, const Polynomial &wanted) {
  return found && found->size() == wanted.size() && llvm::all_of(*found, [&](const auto &term) {
           auto it = wanted.find(term.first);
           return it != wanted.end() && isClose(term.second, it->second);
         });
}

/// Returns the x for which `inner`, the operand of tanh or erf, equals the polynomial `wanted` of gelu. x is searched
/// among the values that `inner` is computed from.
static Value geluOperand(Value inner, const Polynomial &wanted) {
  llvm::SetVector<Value> candidates;
  candidates.insert(inner);
  for (size_t i = 0; i < candidates.size() && i < 64; ++i) {
    Value candidate = candidates[i];
    if (isClosePolynomial(polynomialOf(inner, candidate, Value()), wanted))
      return candidate;
    if (Operation *op = candidate.getDefiningOp(); op && isPolynomial(op))
      candidates.insert(op->operand_begin(), op->operand_end());
  }
  return Value();
}

bool kerf::recognizeGelu(Operation *op) {
  if (!isa<TanhOp, ErfOp>(op))
    return false;
  bool approximate = isa<TanhOp>(op);
  double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi; // sqrt(2 / pi)
  Polynomial inner = {{{1, 0}, 1.0 / std::numbers::sqrt2}};
  if (approximate)
    inner = {{{1, 0}, scale}, {{3, 0}, scale * 0.044715}};
  // Both functions are odd: erfc(-x / sqrt(2)) is 1 - erf(-x / sqrt(2)).
  for (double sign : {1.0, -1.0}) {
    Value x = geluOperand(op->getOperand(0), product(inner, {{{0, 0}, sign}}));
    if (!x)
      continue;
    const Polynomial wanted = {{{1, 0}, 0.5}, {{1, 1}, 0.5 * sign}}; // x (1 + t) / 2
    llvm::SetVector<Operation *> users;
    users.insert(op);
    for (size_t i = 0; i < users.size() && i < 64; ++i) {
      Operation *user = users[i];
      if (user != op && isClosePolynomial(polynomialOf(user->getResult(0), x, op->getResult(0)), wanted)) {
        OpBuilder builder(user);
        UnitAttr flag = approximate ? builder.getUnitAttr() : UnitAttr();
        user->getResult(0).replaceAllUsesWith(GeluOp::create(builder, user->getLoc(), x.getType(), x, flag));
        return true;
      }
      for (Operation *next : user->getResult(0).getUsers())
        if (isa<AddOp, SubtractOp, MultiplyOp, DivideOp>(next))
          users.insert(next);
    }
  }
  return false;
}

//===-- norms -----------------------------------------------------------------------------------------------------===//

static int64_t lastDim(Value value) { return tensorType(value).getRank() - 1; }

/// Returns the value behind reshapes that only add or drop a last dimension of size 1.
static Value skipUnit(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    auto from = tensorType(reshape.getOperand()).getShape();
    auto to = tensorType(reshape.getResult()).getShape();
    bool same = from.size() == to.size() + 1 ? from.back() == 1 && from.drop_back() == to
                                             : to.size() == from.size() + 1 && to.back() == 1 && to.drop_back() == from;
    if (!same)
      break;
    value = reshape.getOperand();
  }
  return value;
}

/// Returns the tensor of rows that `value` copies along the last dimension.
static Value rowsOf(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return Value();
  auto shape = tensorType(value).getShape();
  auto operand = tensorType(broadcast.getOperand()).getShape();
  auto dims = broadcast.getBroadcastDimensions();
  if (operand.empty() || !llvm::equal(dims, firstDims(static_cast<int64_t>(dims.size()))) ||
      operand.size() + 1 < shape.size())
    return Value();
  bool unit = operand.size() == shape.size();
  if (unit && operand.back() != 1)
    return Value();
  if ((unit ? operand.drop_back() : operand) != shape.drop_back())
    return Value();
  return skipUnit(broadcast.getOperand());
}

/// Returns the vector that `value` copies along all dimensions but the last.
static Value vectorOf(Value value) {
  int64_t size = tensorType(value).getRank() ? tensorType(value).getShape().back() : 0;
  if (auto broadcast = value.getDefiningOp<BroadcastInDimOp>()) {
    auto dims = broadcast.getBroadcastDimensions();
    Value vector = broadcast.getOperand();
    if (dims.size() == 1 && dims[0] == lastDim(value) && tensorType(vector).getDimSize(0) == size)
      return vector;
  }
  return Value();
}

/// Returns the x where `value` is sum(x) / n over the last dimension, for each row; null otherwise.
static Value meanOperand(Value value) {
  auto scaled = asScaled(skipUnit(value));
  if (!scaled)
    return Value();
  auto reduce = skipUnit(scaled->value).getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKindIR::sum)
    return Value();
  Value operand = reduce.getOperand();
  auto dims = reduce.getDimensions();
  if (dims.size() != 1 || dims[0] != lastDim(operand) ||
      !isClose(scaled->factor, 1.0 / static_cast<double>(tensorType(operand).getShape().back())))
    return Value();
  return operand;
}

/// Returns the x where `value` is x * x or x ^ 2; null otherwise.
static Value squareOperand(Value value) {
  if (auto multiply = value.getDefiningOp<MultiplyOp>(); multiply && multiply.getLhs() == multiply.getRhs())
    return multiply.getLhs();
  if (auto power = value.getDefiningOp<PowerOp>())
    if (auto exponent = scalarOf(power.getRhs()); exponent && *exponent == 2)
      return power.getLhs();
  return Value();
}

namespace {
/// x / sqrt(mean(x^2) + epsilon)
struct Normalized {
  Value x;
  double epsilon;
};
} // namespace

/// Returns the variance v where `value` is 1 / sqrt(v), for each row; null otherwise.
static Value rsqrtOperand(Value value) {
  value = skipUnit(value);
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>())
    return rsqrt.getOperand();
  if (auto divide = value.getDefiningOp<DivideOp>())
    if (auto one = scalarOf(divide.getLhs()); one && *one == 1)
      if (auto root = skipUnit(divide.getRhs()).getDefiningOp<SqrtOp>())
        return root.getOperand();
  if (auto power = value.getDefiningOp<PowerOp>())
    if (auto exponent = scalarOf(power.getRhs()); exponent && *exponent == -0.5)
      return power.getLhs();
  return Value();
}

static std::optional<Normalized> asNormalized(Value value) {
  Value x, variance;
  if (auto multiply = value.getDefiningOp<MultiplyOp>()) {
    for (auto [operand, rows] :
         {std::pair{multiply.getLhs(), multiply.getRhs()}, {multiply.getRhs(), multiply.getLhs()}})
      if (Value r = rowsOf(rows); r && rsqrtOperand(r)) {
        x = operand;
        variance = rsqrtOperand(r);
      }
  } else if (auto divide = value.getDefiningOp<DivideOp>()) {
    if (Value rows = rowsOf(divide.getRhs()))
      if (auto root = rows.getDefiningOp<SqrtOp>()) {
        x = divide.getLhs();
        variance = root.getOperand();
      }
  }
  if (!x)
    return std::nullopt;
  auto add = skipUnit(variance).getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  auto epsilon = scalarOf(add.getRhs());
  Value mean = add.getLhs();
  if (!epsilon) {
    epsilon = scalarOf(add.getLhs());
    mean = add.getRhs();
  }
  Value square = epsilon ? meanOperand(mean) : Value();
  if (!square || squareOperand(square) != x)
    return std::nullopt;
  return Normalized{x, *epsilon};
}

namespace {
/// normalized * scale, in either order.
struct ScaledNorm {
  Normalized norm;
  Value scale;
};
} // namespace

static std::optional<ScaledNorm> asScaledNorm(Value value) {
  auto multiply = value.getDefiningOp<MultiplyOp>();
  if (!multiply)
    return std::nullopt;
  for (auto [normal, scale] : {std::pair{multiply.getLhs(), multiply.getRhs()}, {multiply.getRhs(), multiply.getLhs()}})
    if (Value vector = vectorOf(scale))
      if (auto norm = asNormalized(normal))
        return ScaledNorm{*norm, vector};
  return std::nullopt;
}

/// Returns the x where `value` is x - mean(x) over the last dimension; null otherwise.
static Value centeredOperand(Value value) {
  auto subtract = value.getDefiningOp<SubtractOp>();
  Value rows = subtract ? rowsOf(subtract.getRhs()) : Value();
  return rows && meanOperand(rows) == subtract.getLhs() ? subtract.getLhs() : Value();
}

static RankedTensorType rowType(Value x) {
  return RankedTensorType::get(tensorType(x).getShape().drop_back(), tensorType(x).getElementType());
}

bool kerf::recognizeNorm(Operation *op) {
  OpBuilder builder(op);
  if (auto add = dyn_cast<AddOp>(op)) {
    for (auto [scaled, bias] : {std::pair{add.getLhs(), add.getRhs()}, {add.getRhs(), add.getLhs()}}) {
      Value vector = vectorOf(bias);
      auto norm = vector ? asScaledNorm(scaled) : std::nullopt;
      Value x = norm ? centeredOperand(norm->norm.x) : Value();
      if (!x)
        continue;
      auto made = LayerNormOp::create(builder, op->getLoc(), x.getType(), rowType(x), rowType(x), x, norm->scale,
                                      vector, builder.getF64FloatAttr(norm->norm.epsilon));
      op->getResult(0).replaceAllUsesWith(made.getResult());
      return true;
    }
    return false;
  }
  if (!isa<MultiplyOp>(op))
    return false;
  auto norm = asScaledNorm(op->getResult(0));
  // A deviation from the mean belongs to a layer_norm, which is recognized at the addition of its bias.
  if (!norm || centeredOperand(norm->norm.x))
    return false;
  Value x = norm->norm.x;
  auto made = RmsNormOp::create(builder, op->getLoc(), x.getType(), rowType(x), x, norm->scale,
                                builder.getF64FloatAttr(norm->norm.epsilon));
  op->getResult(0).replaceAllUsesWith(made.getResult());
  return true;
}

//===-- the pass --------------------------------------------------------------------------------------------------===//

namespace {
struct RecognizeComposites : kerf::impl::RecognizeCompositesBase<RecognizeComposites> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      for (Operation &op : llvm::make_early_inc_range(function.getOps()))
        recognizeRows(&op);
      eraseDead(function);
      SmallVector<Operation *> ops;
      for (Operation &op : function.getOps())
        ops.push_back(&op);
      for (Operation *op : ops)
        if (!recognizeGelu(op) && !recognizeNorm(op) && !recognizeSoftmax(op) && !recognizeCrossEntropy(op))
          recognizeAttention(op);
      eraseDead(function);
    }
  }
};
} // namespace
