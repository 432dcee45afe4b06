// SPDX-License-Identifier: Apache-2.0
// Metrics: scalars that a model returns beside its loss (ImportOptions::metrics).
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// Returns the metric `name`, a value of one element, as a scalar of `type`. An integer that is a sum of integers
/// becomes a sum of floating numbers: a step sums these over its microbatches.
Result<mlir::Value> metricOf(TermBuilder &b, const std::string &name, const Term &value, DType type);

} // namespace kerf::frontend
