// SPDX-License-Identifier: Apache-2.0
// The sizes of a config.json's model for those that do not want its IR.
#pragma once

#include "kerf/Export/ModelSizes.h"
#include "kerf/Support/Result.h"

namespace kerf {

/// `sequence` 0: the default of import, the model's positions up to 2048. Refuses what importModel refuses.
Result<ModelSizes> readModelSizes(const std::string &configPath, int64_t sequence);

} // namespace kerf
