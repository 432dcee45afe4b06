// SPDX-License-Identifier: Apache-2.0
// Imports the model that a Hugging Face config.json describes.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// Imports the model of a config.json. Fails for families and options that are not supported.
Result<ImportedModel> importConfig(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);

/// Reads the weights beside the configuration `path`: model.safetensors, or the files that model.safetensors.index.json
/// lists. Returns nothing when there are none.
Result<std::optional<TensorMap>> weightsBesideConfig(const std::string &path);

} // namespace kerf::frontend
