// SPDX-License-Identifier: Apache-2.0
// Parts of a step: the instructions that some of the program's results depend on, in the step's order. A part uses the
// memory of the whole step, so it needs no program of its own.
#pragma once

#include "RankPlan.h"

namespace kerf::runtime {

/// The part of a step that computes some of the program's results.
struct StepPart {
  /// For each instruction of the flat program: whether it belongs to the part. A wait belongs to the part if the
  /// instruction that it waits for does.
  std::vector<bool> runs;
  std::vector<size_t> copies; // indices into BufferPlan::copies of the copies that belong to the part
  /// Indices of the arguments' buffers that instructions of the part overwrite although the part must not change those
  /// arguments. The caller must save their content before the part runs and restore it afterwards.
  std::vector<int> restoredBuffers;
};

/// Returns the part of a step that computes the results for which `wanted` is true, and that updates the arguments
/// which those results replace. `wanted` has one element for each result of the program.
StepPart partOf(const package::Program &program, const RankPlan &plan, const std::vector<bool> &wanted);

/// Returns, for each result of the program, whether an evaluation needs it: the loss and all other results that replace
/// no argument, except gradient norms.
std::vector<bool> evaluatedResults(const package::Program &program);
/// Returns, for each result of the program, whether gradient accumulation needs it for a batch that is not the last one
/// of its step: the loss, the accumulated gradients and the model's buffers.
std::vector<bool> accumulatedResults(const package::Program &program);

} // namespace kerf::runtime
