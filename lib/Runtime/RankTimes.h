// SPDX-License-Identifier: Apache-2.0
// What was measured on a rank, told by op, by collective and as a timeline.
#pragma once

#include "RankPlan.h"
#include <chrono>

namespace kerf::runtime {

struct Timer {
  int64_t calls = 0;
  double seconds = 0, waitSeconds = 0;
};

/// When an instruction ran the last time.
struct Ran {
  std::chrono::steady_clock::time_point start;
  double seconds = -1; // not yet
};

/// `timers`: of each origin. Kernels and collectives; steps and their seconds are the caller's.
TimeReport timeReport(const RankPlan &plan, const std::vector<Timer> &timers);
/// `ran`: of each instruction.
std::vector<Span> spansOf(const RankPlan &plan, const std::vector<Ran> &ran);
Overlap overlapOf(const RankPlan &plan, const std::vector<Ran> &ran);

} // namespace kerf::runtime
