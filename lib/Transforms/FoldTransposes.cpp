// SPDX-License-Identifier: Apache-2.0
// The rewrites of transposes in kerf-fold-reshapes: they cancel with each other, are folded into products, and move up
// through elementwise ops where they then cancel.
#include "FoldReshapes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

static bool onlyUser(Value value) {
  Operation *user = nullptr;
  for (Operation *next : value.getUsers()) {
    if (user && next != user)
      return false;
    user = next;
  }
  return true;
}

/// Returns whether the value can be computed transposed without a transpose that does not exist yet.
static bool canLift(Value value) {
  if (scalarOf(value) || value.getDefiningOp<TransposeOp>())
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<BroadcastInDimOp>(op))
    return true;
  if (!onlyUser(value) || !(isElementwise(op) || isa<ConcatenateOp, SliceOp>(op)))
    return false;
  return llvm::all_of(op->getOperands(), [](Value operand) { return canLift(operand); });
}

/// Returns whether moving a transpose up above the value's ops would meet another transpose, with which it cancels.
static bool meetsTranspose(Value value) {
  if (value.getDefiningOp<TransposeOp>())
    return true;
  Operation *op = value.getDefiningOp();
  return op && (isElementwise(op) || isa<ConcatenateOp, SliceOp>(op)) &&
         llvm::any_of(op->getOperands(), meetsTranspose);
}

namespace {
struct Lifter {
  ArrayRef<int64_t> permutation;
  llvm::DenseMap<Value, Value> made;

  Value lift(Value value) {
    Value &known = made[value];
    if (known)
      return known;
    Value result = make(value);
    return made[value] = result;
  }

  SmallVector<int64_t> permuted(ArrayRef<int64_t> perDim) { return composed(perDim, permutation); }

  Value liftBroadcast(BroadcastInDimOp op, Emitter &emit) {
    // A dimension of size 1 that is broadcast needs no dimension in the operand.
    auto shape = tensorType(op.getOperand()).getShape();
    auto target = tensorType(op.getResult()).getShape();
    auto where = inverse(permutation);
    Shape kept;
    SmallVector<int64_t> dims;
    for (auto [dim, to] : llvm::enumerate(op.getBroadcastDimensions())) {
      if (shape[dim] == 1)
        continue;
      kept.push_back(shape[dim]);
      dims.push_back(where[to]);
    }
    Value operand = emit.reshape(op.getOperand(), kept);
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(dims.size())));
    llvm::sort(order, [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
    llvm::sort(dims);
    return emit.broadcast(emit.transpose(operand, order), permuted(target), dims);
  }

  Value make(Value value) {
    Operation *op = value.getDefiningOp();
    OpBuilder builder(op);
    Emitter emit{builder, op->getLoc()};
    if (isa<TransposeOp>(op))
      return transposed(emit, value, permutation);
    if (auto broadcast = dyn_cast<BroadcastInDimOp>(op))
      return liftBroadcast(broadcast, emit);
    if (scalarOf(value))
      return emit.transpose(value, permutation);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(lift(operand));
    auto shape = permuted(tensorType(value).getShape());
    Operation *lifted = cloneWithShapes(builder, op, operands, {Shape(shape.begin(), shape.end())});
    if (auto concatenate = dyn_cast<ConcatenateOp>(lifted))
      concatenate.setDimension(inverse(permutation)[concatenate.getDimension()]);
    if (auto slice = dyn_cast<SliceOp>(lifted)) {
      slice.setStart(permuted(slice.getStart()));
      slice.setLimit(permuted(slice.getLimit()));
      slice.setStrides(permuted(slice.getStrides()));
    }
    return lifted->getResult(0);
  }
};
} // namespace

bool foldTranspose(TransposeOp op) {
  OpBuilder builder(op);
  Emitter emit{builder, op.getLoc()};
  if (isIdentity(op.getPermutation()) || op.getOperand().getDefiningOp<TransposeOp>()) {
    op.getResult().replaceAllUsesWith(transposed(emit, op.getOperand(), op.getPermutation()));
    return true;
  }
  Value operand = op.getOperand();
  bool alike = llvm::all_of(operand.getUsers(), [&](Operation *user) {
    auto other = dyn_cast<TransposeOp>(user);
    return other && other.getPermutation() == op.getPermutation();
  });
  Operation *source = operand.getDefiningOp();
  if (!alike || !source || !(isElementwise(source) || isa<ConcatenateOp, SliceOp>(source)) ||
      !meetsTranspose(operand) || !llvm::all_of(source->getOperands(), [](Value value) { return canLift(value); }))
    return false;
  SmallVector<int64_t> permutation(op.getPermutation());
  Lifter lifter{permutation, llvm::DenseMap<Value, Value>()};
  Value lifted = lifter.lift(operand);
  for (Operation *user : llvm::to_vector(operand.getUsers()))
    user->getResult(0).replaceAllUsesWith(lifted);
  return true;
}

/// Replaces an operand that is a transpose which keeps the order of free dimensions by the transpose's operand, and
/// renumbers the product's dimensions.
static bool foldOperand(Value &operand, ArrayRef<int64_t> batching, ArrayRef<int64_t> contracting,
                        SmallVector<int64_t> &newBatching, SmallVector<int64_t> &newContracting) {
  newBatching.assign(batching.begin(), batching.end());
  newContracting.assign(contracting.begin(), contracting.end());
  auto transpose = operand.getDefiningOp<TransposeOp>();
  if (!transpose)
    return false;
  auto permutation = transpose.getPermutation();
  int64_t last = -1;
  for (int64_t dim = 0; dim < static_cast<int64_t>(permutation.size()); ++dim) {
    if (llvm::is_contained(batching, dim) || llvm::is_contained(contracting, dim))
      continue;
    if (permutation[dim] < last)
      return false;
    last = permutation[dim];
  }
  newBatching = composed(permutation, batching);
  newContracting = composed(permutation, contracting);
  operand = transpose.getOperand();
  return true;
}

bool foldProductTransposes(DotGeneralOp op) {
  Value lhs = op.getLhs(), rhs = op.getRhs();
  SmallVector<int64_t> lhsBatching, lhsContracting, rhsBatching, rhsContracting;
  bool left = foldOperand(lhs, op.getLhsBatching(), op.getLhsContracting(), lhsBatching, lhsContracting);
  bool right = foldOperand(rhs, op.getRhsBatching(), op.getRhsContracting(), rhsBatching, rhsContracting);
  if (!left && !right)
    return false;
  op.getLhsMutable().assign(lhs);
  op.getRhsMutable().assign(rhs);
  op.setLhsBatching(lhsBatching);
  op.setLhsContracting(lhsContracting);
  op.setRhsBatching(rhsBatching);
  op.setRhsContracting(rhsContracting);
  return true;
}

} // namespace kerf
