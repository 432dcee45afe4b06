// SPDX-License-Identifier: Apache-2.0
// The loss and the metrics of an imported ONNX graph, built from the values of its nodes.
#pragma once

#include "Common/LossRequest.h"
#include "Onnx/OnnxNode.h"

#include <functional>
#include <unordered_map>

namespace kerf::frontend {

/// The values of a graph, by name.
using GraphValues = std::unordered_map<std::string, GraphValue>;

/// Returns the loss that `asked` names: a scalar of the graph, or the mean cross entropy of logits and labels. `text`
/// is the loss as the user gave it, for messages. `addLabels` adds an input of the given shape for labels that the
/// graph does not have. Fails where a value has a type or shape that a loss cannot have.
Result<Term> buildLoss(TermBuilder &b, const LossRequest &asked, const std::string &text, const GraphValues &values,
                       const std::function<Term(const Shape &shape)> &addLabels);

/// Returns the metrics called `names`, as scalars of type `type`. `isArgument` says whether a name is that of an input
/// or a parameter, which cannot be a metric. Fails where a name is none of a tensor that a node computes.
Result<std::vector<mlir::Value>> buildMetrics(TermBuilder &b, const std::vector<std::string> &names, DType type,
                                              const GraphValues &values,
                                              const std::function<bool(const std::string &name)> &isArgument);

} // namespace kerf::frontend
