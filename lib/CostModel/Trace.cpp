// SPDX-License-Identifier: Apache-2.0
// Export of the timeline in the "Trace Event Format" (Google, 2016): complete events ("ph": "X") in microseconds, named
// processes and threads.
#include "kerf/CostModel/Simulator.h"
#include <nlohmann/json.hpp>
#include <set>

using namespace kerf;
using Json = nlohmann::ordered_json;

std::string kerf::chromeTrace(const Simulation &simulation) {
  Json events = Json::array();
  std::set<int64_t> stages;
  for (const TraceEvent &event : simulation.trace)
    stages.insert(event.stage);
  for (int64_t stage : stages) {
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", stage},
                      {"args", {{"name", "stage " + std::to_string(stage)}}}});
    for (int stream : {0, 1})
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", stage},
                        {"tid", stream},
                        {"args", {{"name", stream ? "communication" : "compute"}}}});
  }
  for (const TraceEvent &event : simulation.trace)
    events.push_back({{"ph", "X"},
                      {"name", event.name},
                      {"pid", event.stage},
                      {"tid", event.communication ? 1 : 0},
                      {"ts", event.start * 1e6},
                      {"dur", event.seconds * 1e6}});
  Json trace;
  trace["displayTimeUnit"] = "ms";
  trace["traceEvents"] = std::move(events);
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}
