// SPDX-License-Identifier: Apache-2.0
// Reports of the times that were measured on a rank: by op, by collective, and as a timeline.
#pragma once

#include "RankPlan.h"

namespace kerf::runtime {

/// Measured times of all instructions with the same origin (FlatInstruction::origin), summed over
/// steps and microbatches.
struct Timer {
  int64_t calls = 0;      // number of runs
  double seconds = 0;     // time from start to end
  double waitSeconds = 0; // time in which the compute stream was idle, waiting for the instruction
};

/// Times of one instruction in the last step in which it ran.
struct InstructionTimes {
  double start = 0;        // start, in seconds of the machine's steady clock
  double seconds = -1;     // duration; -1: the instruction has not run yet
  double waitStart = 0;    // when the compute stream began to wait for the instruction without a `wait` in the program
  double waitSeconds = -1; // duration of that wait; -1: there was no such wait
};

/// Returns the times of kernels and collectives from `timers`, which is indexed by origin. The caller adds the number
/// of steps and their seconds.
TimeReport timeReport(const RankPlan &plan, const std::vector<Timer> &timers);
/// Returns the timeline of the last step, by start time. `times` has one element for each instruction of
/// the flat program.
std::vector<Span> spansOf(const RankPlan &plan, const std::vector<InstructionTimes> &times);
/// Returns the communication time of the last step, and the part of it that was hidden behind computation.
OverlapTimes overlapOf(const RankPlan &plan, const std::vector<InstructionTimes> &times);

} // namespace kerf::runtime
