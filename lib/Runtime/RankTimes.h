// SPDX-License-Identifier: Apache-2.0
// What was measured on a rank, told by op, by collective and as a timeline.
#pragma once

#include "RankPlan.h"

namespace kerf::runtime {

struct Timer {
  int64_t calls = 0;
  double seconds = 0, waitSeconds = 0;
};

/// When an instruction ran the last time, and when the compute stream stood still for it without a `wait` of the
/// program.
struct Ran {
  double start = 0, seconds = -1;         // by the machine's steady clock; -1: not yet
  double waitStart = 0, waitSeconds = -1; // -1: it did not
};

/// `timers`: of each origin. Kernels and collectives; steps and their seconds are the caller's.
TimeReport timeReport(const RankPlan &plan, const std::vector<Timer> &timers);
/// `ran`: of each instruction.
std::vector<Span> spansOf(const RankPlan &plan, const std::vector<Ran> &ran);
Overlap overlapOf(const RankPlan &plan, const std::vector<Ran> &ran);

} // namespace kerf::runtime
