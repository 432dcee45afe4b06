// SPDX-License-Identifier: Apache-2.0
// kerf-chunk-products: splits products and the collectives right before or after them into chunks that overlap.
#include "kerf/CostModel/StepWork.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_CHUNKPRODUCTS
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// A dimension of a product's result that is also a dimension of an operand. A batching dimension is one
/// of both operands.
struct RowDim {
  int64_t result = 0;
  std::optional<int64_t> lhs, rhs;
};

std::optional<int64_t> dimOf(const FactorMap &dims, int factor) {
  for (auto [d, factors] : llvm::enumerate(dims))
    if (factors == std::vector<int>{factor})
      return static_cast<int64_t>(d);
  return std::nullopt;
}

/// Returns the outermost dimension of at least two elements for which `fits` is true and before which all dimensions
/// have one element. Its chunks are contiguous in memory.
template <typename Fits> std::optional<RowDim> rowDim(DotGeneralOp product, Fits fits) {
  Rule rule = cast<ShardingRuleOpInterface>(*product).getShardingRule();
  for (auto [d, size] : llvm::enumerate(shapeOf(product.getResult()))) {
    const std::vector<int> &factors = rule.results[0][d];
    if (size < 2 || factors.size() != 1)
      continue;
    RowDim dim{static_cast<int64_t>(d), dimOf(rule.operands[0], factors[0]), dimOf(rule.operands[1], factors[0])};
    if ((dim.lhs || dim.rhs) && fits(dim))
      return dim;
  }
  return std::nullopt;
}

struct Piece {
  int64_t begin, size;
};
SmallVector<Piece> piecesOf(int64_t size) {
  int64_t count = std::min(size, kProductPieces);
  SmallVector<Piece> pieces;
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    int64_t its = size / count + (i < size % count ? 1 : 0);
    pieces.push_back({begin, its});
    begin += its;
  }
  return pieces;
}

/// Copies the attributes that tell the pass of the step (kerf.backward) and the pipeline part.
void placeLike(Operation *op, Operation *other) {
  for (StringRef name : {KerfDialect::kBackwardAttr, KerfDialect::kPartAttr})
    if (Attribute attr = other->getAttr(name))
      op->setAttr(name, attr);
}

RankedTensorType withSize(Type type, int64_t dim, int64_t size) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[dim] = size;
  return tensor.clone(shape);
}

Value slice(OpBuilder &builder, Value value, int64_t dim, Piece piece, Operation *like) {
  Shape shape = shapeOf(value);
  SmallVector<int64_t> start(shape.size(), 0), limit(shape.begin(), shape.end()), strides(shape.size(), 1);
  start[dim] = piece.begin;
  limit[dim] = piece.begin + piece.size;
  auto op = SliceOp::create(builder, like->getLoc(), withSize(value.getType(), dim, piece.size), value, start, limit,
                            strides);
  placeLike(op, like);
  return op;
}

/// Emits the product for one chunk of rows. `given` is the chunk of operand `operand` where it exists already; other
/// operands are sliced.
Value rows(OpBuilder &builder, DotGeneralOp product, const RowDim &dim, Piece piece, Value given = {},
           unsigned operand = 0) {
  IRMapping map;
  for (auto [i, its] : {std::pair(0u, dim.lhs), std::pair(1u, dim.rhs)}) {
    Value whole = product->getOperand(i);
    if (given && i == operand)
      map.map(whole, given);
    else if (its)
      map.map(whole, slice(builder, whole, *its, piece, product));
  }
  Operation *made = builder.clone(*product, map);
  made->setDiscardableAttrs(ArrayRef<NamedAttribute>()); // the attributes are those of the joined result
  placeLike(made, product);
  made->getResult(0).setType(withSize(product.getType(), dim.result, piece.size));
  return made->getResult(0);
}

/// Emits the collective of one chunk, with the chunk's size along `dim`.
Operation *startOf(OpBuilder &builder, Operation *start, Value piece, int64_t dim, int64_t size) {
  auto type = cast<PendingType>(start->getResult(0).getType());
  OperationState state(start->getLoc(), start->getName(), ValueRange{piece},
                       TypeRange{PendingType::get(start->getContext(), withSize(type.getTensor(), dim, size))},
                       start->getAttrs());
  return builder.create(state);
}

Value waitFor(OpBuilder &builder, WaitOp wait, Operation *start) {
  auto type = cast<PendingType>(start->getResult(0).getType()).getTensor();
  auto piece = WaitOp::create(builder, wait.getLoc(), type, start->getResult(0));
  placeLike(piece, wait);
  return piece;
}

Value joined(OpBuilder &builder, ValueRange pieces, Type type, int64_t dim, Operation *like) {
  auto op = ConcatenateOp::create(builder, like->getLoc(), type, pieces, dim);
  op->setDiscardableAttrs(like->getDiscardableAttrDictionary());
  return op;
}

int64_t dimOfCollective(Operation *start) {
  auto dim = start->getAttrOfType<IntegerAttr>("dim");
  return dim ? dim.getInt() : -1;
}

/// Rewrites a product followed by an all-reduce to chunks: the all-reduce of one chunk overlaps with the product of the
/// next one.
bool chunkAfter(Operation *start, WaitOp wait) {
  auto product = start->getOperand(0).getDefiningOp<DotGeneralOp>();
  if (!isa<AllReduceOp, ReduceScatterOp>(start) || !product || !product->hasOneUse() ||
      product->getBlock() != start->getBlock())
    return false;
  auto dim = rowDim(product, [&](const RowDim &its) { return its.result != dimOfCollective(start); });
  if (!dim)
    return false;
  OpBuilder builder(product);
  SmallVector<Operation *> starts;
  for (Piece piece : piecesOf(shapeOf(product.getResult())[dim->result]))
    starts.push_back(startOf(builder, start, rows(builder, product, *dim, piece), dim->result, piece.size));
  builder.setInsertionPoint(wait);
  SmallVector<Value> sums;
  for (Operation *piece : starts)
    sums.push_back(waitFor(builder, wait, piece));
  wait.getResult().replaceAllUsesWith(joined(builder, sums, wait.getType(), dim->result, product));
  wait.erase();
  start->erase();
  product.erase();
  return true;
}

/// Rewrites an all-gather followed by a product to chunks: the all-gather of one chunk overlaps with the product of the
/// chunk before. Other users of the gathered tensor read the concatenation of all chunks.
bool chunkBefore(Operation *start, WaitOp wait) {
  if (!isa<AllGatherOp>(start) || wait->use_empty())
    return false;
  OpOperand &first = *std::min_element(wait->use_begin(), wait->use_end(), [](OpOperand &one, OpOperand &other) {
    return one.getOwner()->isBeforeInBlock(other.getOwner());
  });
  auto product = dyn_cast<DotGeneralOp>(first.getOwner());
  if (!product || product.getLhs() == product.getRhs())
    return false;
  unsigned operand = first.getOperandNumber();
  auto along = [&](const RowDim &its) { return operand == 0 ? its.lhs : its.rhs; };
  auto dim = rowDim(product, [&](const RowDim &its) { return along(its) && *along(its) != dimOfCollective(start); });
  if (!dim)
    return false;
  int64_t gathered = *along(*dim);
  SmallVector<Piece> pieces = piecesOf(shapeOf(product.getResult())[dim->result]);
  OpBuilder builder(start);
  SmallVector<Operation *> starts;
  for (Piece piece : pieces)
    starts.push_back(
        startOf(builder, start, slice(builder, start->getOperand(0), gathered, piece, start), gathered, piece.size));
  builder.setInsertionPoint(product);
  SmallVector<Value> values, results;
  for (auto [piece, its] : llvm::zip(pieces, starts)) {
    values.push_back(waitFor(builder, wait, its));
    results.push_back(rows(builder, product, *dim, piece, values.back(), operand));
  }
  product.getResult().replaceAllUsesWith(joined(builder, results, product.getType(), dim->result, product));
  if (!wait->hasOneUse())
    wait.getResult().replaceAllUsesExcept(joined(builder, values, wait.getType(), gathered, wait), product);
  product.erase();
  wait.erase();
  start->erase();
  return true;
}

struct ChunkProducts : impl::ChunkProductsBase<ChunkProducts> {
  void runOnOperation() override {
    SmallVector<WaitOp> waits;
    getOperation().walk([&](WaitOp wait) { waits.push_back(wait); });
    for (WaitOp wait : waits) {
      Operation *start = wait.getOperand().getDefiningOp();
      if (!start || start->getBlock() != wait->getBlock() || !start->hasOneUse())
        continue;
      auto stream = start->getAttrOfType<StringAttr>("stream");
      if (stream && stream.getValue() == "collectives" && !chunkAfter(start, wait))
        chunkBefore(start, wait);
    }
  }
};

} // namespace
} // namespace kerf
