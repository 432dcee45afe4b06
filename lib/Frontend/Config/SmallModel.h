// SPDX-License-Identifier: Apache-2.0
// Reduces the sizes of a transformer that a configuration describes.
#pragma once

#include "Config/TransformerModel.h"
#include "kerf/Frontend/SmallModel.h"

namespace kerf::frontend {

/// Makes the sizes of `model` and of its step as small as `sizes` allow. Returns what was changed, one text for each
/// size. Works on the model as plain data, so that it holds for every family, whatever its configuration calls a size.
std::vector<std::string> reduceSizes(TransformerModel &model, StepSize &step, const SmallSizes &sizes);

} // namespace kerf::frontend
