// SPDX-License-Identifier: Apache-2.0
// Reduces the sizes of a transformer that a configuration describes.
#pragma once

#include "Config/TransformerModel.h"
#include "kerf/Frontend/SmallModel.h"

namespace kerf::frontend {

/// Reduces the sizes of `model` and of its step to the least that `sizes` allow. Returns one text for each reduced
/// size, such as "hidden size 4096 -> 32". Works on the model as plain data, and so for every family, whatever its
/// configuration calls a size.
std::vector<std::string> reduceSizes(TransformerModel &model, StepSize &step, const SmallSizes &sizes);

} // namespace kerf::frontend
