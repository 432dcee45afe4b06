// SPDX-License-Identifier: Apache-2.0
// kerf-fold-reshapes: rounds of rewrites until none applies. Splits only rise and merges only sink, so that rounds end.
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

/// A rewrite moves a reshape over one op; a chain longer than this within a layer would be a fault of ours, and is left
/// as it is.
constexpr int kMaximumRounds = 200;

/// A chain of reshapes as splits, then dimensions of size 1, then merges: no step twice.
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

/// All users are reshapes to one shape: they can be served together.
static bool usersAgree(Value value) {
  Type type = value.use_empty()                           ? Type()
              : value.getUsers().begin()->getNumResults() ? value.getUsers().begin()->getResult(0).getType()
                                                          : Type();
  return type && llvm::all_of(value.getUsers(), [&](Operation *user) {
           return isa<ReshapeOp>(user) && user->getResult(0).getType() == type;
         });
}

/// A split of a slice that leaves the sliced dimension alone is a slice of a split.
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

/// A split rises to the parameters that its value is computed from.
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
/// The dimension along which all users of a value take equal, aligned slices, and how many there are.
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

/// Slices of a fused projection become slices of a dimension of its own.
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

/// Dimensions of size 1 that are put in only to be copied along need no reshape: the broadcast makes them.
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

/// An argument whose users all reshape it to one shape has that shape, and what replaces it after the step, too.
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

/// Chains that stayed are one reshape each.
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
        // A rewrite leaves what it replaced dead, and dead users would make values look shared: one change per
        // neighbourhood and round.
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
