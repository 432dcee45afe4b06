// SPDX-License-Identifier: Apache-2.0
#include "Rows.h"
#include "kerf/Report/Report.h"
#include "kerf/Report/StepReport.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

std::string stagesText(const std::vector<int64_t> &stages, int64_t count) {
  if (static_cast<int64_t>(stages.size()) == count)
    return "all";
  std::vector<std::string> runs;
  for (size_t first = 0; first < stages.size();) {
    size_t last = first;
    while (last + 1 < stages.size() && stages[last + 1] == stages[last] + 1)
      ++last;
    runs.push_back(last == first ? fmt::format("{}", stages[first])
                                 : fmt::format("{}-{}", stages[first], stages[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

std::string lossText(const Simulation &other, const Simulation &best) {
  constexpr double kWorthSaying = 1e-3; // smallest difference, as a share of the step, that is listed
  constexpr size_t kMost = 3;           // most parts listed as slower, and as faster
  std::vector<std::string> slower, faster;
  for (const auto &[part, seconds] : differences(other.breakdown, best.breakdown)) {
    if (std::abs(seconds) < kWorthSaying * best.stepSeconds)
      continue;
    std::vector<std::string> &side = seconds > 0 ? slower : faster;
    if (side.size() < kMost)
      side.push_back(fmt::format("{} {}", part, secondsText(std::abs(seconds))));
  }
  std::string text;
  if (!slower.empty())
    text = fmt::format("slower in: {}", fmt::join(slower, ", "));
  if (!faster.empty())
    text += fmt::format("{}faster in: {}", text.empty() ? "" : "; ", fmt::join(faster, ", "));
  return text.empty() ? "no part differs by more than 0.1 %" : text;
}

} // namespace kerf
