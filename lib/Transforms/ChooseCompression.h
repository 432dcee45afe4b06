// SPDX-License-Identifier: Apache-2.0
// The codec of a gradient, and the rules of training with codecs.
#pragma once

#include "Compression.h"
#include "kerf/Optimizer/Options.h"

namespace kerf {

/// The parameter whose gradient may be compressed.
struct CompressedParameter {
  std::string name;
  mlir::Value gradient;
  size_t rank;                   // number of dimensions of the parameter as exported: 1 for norms and biases
  ParameterOptimizer *optimizer; // its momentum may move to where the gradient is encoded
  bool hasLossScale;             // whether the training scales the loss
};

/// Puts the codec of gathered parameters on the module (kGatherCodecAttr), where the options name one. Reports an error
/// where there is no such codec, or where it is biased.
mlir::LogicalResult chooseGatherCodec(mlir::ModuleOp module, const CompressionOptions &options);

/// Returns how the gradient is compressed, or nothing where no rule of the options is for it. Reports an error where
/// the codec cannot train with the parameter's optimizer and options.
mlir::FailureOr<std::optional<CompressedSync>> chooseCompression(mlir::ModuleOp module, const OptimizerOptions &options,
                                                                 const CompressedParameter &parameter);

} // namespace kerf
