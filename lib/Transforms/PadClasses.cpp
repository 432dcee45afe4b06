// SPDX-License-Identifier: Apache-2.0
// kerf-pad-classes: gives the products of a classifier a number of columns that tensor cores can read.
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_PADCLASSES
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// cuBLASLt's kernels for tensor cores read 16 bytes at a time, so rows must be whole multiples of 8 numbers of 16
/// bits.
constexpr int64_t kMultiple = 8;

/// A dimension of a product's operand, as the product uses it.
struct FactorDim {
  bool isContracted;
  unsigned other; // where contracted: the dimension of the other operand with which it is summed
  unsigned ofResult;
};

/// Returns how `product` uses dimension `dim` of its left or right operand; nothing for a batching dimension.
std::optional<FactorDim> factorDim(DotGeneralOp product, bool isLeft, int64_t dim) {
  auto own = [&](bool left) { return left ? product.getLhsContracting() : product.getRhsContracting(); };
  ArrayRef<int64_t> contracting = own(isLeft), batching = isLeft ? product.getLhsBatching() : product.getRhsBatching();
  if (const auto *it = llvm::find(contracting, dim); it != contracting.end())
    return FactorDim{true, static_cast<unsigned>(own(!isLeft)[it - contracting.begin()]), 0};
  if (llvm::is_contained(batching, dim))
    return std::nullopt;
  auto isFree = [&](int64_t d) { return !llvm::is_contained(contracting, d) && !llvm::is_contained(batching, d); };
  auto place = static_cast<unsigned>(batching.size());
  if (!isLeft)
    place += static_cast<unsigned>(tensorType(product.getLhs()).getRank()) - batching.size() - contracting.size();
  return FactorDim{false, 0, place + static_cast<unsigned>(llvm::count_if(llvm::seq<int64_t>(0, dim), isFree))};
}

int64_t lastDim(Value value) { return tensorType(value).getRank() - 1; }

/// Returns the vector that `value` repeats along all dimensions but the last, or null where it is no such value.
Value repeatedRow(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  bool isRow = broadcast && tensorType(broadcast.getOperand()).getRank() == 1 &&
               broadcast.getBroadcastDimensions().front() == lastDim(value);
  return isRow ? broadcast.getOperand() : Value();
}

/// Makes the last dimension of one classifier's scores longer, and changes all ops that read the scores.
class Widening {
public:
  Widening(DotGeneralOp product, int64_t classes, int64_t columns)
      : product(product), classes(classes), columns(columns) {}

  /// Returns whether the pass knows all ops that read the scores, and a cross entropy is among them.
  bool isKnown() { return isKnown(product.getResult(), false) && reachesLoss; }

  void apply() {
    auto rhs = static_cast<int64_t>(product.getRhs().getType().getRank());
    for (int64_t dim = rhs - 1; dim >= 0; --dim)
      if (std::optional<FactorDim> found = factorDim(product, false, dim);
          found && !found->isContracted && found->ofResult == lastDim(product.getResult())) {
        OpBuilder builder(product);
        IRMapping mapping;
        mapping.map(product.getRhs(), padded(product.getRhs(), dim));
        widenUses(product.getResult(), cloneWide(builder, product, mapping, lastDim(product.getResult())));
        product.erase();
        return;
      }
  }

private:
  /// Returns whether all ops that read `value` are known. `isZero`: its new columns will be zeros.
  bool isKnown(Value value, bool isZero) {
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isa<CrossEntropyOp>(user))
        return reachesLoss = use.getOperandNumber() == 0;
      if (isa<CrossEntropyBackwardOp>(user))
        return use.getOperandNumber() == 0 && isKnown(user->getResult(0), true);
      if (isa<ConvertOp>(user))
        return isKnown(user->getResult(0), isZero);
      if (isa<ReshapeOp>(user))
        return tensorType(user->getResult(0)).getRank() > 0 &&
               tensorType(user->getResult(0)).getShape().back() == classes && isKnown(user->getResult(0), isZero);
      if (isa<AddOp>(user))
        return repeatedRow(user->getOperand(1 - use.getOperandNumber())) && isKnown(user->getResult(0), false);
      if (auto reduce = dyn_cast<ReduceOp>(user))
        return !llvm::is_contained(reduce.getDimensions(), lastDim(value));
      auto dot = dyn_cast<DotGeneralOp>(user);
      if (!dot || dot.getLhs() == dot.getRhs() || use.getOperandNumber() > 1)
        return false;
      std::optional<FactorDim> dim = factorDim(dot, use.getOperandNumber() == 0, lastDim(value));
      return dim && (!dim->isContracted || isZero);
    });
  }

  /// Returns `value` with zeros after its elements along dimension `dim`, made once, where `value` is.
  Value padded(Value value, int64_t dim) {
    Value &known = pads[{value, dim}];
    if (known)
      return known;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    RankedTensorType type = tensorType(value);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value zero = ConstantOp::create(builder, value.getLoc(),
                                    DenseElementsAttr::get(scalar, builder.getZeroAttr(type.getElementType())));
    Shape none(type.getRank(), 0), high(type.getRank(), 0), shape(type.getShape());
    high[dim] = columns - classes, shape[dim] = columns;
    known = PadOp::create(builder, value.getLoc(), type.clone(shape), value, zero, none, high, none);
    return known;
  }

  /// Clones `op` with the operands of `mapping`, and returns the clone's result, whose dimension `dim` has `columns`
  /// elements.
  Value cloneWide(OpBuilder &builder, Operation *op, const IRMapping &mapping, int64_t dim) {
    IRMapping own = mapping;
    Operation *clone = builder.clone(*op, own);
    Shape shape(tensorType(op->getResult(0)).getShape());
    shape[dim] = columns;
    clone->getResult(0).setType(tensorType(op->getResult(0)).clone(shape));
    return clone->getResult(0);
  }

  /// Returns `wide` without its new elements along `dim`, made beside `op`, with the attributes that passes gave `op`.
  Value narrowed(OpBuilder &builder, Operation *op, Value wide, int64_t dim) {
    RankedTensorType type = tensorType(op->getResult(0));
    Shape start(type.getRank(), 0), strides(type.getRank(), 1);
    auto slice = SliceOp::create(builder, op->getLoc(), type, wide, start, type.getShape(), strides);
    slice->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return slice;
  }

  /// Lets the ops that read `value` read `wide` instead, which has zeros or numbers without a meaning in new columns.
  void widenUses(Value value, Value wide) {
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      Operation *user = use.getOwner();
      OpBuilder builder(user);
      IRMapping mapping;
      mapping.map(value, wide);
      if (auto dot = dyn_cast<DotGeneralOp>(user)) {
        FactorDim dim = *factorDim(dot, use.getOperandNumber() == 0, lastDim(value));
        if (dim.isContracted) {
          unsigned other = 1 - use.getOperandNumber();
          dot->setOperand(other, padded(dot->getOperand(other), dim.other));
          use.set(wide);
          continue;
        }
        Value made = cloneWide(builder, dot, mapping, dim.ofResult);
        dot.getResult().replaceAllUsesWith(narrowed(builder, dot, made, dim.ofResult));
      } else if (auto reduce = dyn_cast<ReduceOp>(user)) {
        int64_t dim = lastDim(reduce.getResult());
        Value made = cloneWide(builder, reduce, mapping, dim);
        reduce.getResult().replaceAllUsesWith(narrowed(builder, reduce, made, dim));
      } else if (auto loss = dyn_cast<CrossEntropyOp>(user)) {
        loss.setClasses(classes);
        use.set(wide);
        continue;
      } else {
        Operation *row = nullptr; // repeats a vector, which is added
        if (isa<AddOp>(user)) {
          row = user->getOperand(1 - use.getOperandNumber()).getDefiningOp();
          IRMapping rowMapping;
          rowMapping.map(row->getOperand(0), padded(row->getOperand(0), 0));
          mapping.map(row->getResult(0), cloneWide(builder, row, rowMapping, lastDim(value)));
        }
        Value made = cloneWide(builder, user, mapping, lastDim(user->getResult(0)));
        if (auto gradient = made.getDefiningOp<CrossEntropyBackwardOp>())
          gradient.setClasses(classes);
        widenUses(user->getResult(0), made);
        user->erase();
        if (row && row->use_empty())
          row->erase();
        continue;
      }
      user->erase();
    }
  }

  DotGeneralOp product; // gives the scores
  int64_t classes, columns;
  bool reachesLoss = false;
  DenseMap<std::pair<Value, int64_t>, Value> pads; // by value and dimension
};

struct PadClasses : impl::PadClassesBase<PadClasses> {
  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp product) {
      RankedTensorType type = tensorType(product.getResult());
      if (type.getRank() > 0 && type.getElementTypeBitWidth() == 16 && type.getShape().back() % kMultiple != 0)
        products.push_back(product);
    });
    for (DotGeneralOp product : products) {
      int64_t classes = tensorType(product.getResult()).getShape().back();
      Widening widening(product, classes, llvm::alignTo(classes, kMultiple));
      if (widening.isKnown())
        widening.apply();
    }
  }
};

} // namespace
} // namespace kerf
