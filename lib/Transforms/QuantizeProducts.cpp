// SPDX-License-Identifier: Apache-2.0
// kerf-quantize-products: the products of linear layers multiply 8-bit factors. Passes.td describes which products.
#include "LinearLayers.h"
#include "kerf/Dialect/Kerf/Quantize.h"
#include "kerf/Transforms/Passes.h"

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "kerf/Transforms/Passes.h.inc"

namespace {

struct QuantizeProducts : impl::QuantizeProductsBase<QuantizeProducts> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<DotGeneralOp> products;
    module.walk([&](DotGeneralOp product) {
      if (isHalf(tensorType(product.getLhs()).getElementType()) &&
          isHalf(tensorType(product.getRhs()).getElementType()) && isOfLinearLayer(module, product))
        products.push_back(product);
    });
    if (products.empty()) {
      module.emitError() << "the model has no product of activations and a parameter that can be computed in 8 bits: "
                            "its three sizes must be multiples of "
                         << kEightBitSizeUnit << ", and it must not give the scores of the loss; give <dtype> bf16";
      return signalPassFailure();
    }
    for (DotGeneralOp product : products)
      quantize(product);
  }

private:
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
