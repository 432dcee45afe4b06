// SPDX-License-Identifier: Apache-2.0
// Reads the sizes of a config.json's model without importing it.
#pragma once

#include "kerf/Export/ModelSizes.h"
#include "kerf/Support/Result.h"

namespace kerf {

/// Returns the sizes of the model in `configPath`, for samples of `sequence` tokens; 0: the model's maximum positions,
/// at most 2048. Fails for configurations that importModel refuses.
Result<ModelSizes> readModelSizes(const std::string &configPath, int64_t sequence);

} // namespace kerf
