// SPDX-License-Identifier: Apache-2.0
// The products of linear layers, which have 8-bit factors with --dtype f8. The pass kerf-quantize-products changes
// them, and the prediction of a step prices them (ModelWork.cpp).
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace kerf {

/// The sizes of a product whose factors are quantized are multiples of this number, which 8-bit products of NVIDIA's
/// GPUs need.
inline constexpr int64_t kEightBitSizeUnit = 16;

/// Returns whether the value is a parameter, under another shape or in another type.
bool isFromParameter(mlir::ModuleOp module, mlir::Value value);

/// Returns whether the product, of the forward pass, multiplies activations by a parameter, has sizes that 8-bit
/// products can have, and does not give the scores of the loss.
bool isOfLinearLayer(mlir::ModuleOp module, ir::DotGeneralOp product);

/// The products of a training step that have 8-bit factors, as far as a prediction needs to know them.
struct EightBitProducts {
  llvm::DenseSet<mlir::Operation *> products; // of linear layers: in the forward pass, and of their gradients
  llvm::DenseSet<mlir::Value> quantized;      // factors that are quantized in each microbatch
};

/// Returns the products that --dtype f8 computes with 8-bit factors in a training step whose module has no 8-bit types.
EightBitProducts eightBitProducts(mlir::ModuleOp step);

} // namespace kerf
