// SPDX-License-Identifier: Apache-2.0

// Timeline of a simulated step for the HTML report. Long steps are shortened: the beginning and the end are shown, and
// the repetitive middle and, of many stages, some are left out. Internal to the Report library.
//
//   0 |F0|F1|F2|B0|F3|B1|  ...  |F31|B29|B30|B31|  reduce  optimizer
//   1 |  |F0|F1|F2|B0|F3|  ...                       shown: [0, gapBegin] and [gapEnd, endSeconds] of the step
#pragma once

#include "kerf/CostModel/Simulator.h"

namespace kerf {

/// The part of a simulated step that a timeline shows. Times are seconds since the beginning of the step.
struct TimelineView {
  double endSeconds = 0;           // end of the last event
  double gapBegin = 0, gapEnd = 0; // interval that is left out; both equal endSeconds if nothing is left out
  int64_t hiddenMicrobatches = 0;  // number of microbatches of which no forward task is shown
  std::vector<int64_t> stages;     // pipeline stages that are shown
  std::vector<TraceEvent> events;  // events of these stages outside of the gap, in the order of the trace
};

/// Chooses what a timeline shows. `simulation` must have a trace.
TimelineView timelineView(const Simulation &simulation);

/// Returns an SVG drawing with one row for each stage: compute, and communication beneath.
std::string timelineHtml(const TimelineView &view, const Simulation &simulation);
/// Returns an SVG drawing of each stage's device memory over the same time axis, with the device's limit.
std::string memoryOverTimeHtml(const TimelineView &view, const Simulation &simulation);

} // namespace kerf
