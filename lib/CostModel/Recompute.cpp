// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/Recompute.h"

#include <algorithm>

namespace kerf {

bool offloadsActivations(const LayerModes &modes) {
  return std::any_of(modes.begin(), modes.end(),
                     [](const RecomputeRun &run) { return run.mode == Recompute::Offload; });
}

std::vector<SegmentRun> segmentRuns(const Part &part, const LayerModes &modes) {
  std::vector<SegmentRun> runs;
  size_t next = 0;
  int64_t left = modes.empty() ? 0 : modes.front().layers; // layers of modes[next] that are not yet assigned
  for (const Segment &segment : part.segments) {
    if (!segment.recomputable) {
      runs.push_back({&segment, Recompute::None, segment.repeat});
      continue;
    }
    for (int64_t layers = segment.repeat; layers > 0;) {
      while (left == 0 && next < modes.size())
        left = ++next < modes.size() ? modes[next].layers : 0;
      bool listed = next < modes.size();
      int64_t here = listed ? std::min(layers, left) : layers;
      runs.push_back({&segment, listed ? modes[next].mode : Recompute::None, here});
      layers -= here;
      left -= listed ? here : 0;
    }
  }
  return runs;
}

} // namespace kerf
