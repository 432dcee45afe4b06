// SPDX-License-Identifier: Apache-2.0
// Optimizers that let ranks sum a mean of gradients in place of the gradients.
#pragma once

#include "kerf/Optimizer/Record.h"

namespace kerf {

/// A mean of gradients that ranks may sum in codes with error feedback, because from some step on the rest of the rule
/// is linear in it.
struct CodedMean {
  const char *state = nullptr;     // name of the state that is the mean
  const char *decay = nullptr;     // setting: new mean = decay * old mean + (1 - decay) * gradient
  const char *firstStep = nullptr; // setting: number of steps before the rule is linear
};

/// Returns the mean of gradients that ranks sum under this optimizer, or null where they sum the gradients themselves.
const CodedMean *codedMeanOf(const OptimizerRecord &record);

} // namespace kerf
