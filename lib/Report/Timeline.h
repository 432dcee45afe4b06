// SPDX-License-Identifier: Apache-2.0
// The part of a simulated step that a page can show: its beginning and its end, where the middle repeats itself, and so
// many stages as can be told apart.
//
//   0 |F0|F1|F2|B0|F3|B1|  ...  |F31|B29|B30|B31|  reduce  optimizer
//   1 |  |F0|F1|F2|B0|F3|  ...                                      [0, begin] and [end, last] of the step's seconds
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

struct TimelineView {
  double last = 0;           // seconds at which the last event ends
  double begin = 0, end = 0; // what is between these is left out; begin == end == last: nothing is
  int64_t hidden = 0;        // microbatches of which no forward is shown
  std::vector<int64_t> stages;
  std::vector<TraceEvent> events; // of these stages and times, in the trace's order
};

/// `simulation` has a trace.
TimelineView timelineView(const Simulation &simulation);

/// One row a stage: compute, beneath it communication.
std::string timelineHtml(const TimelineView &view, const Simulation &simulation);
/// One row a stage, on the same scale of time: what the device must have, and its limit.
std::string memoryOverTimeHtml(const TimelineView &view, const Simulation &simulation);

} // namespace kerf
