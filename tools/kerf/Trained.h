// SPDX-License-Identifier: Apache-2.0
// What people are told before the first step: warnings, and which tensors the steps train.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::tool {

/// One line of standard error for each.
void printWarnings(const std::vector<std::string> &warnings);

/// "training 28 tensors, 110,400 parameters: blocks.*.fc.weight (12), head.weight; frozen: 1 tensor, wte.weight;
/// constant: 3 tensors, pe and 2 more; dropout at 4 places": one line without its end.
std::string trainedText(const package::Program &program);

} // namespace kerf::tool
