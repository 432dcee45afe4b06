// SPDX-License-Identifier: Apache-2.0
// Messages printed before the first step of a run: warnings, and the tensors that the steps train.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::tool {

/// Prints each warning as one line on standard error.
void printWarnings(const std::vector<std::string> &warnings);

/// Returns one line, without a newline, that lists the tensors which the steps train and those which stay constant:
/// "training 28 tensors, 110,400 parameters: blocks.*.fc.weight (12), head.weight; frozen: wte.weight; no dropout".
std::string trainedTensorsText(const package::Program &program);

} // namespace kerf::tool
