// SPDX-License-Identifier: Apache-2.0
// Verifiers of the ops of codecs.
#include "kerf/Dialect/Kerf/KerfDialect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

LogicalResult RandomKeyOp::verify() {
  for (Value value : {Value(getSeed()), Value(getStep()), Value(getResult())})
    if (tensorType(value).getRank() != 0)
      return emitOpError() << "has seed " << getSeed().getType() << ", step " << getStep().getType() << " and result "
                           << getType() << "; all three must be scalars";
  if (getAxes().size() % 3 != 0)
    return emitOpError() << "has " << getAxes().size() << " numbers for axes; these are triples (index, before, size)";
  return success();
}

/// Checks that `packed` holds the elements of `codes`, `bits` bits for each.
static LogicalResult checkPacked(Operation *op, int64_t bits, RankedTensorType codes, RankedTensorType packed) {
  if (bits != 1 && bits != 2 && bits != 4)
    return op->emitOpError() << "has bits = " << bits << "; it must be 1, 2 or 4";
  int64_t rank = codes.getRank();
  if (rank == 0 || packed.getRank() != rank || codes.getShape().drop_back() != packed.getShape().drop_back() ||
      codes.getDimSize(rank - 1) != packed.getDimSize(rank - 1) * (8 / bits))
    return op->emitOpError() << "has the elements " << codes << " and the bytes " << packed
                             << "; the shapes must agree except along the last dimension, where a byte has " << 8 / bits
                             << " elements";
  return success();
}

LogicalResult PackOp::verify() {
  return checkPacked(*this, getBits(), tensorType(getOperand()), tensorType(getResult()));
}

LogicalResult UnpackOp::verify() {
  return checkPacked(*this, getBits(), tensorType(getResult()), tensorType(getOperand()));
}
