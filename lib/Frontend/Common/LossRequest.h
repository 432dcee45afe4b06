// SPDX-License-Identifier: Apache-2.0
// The loss that the user asked for with --loss, in the form that all importers take.
#pragma once

#include "kerf/Support/Result.h"

namespace kerf::frontend {

/// The requested loss: a value of the graph, or a cross entropy to build.
struct LossRequest {
  std::string value;  // name of the loss, or of the logits
  std::string labels; // name of the labels of a cross entropy; "": `value` is the loss
};
/// Parses "NAME" or "cross_entropy(LOGITS, LABELS)". Fails for another form.
Result<LossRequest> parseLoss(const std::string &text);

} // namespace kerf::frontend
