// SPDX-License-Identifier: Apache-2.0
// Imports StableHLO text as kerf IR: a loss function, or a whole train step.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// Imports the StableHLO `text` of the model `source`. Names come from signature.json beside the model, weights from
/// weights.npz beside it or from `options.weights`. Fails for unsupported operations and a wrong signature.
Result<ImportedModel> importStableHlo(mlir::MLIRContext &context, const ModelSource &source, std::string_view text,
                                      const ImportOptions &options);

} // namespace kerf::frontend
