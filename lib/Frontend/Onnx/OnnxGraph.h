// SPDX-License-Identifier: Apache-2.0
// Imports a parsed ONNX file as IR.
#pragma once

#include "Onnx/OnnxFile.h"
#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// Imports the graph of `file`. Tensors in `replaced` replace initializers of the same names. Fails for unsupported
/// operators and wrong options.
Result<ImportedModel> importOnnx(mlir::MLIRContext &context, OnnxFile file, const ImportOptions &options,
                                 const TensorMap &replaced);

} // namespace kerf::frontend
