// SPDX-License-Identifier: Apache-2.0

// Gradient accumulation over several batches of one step, and learning rates per parameter group: the names that the
// compiler writes into a program and that the runtime looks for.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Name prefix of the optimizer states that hold a parameter's gradient summed over the batches of one step. The
/// runtime zeroes these states before the first batch of a step, and checkpoints leave them out.
inline constexpr std::string_view kAccumulatedPrefix = "accumulated_gradient/";
/// Returns true if `arg` is a state whose name begins with kAccumulatedPrefix, that is, a gradient accumulator.
inline bool isAccumulator(const Arg &arg) {
  return arg.kind == ArgKind::State && arg.name.starts_with(kAccumulatedPrefix);
}

/// Key of Program::info whose value is the number of batches in one optimizer step. In such a program, arguments of
/// kind `step` count batches instead of optimizer steps.
inline constexpr const char *kAccumulateKey = "accumulate";
/// Returns the number of batches in one optimizer step: Program::info["accumulate"], or 1 where the key is missing.
/// Fails if that value is no integer from 1 to 2^30, or if a program with more than one batch a step has no gradient
/// accumulators, or a program with one batch a step has some.
Result<int64_t> batchesOfStep(const Program &program);

/// Name of the argument of kind `learning_rate` that carries the learning-rate schedule's factor for the current step.
/// A program with parameter groups multiplies the base learning rate of each group by this factor.
inline constexpr const char *kRateFactorName = "learning_rate_factor";

} // namespace kerf::package
