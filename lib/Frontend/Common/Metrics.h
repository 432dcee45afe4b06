// SPDX-License-Identifier: Apache-2.0
// Metrics: scalars that a model returns besides its loss (ImportOptions::metrics).
#pragma once

#include "Common/TermBuilder.h"

namespace kerf::frontend {

/// Returns the metric `name`, whose `value` has one element, as a scalar of the floating-point `type`. A sum of
/// integers becomes a sum of floating-point numbers, which a step can add up over its microbatches. Fails when `value`
/// has several elements.
Result<mlir::Value> metricOf(TermBuilder &b, const std::string &name, const Term &value, DType type);

} // namespace kerf::frontend
