// SPDX-License-Identifier: Apache-2.0
// StableHLO text -> kerf IR: a loss function, or a whole train step.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf::frontend {

/// `text` is what lies at `path`. Names come from signature.json beside it, weights from weights.npz or
/// `options.weights`.
Result<ImportedModel> importStableHlo(mlir::MLIRContext &context, const ModelSource &source, std::string_view text,
                                      const ImportOptions &options);

} // namespace kerf::frontend
