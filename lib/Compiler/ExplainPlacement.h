// SPDX-License-Identifier: Apache-2.0
// Explains plans of the search over placements, from the report that each of them stores.
#pragma once

#include "kerf/Compiler/ExplainJob.h"

namespace kerf {

/// Returns the report of the plan, of the operators that the request selects, or the differences of two plans. Fails
/// when a plan stores no report or no operator matches.
Result<Answer> explainPlacement(const ExplainRequest &request);

} // namespace kerf
