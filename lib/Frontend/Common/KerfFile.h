// SPDX-License-Identifier: Apache-2.0
// Reads kerf IR from text files, and weights from files of all formats.
#pragma once

#include "kerf/Frontend/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::frontend {

/// Reads a model in kerf IR, as `writeModel` writes it. Fails when the text is not valid kerf IR or a weights file does
/// not match it.
Result<ImportedModel> readKerf(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);
/// Reads the tensors of a weights file: .onnx (its initializers), .safetensors, .npz, a folder of .npy files, or
/// config.json (the weights beside it, or no tensors if there are none).
Result<TensorMap> readWeights(const std::string &path);
/// Marks the arguments of `function` that are trained, according to the glob patterns in `options`. Fails for a pattern
/// that matches no parameter.
Status applyGlobs(mlir::func::FuncOp function, const ImportOptions &options);
/// Runs MLIR's verifier on the module. Fails with the message of the verifier.
Status verifyModule(mlir::ModuleOp module);

} // namespace kerf::frontend
