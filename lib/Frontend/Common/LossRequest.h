// SPDX-License-Identifier: Apache-2.0
// What the user asked the loss to be, in words that all importers take.
#pragma once

#include "kerf/Support/Result.h"

namespace kerf::frontend {

struct LossRequest {
  std::string value;  // a value of the graph, or the logits
  std::string labels; // not empty: build the cross entropy
};
/// "NAME" or "cross_entropy(LOGITS, LABELS)".
Result<LossRequest> parseLoss(const std::string &text);

} // namespace kerf::frontend
