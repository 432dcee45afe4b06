// SPDX-License-Identifier: Apache-2.0
// Helpers of the calls of reductions, which fused kernels use too.
#pragma once

#include "Calls.h"
#include "Kernels/ParametersColumns.h"
#include "kerf/Package/PtxReduction.h"

namespace kerf::runtime::cuda {

/// Returns the kind that the attributes of a `reduce` name.
Reduction kindOf(const nlohmann::ordered_json &attrs);
/// Returns the bytes of the partial results of all pieces.
int64_t bytesOfPartials(const package::ReducePlan &plan);
/// Returns the parameters of the kernels of ReduceRows.
ReduceRowsParameters reduceParameters(Reduction kind, const package::ReducePlan &plan, const void *x, void *y,
                                      void *partials);
/// Adds the call that combines partial results. `type` is the element type of the result.
void addCombination(Calls &calls, DType type, const ReduceRowsParameters &parameters);

} // namespace kerf::runtime::cuda
