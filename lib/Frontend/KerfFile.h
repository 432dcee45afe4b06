// SPDX-License-Identifier: Apache-2.0
// Kerf IR as text in files.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

Result<ImportedModel> readKerf(mlir::MLIRContext &context, const std::string &path, const ImportOptions &options);
/// Tensors of a weights file of any kind that Kerf reads: .onnx (its initializers), .safetensors, .npz, a folder of .npy.
Result<TensorMap> readWeights(const std::string &path);
/// Verifies the module; the verifier's message is the error.
Status verifyModule(mlir::ModuleOp module);

} // namespace kerf::frontend
