// SPDX-License-Identifier: Apache-2.0
// kerf-fold-reshapes: applies rewrites in rounds until none applies. The rounds end because splits only move up and
// merges only move down.
#include "FoldReshapes.h"
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/DenseSet.h"

namespace kerf {
#define GEN_PASS_DEF_FOLDRESHAPES
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

/// A rewrite moves a reshape over one op. No model has a chain of ops longer than this within a layer, so reaching the
/// limit means a rewrite does not terminate; the IR is then valid and left as it is.
constexpr int kMaximumRounds = 200;

/// Rewrites a chain of reshapes as one split, one insertion or removal of dimensions of size 1, and one merge, each at
/// most once.
static bool normalize(ReshapeOp op) {
  Value root = op.getOperand();
  std::vector<Shape> chain = {shapeOf(op.getResult())};
  while (auto inner = root.getDefiningOp<ReshapeOp>()) {
    chain.insert(chain.begin(), shapeOf(root));
    root = inner.getOperand();
  }
  auto steps = reshapeSteps(shapeOf(root), shapeOf(op.getResult()));
  if (!steps || *steps == chain)
    return false;
  OpBuilder builder(op);
  Value value = root;
  for (const Shape &step : *steps)
    value = reshapeAt(builder, op.getLoc(), value, step);
  op.getResult().replaceAllUsesWith(value);
  return true;
}

/// Returns whether all users are reshapes to one shape, so that they can be replaced together.
static bool usersAgree(Value value) {
  Type type = value.use_empty()                           ? Type()
              : value.getUsers().begin()->getNumResults() ? value.getUsers().begin()->getResult(0).getType()
                                                          : Type();
  return type && llvm::all_of(value.getUsers(), [&](Operation *user) {
           return isa<ReshapeOp>(user) && user->getResult(0).getType() == type;
         });
}

/// Rewrites the split of a slice to a slice of a split, if the split leaves the sliced dimension alone.
static bool liftOverSlice(ReshapeOp op) {
  auto slice = op.getOperand().getDefiningOp<SliceOp>();
  if (!slice || !usersAgree(slice.getResult()))
    return false;
  auto parts = splitParts(shapeOf(slice.getResult()), shapeOf(op.getResult()));
  if (!parts || isTrivial(*parts))
    return false;
  Parts operandParts;
  SmallVector<int64_t> start, limit, strides;
  for (size_t dim = 0; dim < parts->size(); ++dim) {
    int64_t size = tensorType(slice.getOperand()).getDimSize(static_cast<int64_t>(dim));
    bool whole = slice.getStart()[dim] == 0 && slice.getStrides()[dim] == 1 && slice.getLimit()[dim] == size;
    if (!whole && (*parts)[dim].size() > 1)
      return false;
    operandParts.push_back(whole ? (*parts)[dim] : Shape{size});
    for (int64_t part : operandParts.back()) {
      start.push_back(whole ? 0 : slice.getStart()[dim]);
      limit.push_back(whole ? part : slice.getLimit()[dim]);
      strides.push_back(slice.getStrides()[dim]);
    }
  }
  OpBuilder builder(slice);
  Value operand = reshapeAt(builder, op.getLoc(), slice.getOperand(), splitShape(operandParts));
  Value made = SliceOp::create(builder, slice.getLoc(), op.getResult().getType(), operand, start, limit, strides);
  for (Operation *user : llvm::to_vector(slice.getResult().getUsers()))
    user->getResult(0).replaceAllUsesWith(made);
  return true;
}

/// Moves a split up to the parameters from which its operand is computed.
static bool lift(ReshapeOp op) {
  Value value = op.getOperand();
  auto parts = splitParts(shapeOf(value), shapeOf(op.getResult()));
  if (!parts || isTrivial(*parts) || isa<BlockArgument>(value) || value.getDefiningOp<ReshapeOp>() ||
      !usersAgree(value) || !canSplit(value, *parts, Users::Served))
    return false;
  Value made = Splitter().split(value, *parts);
  for (Operation *user : llvm::to_vector(value.getUsers()))
    user->getResult(0).replaceAllUsesWith(made);
  return true;
}

namespace {
/// A dimension along which all users of a value take aligned slices of equal size, and their number.
struct EqualSlices {
  int64_t dim, count;
};
} // namespace

static std::optional<EqualSlices> equalSlices(Value value) {
  std::optional<EqualSlices> found;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    if (!slice)
      return std::nullopt;
    for (int64_t dim = 0; dim < tensorType(value).getRank(); ++dim) {
      int64_t size = tensorType(value).getDimSize(dim), start = slice.getStart()[dim];
      int64_t extent = slice.getLimit()[dim] - start;
      if (slice.getStrides()[dim] != 1)
        return std::nullopt;
      if (extent == size)
        continue;
      if (extent <= 1 || size % extent != 0 || start % extent != 0)
        return std::nullopt;
      if (found && (found->dim != dim || found->count != size / extent))
        return std::nullopt;
      found = EqualSlices{dim, size / extent};
    }
  }
  return found;
}

/// Rewrites the slices of a fused projection to slices of a separate dimension.
static bool separateSlices(Operation *op) {
  if (!isElementwise(op) && !isa<DotGeneralOp>(op))
    return false;
  Value value = op->getResult(0);
  auto slices = equalSlices(value);
  if (!slices)
    return false;
  Parts parts = wholeParts(tensorType(value).getShape());
  int64_t extent = parts[slices->dim][0] / slices->count;
  parts[slices->dim] = {slices->count, extent};
  if (!canSplit(value, parts, Users::Served))
    return false;
  Value made = Splitter().split(value, parts);
  for (Operation *user : llvm::to_vector(value.getUsers())) {
    auto slice = cast<SliceOp>(user);
    OpBuilder builder(slice);
    Shape start, limit = splitShape(parts), strides(parts.size() + 1, 1);
    start.assign(limit.size(), 0);
    bool sliced = slice.getLimit()[slices->dim] - slice.getStart()[slices->dim] == extent;
    if (sliced) {
      start[slices->dim] = slice.getStart()[slices->dim] / extent;
      limit[slices->dim] = start[slices->dim] + 1;
    }
    Shape shape = splitShape(parts);
    shape[slices->dim] = sliced ? 1 : slices->count;
    auto type = RankedTensorType::get(shape, tensorType(value).getElementType());
    Value piece = SliceOp::create(builder, slice.getLoc(), type, made, start, limit, strides);
    slice.getResult().replaceAllUsesWith(
        reshapeAt(builder, slice.getLoc(), piece, tensorType(slice.getResult()).getShape()));
  }
  return true;
}

/// Removes a reshape that inserts dimensions of size 1 before a broadcast, because the broadcast can
/// insert them itself.
static bool skipUnitDimensions(BroadcastInDimOp op) {
  auto reshape = op.getOperand().getDefiningOp<ReshapeOp>();
  if (!reshape || llvm::is_contained(tensorType(reshape.getOperand()).getShape(), 1))
    return false;
  SmallVector<int64_t> dims, sizes;
  for (auto [dim, size] : llvm::enumerate(tensorType(reshape.getResult()).getShape()))
    if (size != 1) {
      dims.push_back(op.getBroadcastDimensions()[dim]);
      sizes.push_back(size);
    }
  if (ArrayRef<int64_t>(sizes) != tensorType(reshape.getOperand()).getShape())
    return false;
  op.getOperandMutable().assign(reshape.getOperand());
  op.setBroadcastDimensions(dims);
  return true;
}

/// Gives an argument, and the result that replaces it after the step, the shape to which all its users reshape it.
static bool viewArgument(func::FuncOp function, BlockArgument argument) {
  if (!isViewable(argument) || argument.use_empty() || !usersAgree(argument))
    return false;
  unsigned number = argument.getArgNumber();
  Builder builder(function.getContext());
  Type type = argument.getUsers().begin()->getResult(0).getType();
  auto exported = function.getArgAttrOfType<DenseI64ArrayAttr>(number, KerfDialect::kExportedShapeAttr);
  if (!exported)
    exported = builder.getDenseI64ArrayAttr(tensorType(argument).getShape());
  SmallVector<Operation *> reshapes(argument.getUsers());
  argument.setType(cast<RankedTensorType>(type));
  for (Operation *reshape : reshapes) {
    reshape->getResult(0).replaceAllUsesWith(argument);
    reshape->erase();
  }
  if (auto by = function.getArgAttrOfType<IntegerAttr>(number, KerfDialect::kUpdatedByAttr)) {
    Operation *end = function.front().getTerminator();
    OpBuilder atEnd(end);
    OpOperand &next = end->getOpOperand(static_cast<unsigned>(by.getInt()));
    next.set(reshapeAt(atEnd, end->getLoc(), next.get(), tensorType(argument).getShape()));
  }
  if (exported.asArrayRef() == tensorType(argument).getShape())
    function.removeArgAttr(number, KerfDialect::kExportedShapeAttr);
  else
    function.setArgAttr(number, KerfDialect::kExportedShapeAttr, exported);
  return true;
}

static bool rewrite(Operation *op) {
  if (op->use_empty())
    return false;
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return normalize(reshape) || liftOverSlice(reshape) || lift(reshape);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return foldTranspose(transpose);
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
    return skipUnitDimensions(broadcast);
  if (auto product = dyn_cast<DotGeneralOp>(op); product && foldProductTransposes(product))
    return true;
  return sinkMerges(op) || separateSlices(op);
}

/// Replaces each remaining chain of reshapes by one reshape.
static void joinChains(func::FuncOp function) {
  SmallVector<ReshapeOp> reshapes(function.getOps<ReshapeOp>());
  for (ReshapeOp reshape : reshapes) {
    Value root = reshape.getOperand();
    while (auto inner = root.getDefiningOp<ReshapeOp>())
      root = inner.getOperand();
    reshape.getOperandMutable().assign(root);
    if (root.getType() == reshape.getResult().getType())
      reshape.getResult().replaceAllUsesWith(root);
  }
  eraseDead(function);
}

namespace {
struct FoldReshapes : kerf::impl::FoldReshapesBase<FoldReshapes> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      bool changed = true;
      for (int round = 0; changed && round < kMaximumRounds; ++round) {
        changed = false;
        eraseDead(function);
        // A rewrite leaves the ops that it replaced without uses. Dead users would make values look shared, so each
        // neighbourhood is changed only once in a round.
        SmallVector<Operation *> ops;
        for (Operation &op : function.getOps())
          ops.push_back(&op);
        for (Operation *op : ops)
          changed |= rewrite(op);
        eraseDead(function);
        for (BlockArgument argument : function.getArguments())
          changed |= viewArgument(function, argument);
      }
      joinChains(function);
      function.setType(FunctionType::get(function.getContext(), function.getBody().getArgumentTypes(),
                                         function.front().getTerminator()->getOperandTypes()));
    }
  }
};
} // namespace
