// SPDX-License-Identifier: Apache-2.0
// Names that compiler and runtime share for steps that are made of several batches, and for parameters with a learning
// rate of their own.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// A state of this prefix sums up the gradients of a parameter over the batches of one step. The runtime sets it to
/// zero before the first batch; checkpoints leave it out.
inline constexpr std::string_view kAccumulatedPrefix = "accumulated_gradient/";
inline bool isAccumulator(const Arg &arg) {
  return arg.kind == ArgKind::State && arg.name.starts_with(kAccumulatedPrefix);
}

/// Program::info["accumulate"]: batches of one step. Program arguments of kind `step` count batches, not steps.
inline constexpr const char *kAccumulateKey = "accumulate";
/// Fails where the number and the accumulators of the program do not belong together.
Result<int64_t> batchesOfStep(const Program &program);

/// An argument of kind `learning_rate` with this name is what the schedule multiplies learning rates by.
inline constexpr const char *kRateFactorName = "learning_rate_factor";

} // namespace kerf::package
