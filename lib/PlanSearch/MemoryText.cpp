// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/MemoryText.h"
#include "kerf/Support/Units.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

const StageMemory &fullestStage(const Simulation &simulation) {
  return *std::max_element(simulation.memory.begin(), simulation.memory.end(),
                           [](const StageMemory &a, const StageMemory &b) { return a.deviceBytes < b.deviceBytes; });
}

std::string memoryText(const Simulation &simulation) {
  constexpr double kWorthSaying = 1e-3;
  const StageMemory &stage = fullestStage(simulation);
  const std::pair<const char *, double> parts[] = {
      {"weights", stage.weights},         {"gradients", stage.gradients},
      {"optimizer states", stage.states}, {"activations", stage.activations},
      {"workspace", stage.workspace},     {"allocator and driver", stage.deviceBytes - stage.peakBytes}};
  std::vector<std::string> texts;
  for (const auto &[name, bytes] : parts)
    if (bytes > kWorthSaying * stage.deviceBytes)
      texts.push_back(fmt::format("{} {}", name, bytesText(bytes)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

} // namespace kerf
