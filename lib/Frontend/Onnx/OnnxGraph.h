// SPDX-License-Identifier: Apache-2.0
// From a checked ONNX file to the IR.
#pragma once

#include "Onnx/OnnxFile.h"
#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// `replaced`: tensors that stand in for the file's own, by name.
Result<ImportedModel> importOnnx(mlir::MLIRContext &context, OnnxFile file, const ImportOptions &options,
                                 const TensorMap &replaced);

} // namespace kerf::frontend
