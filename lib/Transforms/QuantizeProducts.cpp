// SPDX-License-Identifier: Apache-2.0
// kerf-quantize-products: the products of linear layers multiply 8-bit factors. Passes.td describes which products.
#include "Calls.h"
#include "kerf/Dialect/Kerf/Quantize.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "kerf/Transforms/Passes.h.inc"

namespace {

/// The sizes of a product whose factors are quantized are multiples of this number, which 8-bit products of NVIDIA's
/// GPUs need.
constexpr int64_t kSizeUnit = 16;

/// Returns whether the op's result has the values of its operand, in another order, shape or element type.
bool keepsValues(Operation *op) {
  return op->getNumOperands() == 1 && (op->hasTrait<PicksElements>() || op->hasTrait<SameValue>());
}

struct QuantizeProducts : impl::QuantizeProductsBase<QuantizeProducts> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<DotGeneralOp> products;
    module.walk([&](DotGeneralOp product) {
      if (isOfLinearLayer(product))
        products.push_back(product);
    });
    if (products.empty()) {
      module.emitError() << "the model has no product of activations and a parameter that can be computed in 8 bits: "
                            "its three sizes must be multiples of "
                         << kSizeUnit << ", and it must not give the scores of the loss; give <dtype> bf16";
      return signalPassFailure();
    }
    for (DotGeneralOp product : products)
      quantize(product);
  }

private:
  /// Returns whether the value is a parameter, under another shape or in another type.
  bool isFromParameter(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (!keepsValues(op))
        return false;
      value = op->getOperand(0);
    }
    auto argument = cast<BlockArgument>(value);
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (function.getName() == KerfDialect::kEntryName)
      return isParameter(value);
    SmallVector<CallOp> calls = callsOf(getOperation(), function);
    return !calls.empty() &&
           llvm::all_of(calls, [&](CallOp call) { return isFromParameter(call.getInputs()[argument.getArgNumber()]); });
  }

  /// Returns whether the value is, up to an added bias, the scores of classes that a loss reads.
  bool areScores(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (user->hasTrait<ReadsScores>())
        return user->getOperand(0) == value;
      return (keepsValues(user) || isa<AddOp>(user)) && areScores(user->getResult(0));
    });
  }

  bool isOfLinearLayer(DotGeneralOp product) {
    auto lhs = tensorType(product.getLhs()), rhs = tensorType(product.getRhs());
    if (!isHalf(lhs.getElementType()) || !isHalf(rhs.getElementType()) || !product.getLhsBatching().empty())
      return false;
    int64_t contracted = 1;
    for (int64_t dim : product.getLhsContracting())
      contracted *= lhs.getDimSize(dim);
    int64_t rows = contracted ? lhs.getNumElements() / contracted : 0,
            columns = contracted ? rhs.getNumElements() / contracted : 0;
    for (int64_t size : {contracted, rows, columns})
      if (size == 0 || size % kSizeUnit != 0)
        return false;
    return isFromParameter(product.getLhs()) != isFromParameter(product.getRhs()) && !areScores(product.getResult());
  }

  /// Returns the value in f8E4M3FN. All products that read the value share it.
  QuantizedFactor factor(Value value, DotGeneralOp product) {
    QuantizedFactor &known = factors[value];
    if (!known.value) {
      OpBuilder builder(product);
      Emitter emit{builder, product.getLoc()};
      known = quantized(emit, value, Float8E4M3FNType::get(&getContext()));
    }
    return known;
  }

  void quantize(DotGeneralOp product) {
    QuantizedFactor lhs = factor(product.getLhs(), product), rhs = factor(product.getRhs(), product);
    product.getLhsMutable().assign(lhs.value);
    product.getRhsMutable().assign(rhs.value);
    product.getMagnitudesMutable().assign(ValueRange{lhs.magnitude, rhs.magnitude});
  }

  DenseMap<Value, QuantizedFactor> factors;
};

} // namespace
} // namespace kerf
