// SPDX-License-Identifier: Apache-2.0
// Parts of a step: the instructions that some of its results need, in the step's order. The same memory serves a part
// and the whole step, so a part needs no program of its own.
#pragma once

#include "RankPlan.h"

namespace kerf::runtime {

struct StepPart {
  /// Of each instruction of the flat program; waits follow what they wait for.
  std::vector<bool> runs;
  std::vector<size_t> copies; // indices into BufferPlan::copies
  /// Buffers of arguments that instructions of the part write although the part must not change them: their content is
  /// to be put back afterwards.
  std::vector<int> putBack;
};

/// The part of a step that computes the results `wanted` (one flag for each result of the program), and replaces the
/// arguments that they update.
StepPart partOf(const package::Program &program, const RankPlan &plan, const std::vector<bool> &wanted);

/// What an evaluation wants: the loss and all other results that replace no argument.
std::vector<bool> evaluatedResults(const package::Program &program);
/// What a batch that is not the last one of its step wants: the loss, sums of gradients, buffers.
std::vector<bool> accumulatedResults(const package::Program &program);

} // namespace kerf::runtime
