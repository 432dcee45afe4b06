// SPDX-License-Identifier: Apache-2.0
#include "Matching.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <cmath>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

std::optional<double> scalarOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (op->hasTrait<SameValue>() || isa<BroadcastInDimOp>(op))
    return scalarOf(op->getOperand(0));
  auto constant = dyn_cast<ConstantOp>(op);
  if (!constant)
    return std::nullopt;
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !(elements.isSplat() || elements.getNumElements() == 1))
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return (*elements.value_begin<APFloat>()).convertToDouble();
  APInt number = *elements.value_begin<APInt>();
  return number.getBitWidth() == 1 ? static_cast<double>(number.getZExtValue())
                                   : static_cast<double>(number.getSExtValue());
}

std::optional<Scaled> asScaled(Value value) {
  if (auto multiply = value.getDefiningOp<MultiplyOp>()) {
    if (auto factor = scalarOf(multiply.getRhs()))
      return Scaled{multiply.getLhs(), *factor};
    if (auto factor = scalarOf(multiply.getLhs()))
      return Scaled{multiply.getRhs(), *factor};
  }
  if (auto divide = value.getDefiningOp<DivideOp>())
    if (auto divisor = scalarOf(divide.getRhs());
        divisor && *divisor != 0 && isa<FloatType>(tensorType(value).getElementType()))
      return Scaled{divide.getLhs(), 1.0 / *divisor};
  return std::nullopt;
}

SmallVector<int64_t> composed(ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
  SmallVector<int64_t> both;
  for (int64_t dim : second)
    both.push_back(first[dim]);
  return both;
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> back(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    back[from] = static_cast<int64_t>(to);
  return back;
}

bool isIdentity(ArrayRef<int64_t> permutation) { return llvm::is_sorted(permutation); }

Value transposed(Emitter &emit, Value value, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> order(permutation);
  while (auto inner = value.getDefiningOp<TransposeOp>()) {
    order = composed(inner.getPermutation(), order);
    value = inner.getOperand();
  }
  return emit.transpose(value, order);
}

bool isClose(double x, double y, double relative) {
  return std::abs(x - y) <= relative * std::max(std::abs(x), std::abs(y));
}

void eraseDead(Operation *function) {
  for (Region &region : function->getRegions())
    for (Block &block : region)
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isOpTriviallyDead(&op))
          op.erase();
}

} // namespace kerf
