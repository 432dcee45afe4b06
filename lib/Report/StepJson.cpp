// SPDX-License-Identifier: Apache-2.0
// The report of a simulated plan as JSON. docs/interface.md lists the keys.
#include "Timeline.h"
#include "Topology.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/StepReport.h"
#include "kerf/Report/StepText.h"

#include <algorithm>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

Json byAxis(const std::map<std::string, double> &secondsByAxis) {
  Json object = Json::object();
  for (const auto &[axis, seconds] : secondsByAxis)
    object[axis] = seconds;
  return object;
}

Json breakdownJson(const Breakdown &b) {
  return {{"forward", b.forward},
          {"backward", b.backward},
          {"recompute", b.recompute},
          {"optimizer", b.optimizer},
          {"collectives", byAxis(b.collectives)},
          {"exposed", byAxis(b.exposed)},
          {"bubble", b.bubble}};
}

Json pairOf(const Interval &interval) { return {interval.low, interval.high}; }
Json bytesOf(const std::vector<Interval> &intervals) {
  Json list = Json::array();
  for (const Interval &one : intervals)
    list.push_back({static_cast<int64_t>(one.low), static_cast<int64_t>(one.high)});
  return list;
}

/// Returns the 80 % intervals, and by how much of the step's seconds each kind of work makes them uncertain.
Json intervalJson(const Uncertainty &uncertainty) {
  Json kinds = Json::object();
  for (size_t k = 0; k < kWorkKinds; ++k)
    kinds[std::string(toString(static_cast<WorkKind>(k)))] = uncertainty.changes[k];
  return {{"step_seconds", pairOf(uncertainty.stepSeconds)},
          {"peak_bytes", bytesOf(uncertainty.peakBytes)},
          {"device_bytes", bytesOf(uncertainty.deviceBytes)},
          {"by_kind", std::move(kinds)}};
}

Json memoryJson(const StageMemory &memory) {
  Json largest = Json::object();
  for (const auto &[name, bytes] : memory.largest)
    largest[name] = static_cast<int64_t>(bytes);
  return {{"weights", static_cast<int64_t>(memory.weights)},
          {"gradients", static_cast<int64_t>(memory.gradients)},
          {"states", static_cast<int64_t>(memory.states)},
          {"activations", static_cast<int64_t>(memory.activations)},
          {"workspace", static_cast<int64_t>(memory.workspace)},
          {"reserved_bytes", static_cast<int64_t>(memory.reservedBytes)},
          {"device_bytes", static_cast<int64_t>(memory.deviceBytes)},
          {"limit_bytes", static_cast<int64_t>(memory.limitBytes)},
          {"moment", memory.moment},
          {"largest", largest}};
}

Json timelineJson(const TimelineView &view) {
  Json events = Json::array();
  for (const TraceEvent &event : view.events) {
    Json one = {{"stage", event.stage},
                {"stream", event.communication ? "communication" : "compute"},
                {"name", event.name},
                {"start", event.start},
                {"seconds", event.seconds}};
    if (event.task) {
      one["recompute"] = event.recompute;
      one["waiting"] = event.waiting;
      one["device_bytes"] = static_cast<int64_t>(event.bytesDuring);
      one["device_bytes_after"] = static_cast<int64_t>(event.bytesAfter);
    }
    events.push_back(std::move(one));
  }
  return {{"seconds", view.endSeconds},
          {"left_out", {{"from", view.gapBegin}, {"to", view.gapEnd}, {"microbatches", view.hiddenMicrobatches}}},
          {"stages", view.stages},
          {"events", std::move(events)}};
}

Json alternativeJson(const FoundPlan &other, const Simulation &best) {
  Json loses = Json::array();
  for (const auto &[part, seconds] : differences(other.simulation.breakdown, best.breakdown))
    loses.push_back({{"part", part}, {"seconds", seconds}});
  double most = 0;
  for (const StageMemory &memory : other.simulation.memory)
    most = std::max(most, memory.deviceBytes);
  return {{"plan_text", planText(other.plan)},
          {"step_seconds", other.simulation.stepSeconds},
          {"slower", other.simulation.stepSeconds / best.stepSeconds - 1},
          {"device_bytes", static_cast<int64_t>(most)},
          {"ranks", other.plan.mesh().ranks()},
          {"tie",
           best.uncertainty && other.simulation.uncertainty && isTie(*best.uncertainty, *other.simulation.uncertainty)},
          {"breakdown", breakdownJson(other.simulation.breakdown)},
          {"differences", std::move(loses)},
          {"plan", Json::parse(toJson(other.plan))}};
}

} // namespace

Json toJson(const Simulation &s) {
  Json root, peak = Json::array(), stages = Json::array();
  for (const StageMemory &memory : s.memory) {
    peak.push_back(static_cast<int64_t>(memory.peakBytes));
    stages.push_back(memoryJson(memory));
  }
  root["step_seconds"] = s.stepSeconds;
  root["peak_bytes"] = peak;
  root["fits"] = s.fits;
  root["breakdown"] = breakdownJson(s.breakdown);
  root["tokens_per_second"] = s.tokensPerSecond;
  root["model_flops_utilization"] = s.modelFlopsUtilization;
  root["memory"] = stages;
  if (s.uncertainty)
    root["interval"] = intervalJson(*s.uncertainty);
  return root;
}

Json toJson(const StepReport &report) {
  Json root = {{"model", report.model},
               {"cluster", report.cluster.name},
               {"cluster_ranks", report.cluster.ranks()},
               {"ranks", report.mesh.ranks()},
               {"plan_text", planText(report.plan)}};
  root.update(toJson(report.simulation));
  root["model_flops"] = report.modelFlops;
  if (report.lowerBoundSeconds) {
    root["lower_bound_seconds"] = *report.lowerBoundSeconds;
    root["outside"] = report.outside;
    root["gap"] = optimalityGap(report.simulation.stepSeconds, *report.lowerBoundSeconds);
    root["search"] = {{"choices", report.statistics.choices},
                      {"simulated", report.statistics.simulated},
                      {"layouts", report.statistics.layouts}};
  }
  root["mesh"] = Json::array();
  for (const AxisPlacement &place : axisPlacements(report.mesh, report.cluster))
    root["mesh"].push_back({{"axis", place.name},
                            {"size", place.size},
                            {"distance", place.distance},
                            {"nodes", place.nodes},
                            {"links", place.links}});
  root["segments"] = Json::array();
  for (const auto &[name, count] : report.segments)
    root["segments"].push_back({{"name", name}, {"count", count}});
  root["operators"] = Json::array();
  for (const KernelRow &row : report.kernels)
    root["operators"].push_back({{"segment", row.segment},
                                 {"name", row.name},
                                 {"pass", row.pass},
                                 {"cuts", row.cuts},
                                 {"stages", row.stages},
                                 {"calls", row.calls},
                                 {"seconds", row.seconds}});
  root["collectives"] = Json::array();
  for (const CollectiveRow &row : report.collectives)
    root["collectives"].push_back({{"kind", row.kind},
                                   {"axes", row.axes},
                                   {"cause", row.cause},
                                   {"pass", row.pass},
                                   {"stages", row.stages},
                                   {"calls", row.calls},
                                   {"bytes", static_cast<int64_t>(row.bytes)},
                                   {"seconds", row.seconds}});
  root["timeline"] = timelineJson(timelineView(report.simulation));
  root["alternatives"] = Json::array();
  for (const FoundPlan &other : report.others)
    root["alternatives"].push_back(alternativeJson(other, report.simulation));
  if (!report.pareto.empty())
    root["pareto"] = toJson(report.pareto, report.cluster.pricePerHour);
  root["warnings"] = report.warnings;
  root["plan"] = Json::parse(toJson(report.plan));
  return root;
}

} // namespace kerf
