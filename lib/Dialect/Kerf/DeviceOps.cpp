// SPDX-License-Identifier: Apache-2.0
// Verifiers of the ops of the device level: lists of axes, and the local shapes before and after a collective.
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {

/// Checks a flat list of triples (axis index, before, size), major axis first.
LogicalResult checkAxes(Operation *op, ArrayRef<int64_t> axes) {
  if (axes.size() % 3 != 0)
    return op->emitOpError() << "has " << axes.size() << " numbers for axes; these are triples (index, before, size)";
  for (; !axes.empty(); axes = axes.drop_front(3))
    if (axes[0] < 0 || axes[1] < 1 || axes[2] < 1)
      return op->emitOpError() << "has axis (" << axes[0] << ", " << axes[1] << ", " << axes[2]
                               << "); (index, before, size) are at least (0, 1, 1)";
  return success();
}

/// Returns the number of ranks along `axes`, limited to the largest int64_t.
int64_t shardCountOf(ArrayRef<int64_t> axes) {
  int64_t shards = 1;
  for (; !axes.empty(); axes = axes.drop_front(3))
    if (__builtin_mul_overflow(shards, axes[2], &shards))
      return std::numeric_limits<int64_t>::max();
  return shards;
}

LogicalResult checkDim(Operation *op, StringRef name, int64_t dim, RankedTensorType type) {
  if (dim >= 0 && dim < type.getRank())
    return success();
  return op->emitOpError() << name << " " << dim << " must be at least 0 and below the rank " << type.getRank();
}

/// Checks that element types, ranks and the sizes of all dimensions but `dims` agree.
LogicalResult checkAgree(Operation *op, RankedTensorType operand, RankedTensorType result, ArrayRef<int64_t> dims) {
  if (operand.getElementType() != result.getElementType())
    return op->emitOpError() << "has operand elements of " << operand.getElementType() << " and result elements of "
                             << result.getElementType() << "; they must agree";
  if (operand.getRank() != result.getRank())
    return op->emitOpError() << "has an operand of rank " << operand.getRank() << " and a result of rank "
                             << result.getRank() << "; they must agree";
  for (int64_t dim = 0; dim < operand.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim) && operand.getDimSize(dim) != result.getDimSize(dim))
      return op->emitOpError() << "has size " << operand.getDimSize(dim) << " in the operand and "
                               << result.getDimSize(dim) << " in the result along dimension " << dim
                               << "; they must agree";
  return success();
}

/// Checks that along `dim` the shards of size `piece`, one for each of the ranks, hold a dimension of size `whole`.
LogicalResult checkShards(Operation *op, int64_t dim, int64_t shards, StringRef pieceName, RankedTensorType piece,
                          StringRef wholeName, RankedTensorType whole) {
  int64_t capacity;
  if (__builtin_mul_overflow(shards, piece.getDimSize(dim), &capacity) || whole.getDimSize(dim) <= capacity)
    return success();
  return op->emitOpError() << "has size " << whole.getDimSize(dim) << " in the " << wholeName << " along dimension "
                           << dim << ", but " << shards << " pieces of the " << pieceName << "'s size "
                           << piece.getDimSize(dim) << " hold only " << capacity << "; the size must be at most that";
}

LogicalResult checkSameType(Operation *op, RankedTensorType operand, RankedTensorType result) {
  if (operand == result)
    return success();
  return op->emitOpError() << "has an operand of type " << operand << " and a result of type " << result
                           << "; they must be equal";
}

/// Checks a sharding as a flat list: the number of dimensions, then for each the number of its axis triples
/// and the triples.
LogicalResult checkLayout(Operation *op, StringRef name, ArrayRef<int64_t> flat, int64_t rank) {
  if (flat.empty() || flat[0] != rank)
    return op->emitOpError() << name << " is of " << (flat.empty() ? 0 : flat[0]) << " dimensions, the operand of "
                             << rank << "; both need the same number";
  flat = flat.drop_front();
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t left = flat.size();
    if (left == 0 || flat[0] < 0 || flat[0] > (left - 1) / 3)
      return op->emitOpError()
             << name << " ends within dimension " << dim
             << "; a dimension needs the number of its axes and as many triples (index, before, size)";
    size_t numbers = 3 * flat[0];
    if (failed(checkAxes(op, flat.slice(1, numbers))))
      return failure();
    flat = flat.drop_front(1 + numbers);
  }
  if (!flat.empty())
    return op->emitOpError() << name << " has " << flat.size()
                             << " numbers after its last dimension; it must end there";
  return success();
}

} // namespace

//===-- pieces of a tensor ----------------------------------------------------------------------------------------===//

LogicalResult ShardOffsetOp::verify() {
  if (failed(checkAxes(*this, getAxes())))
    return failure();
  if (int64_t rank = getType().getRank())
    return emitOpError() << "has a result of rank " << rank << "; it is a scalar, of rank 0";
  if (int64_t chunk = getChunk(); chunk < 0)
    return emitOpError() << "chunk is " << chunk << "; it is at least 0";
  return success();
}

LogicalResult MaskPaddingOp::verify() {
  int64_t dim = getDim(), size = getSize();
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, getType())))
    return failure();
  int64_t chunk = getType().getDimSize(dim), shards = shardCountOf(getAxes()), capacity;
  if (size < 0 || (!__builtin_mul_overflow(shards, chunk, &capacity) && size > capacity))
    return emitOpError() << "size " << size << " must be at least 0 and at most the " << shards << " pieces of "
                         << chunk << " that the axes and dimension " << dim << " hold";
  return success();
}

LogicalResult LocalSliceOp::verify() {
  RankedTensorType operand = getOperand().getType(), result = getType();
  int64_t dim = getDim();
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, operand)))
    return failure();
  return checkAgree(*this, operand, result, dim);
}

//===-- collectives -----------------------------------------------------------------------------------------------===//

LogicalResult kerf::ir::verifyKeepsType(Operation *collective) {
  auto axes = collective->getAttrOfType<DenseI64ArrayAttr>("axes");
  auto pending = dyn_cast<PendingType>(collective->getResult(0).getType());
  if (!axes || !pending)
    return collective->emitOpError() << "has " << (axes ? "a result that is not pending" : "no axes")
                                     << "; a collective needs axes and a pending result";
  if (failed(checkAxes(collective, axes)))
    return failure();
  return checkSameType(collective, tensorType(collective->getOperand(0)), pending.getTensor());
}

LogicalResult AllGatherOp::verify() {
  RankedTensorType operand = getOperand().getType(), result = getType().getTensor();
  int64_t dim = getDim();
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, operand)) ||
      failed(checkAgree(*this, operand, result, dim)))
    return failure();
  return checkShards(*this, dim, shardCountOf(getAxes()), "operand", operand, "result", result);
}

LogicalResult ReduceScatterOp::verify() {
  RankedTensorType operand = getOperand().getType(), result = getType().getTensor();
  int64_t dim = getDim();
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, operand)) ||
      failed(checkAgree(*this, operand, result, dim)))
    return failure();
  return checkShards(*this, dim, shardCountOf(getAxes()), "result", result, "operand", operand);
}

LogicalResult AllToAllOp::verify() {
  RankedTensorType operand = getOperand().getType(), result = getType().getTensor();
  int64_t dim = getDim(), other = getOtherDim(), shards = shardCountOf(getAxes());
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, operand)) ||
      failed(checkDim(*this, "other_dim", other, operand)))
    return failure();
  if (dim == other)
    return emitOpError() << "dim and other_dim are both " << dim << "; they must differ";
  if (failed(checkAgree(*this, operand, result, {dim, other})) ||
      failed(checkShards(*this, dim, shards, "operand", operand, "result", result)))
    return failure();
  return checkShards(*this, other, shards, "result", result, "operand", operand);
}

LogicalResult CollectivePermuteOp::verify() {
  int64_t rank = getOperand().getType().getRank();
  if (failed(checkAxes(*this, getAxes())) ||
      failed(checkSameType(*this, getOperand().getType(), getType().getTensor())) ||
      failed(checkLayout(*this, "before", getBefore(), rank)))
    return failure();
  return checkLayout(*this, "after", getAfter(), rank);
}

LogicalResult RingBalanceOp::verify() {
  RankedTensorType type = getOperand().getType();
  int64_t dim = getDim();
  if (failed(checkAxes(*this, getAxes())) || failed(checkDim(*this, "dim", dim, type)) ||
      failed(checkSameType(*this, type, getType().getTensor())))
    return failure();
  if (type.getDimSize(dim) % 2 == 0)
    return success();
  return emitOpError() << "needs an even size along dimension " << dim << ", but the size is " << type.getDimSize(dim);
}

LogicalResult OffloadOp::verify() { return checkSameType(*this, getOperand().getType(), getType().getTensor()); }

LogicalResult PrefetchOp::verify() { return checkSameType(*this, getOperand().getType(), getType().getTensor()); }

LogicalResult WaitOp::verify() { return checkSameType(*this, getOperand().getType().getTensor(), getType()); }

//===-- stages ----------------------------------------------------------------------------------------------------===//

LogicalResult TransferOp::verify() {
  auto from = static_cast<int64_t>(getFrom()), to = static_cast<int64_t>(getTo());
  if (from < 0 || to < 0 || from == to)
    return emitOpError() << "goes from stage " << from << " to stage " << to
                         << "; both are at least 0, and differ";
  return success();
}
