// SPDX-License-Identifier: Apache-2.0
// A Hugging Face config.json as a model file.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

Result<ImportedModel> importConfig(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);

/// The weights that lie beside a configuration: of model.safetensors, or of the files that model.safetensors.index.json
/// names. Nothing where there are none.
Result<std::optional<TensorMap>> weightsBesideConfig(const std::string &path);

} // namespace kerf::frontend
