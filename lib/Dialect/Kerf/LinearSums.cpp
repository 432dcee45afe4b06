// SPDX-License-Identifier: Apache-2.0
#include "LinearSums.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace kerf::ir {

namespace {
constexpr size_t kMostTerms = 8;

/// The sum of `tensor`, multiplied by `factors`, the shape of the sum, is added to a result or subtracted from it.
struct Term {
  bool isNegative = false;
  SmallVector<Value> factors;
  Value tensor;
};

class TermsOfSum {
public:
  TermsOfSum(Emitter emit, Value x, ArrayRef<int64_t> dims) : emit(emit), dims(dims) {
    for (int64_t dim = 0; dim < tensorType(x).getRank(); ++dim)
      if (!llvm::is_contained(dims, dim)) {
        kept.push_back(dim);
        shape.push_back(tensorType(x).getDimSize(dim));
      }
  }

  /// Returns the sum of x from known sums, or null if not all of them are known.
  Value run(Value x) {
    if (!collect(x, Term()))
      return {};
    SmallVector<std::pair<Term, Value>> known;
    for (Term &term : terms) {
      Value sum = knownSum(term.tensor);
      if (!sum)
        return {};
      known.push_back({term, sum});
    }
    Value result;
    for (auto &[term, sum] : known) {
      Value value = sum;
      for (Value factor : term.factors)
        value = emit.multiply(value, inShapeOfSum(factor));
      if (!result && term.isNegative)
        result = NegateOp::create(emit.builder, emit.loc, value.getType(), value);
      else
        result = !result ? value : term.isNegative ? emit.subtract(result, value) : emit.add(result, value);
    }
    if (result)
      return result;
    auto zero = DenseElementsAttr::get(resultType(x), emit.builder.getZeroAttr(resultType(x).getElementType()));
    return ConstantOp::create(emit.builder, emit.loc, resultType(x), zero);
  }

private:
  RankedTensorType resultType(Value x) const { return RankedTensorType::get(shape, tensorType(x).getElementType()); }

  /// Splits `x` into terms, without those whose sum is zero. Returns false if there are too many.
  bool collect(Value x, Term term) {
    if (isCentered(x))
      return true;
    Operation *op = knownSum(x) ? nullptr : x.getDefiningOp();
    if (isa_and_nonnull<AddOp, SubtractOp>(op)) {
      Term second = term;
      second.isNegative ^= isa<SubtractOp>(op);
      return collect(op->getOperand(0), term) && collect(op->getOperand(1), second);
    }
    if (isa_and_nonnull<NegateOp>(op)) {
      term.isNegative = !term.isNegative;
      return collect(op->getOperand(0), term);
    }
    if (isa_and_nonnull<MultiplyOp>(op))
      for (unsigned place : {0u, 1u})
        if (Value factor = factorOf(op->getOperand(place))) {
          term.factors.push_back(factor);
          return collect(op->getOperand(1 - place), term);
        }
    term.tensor = x;
    terms.push_back(term);
    return terms.size() <= kMostTerms;
  }

  /// Returns what `x` is a broadcast of, if it is constant along `dims`: a scalar, or a tensor of the sum's shape.
  Value factorOf(Value x) const {
    auto broadcast = x.getDefiningOp<BroadcastInDimOp>();
    if (!broadcast)
      return {};
    Value operand = broadcast.getOperand();
    bool isScalar = tensorType(operand).getRank() == 0;
    bool isSum =
        broadcast.getBroadcastDimensions() == ArrayRef(kept) && tensorType(operand).getShape() == ArrayRef(shape);
    return isScalar || isSum ? operand : Value();
  }
  Value inShapeOfSum(Value factor) {
    return tensorType(factor).getShape() == ArrayRef(shape) ? factor : emit.broadcast(factor, shape, {});
  }

  /// Returns whether the op sums `tensor`, or the narrower tensor that it is a conversion of, over `dims`.
  bool isSumOf(Operation *op, Value tensor) const {
    auto reduce = dyn_cast_or_null<ReduceOp>(op);
    if (!reduce || reduce.getKind() != ReduceKindIR::sum || reduce.getDimensions() != dims ||
        tensorType(reduce.getResult()).getElementType() != tensorType(tensor).getElementType())
      return false;
    auto convert = tensor.getDefiningOp<ConvertOp>();
    return reduce.getOperand() == tensor || (convert && reduce.getOperand() == convert.getOperand());
  }

  /// Returns the sum of `tensor` where the block has it, or null.
  Value knownSum(Value tensor) const {
    SmallVector<Operation *> users(tensor.getUsers());
    if (auto convert = tensor.getDefiningOp<ConvertOp>())
      llvm::append_range(users, convert.getOperand().getUsers());
    for (Operation *user : users)
      if (user->getBlock() == emit.builder.getInsertionBlock() && isSumOf(user, tensor))
        return user->getResult(0);
    return {};
  }

  /// Returns whether `tensor` is the difference of a tensor and its mean, so that its sum is zero.
  bool isCentered(Value tensor) const {
    auto difference = tensor.getDefiningOp<SubtractOp>();
    Value mean = difference ? factorOf(difference.getRhs()) : Value();
    auto quotient = mean ? mean.getDefiningOp<DivideOp>() : DivideOp();
    if (!quotient || !isSumOf(quotient.getLhs().getDefiningOp(), difference.getLhs()))
      return false;
    Value count = quotient.getRhs();
    if (auto broadcast = count.getDefiningOp<BroadcastInDimOp>())
      count = broadcast.getOperand();
    DenseElementsAttr number;
    if (!matchPattern(count, m_Constant(&number)) || !number.isSplat())
      return false;
    double elements = 1;
    for (int64_t dim : dims)
      elements *= double(tensorType(tensor).getDimSize(dim));
    APFloat found = number.getSplatValue<APFloat>();
    bool losesInfo;
    found.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return found.convertToDouble() == elements;
  }

  Emitter emit;
  ArrayRef<int64_t> dims;
  SmallVector<int64_t> kept, shape; // the dimensions that are not summed, and their sizes
  SmallVector<Term> terms;
};
} // namespace

Value sumOfTerms(Emitter emit, Value x, ArrayRef<int64_t> dims) {
  Type element = tensorType(x).getElementType();
  if (!dims.empty() && (element.isF32() || element.isF64())) // sums in 16 bits would lose digits
    if (Value sum = TermsOfSum(emit, x, dims).run(x))
      return sum;
  return emit.sum(x, dims);
}

} // namespace kerf::ir
