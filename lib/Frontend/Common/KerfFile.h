// SPDX-License-Identifier: Apache-2.0
// Kerf IR as text in files.
#pragma once

#include "kerf/Frontend/Import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::frontend {

Result<ImportedModel> readKerf(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);
/// Tensors of a weights file of any kind that Kerf reads: .onnx (its initializers), .safetensors, .npz, a folder of
/// .npy, config.json (what lies beside it; nothing where there is none).
Result<TensorMap> readWeights(const std::string &path);
/// Marks what is trained by name; an error for a glob that matches no parameter.
Status applyGlobs(mlir::func::FuncOp function, const ImportOptions &options);
/// Verifies the module; the verifier's message is the error.
Status verifyModule(mlir::ModuleOp module);

} // namespace kerf::frontend
