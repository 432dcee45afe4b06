// SPDX-License-Identifier: Apache-2.0
#include "kerf/Report/StepReport.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace kerf {

namespace {

std::string keyOf(const KernelOfStep &kernel) {
  return fmt::format("{}\n{}\n{}\n{}", kernel.segment, kernel.pass, kernel.name, kernel.cuts);
}
std::string keyOf(const CollectiveOfStep &one) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", one.kind, one.axes, one.pass, one.cause, one.bytes);
}

/// Merges the kernels or collectives of all stages into rows, so that a pipeline of 64 stages needs one row for each.
/// Repetitions on one stage (on several chunks) are added up; of several stages, the slowest stage's figures count.
template <typename Row, typename Part> std::vector<Row> rowsOf(const std::vector<std::vector<Part>> &byStage) {
  std::vector<Row> rows;
  std::map<std::string, size_t> index;
  for (size_t stage = 0; stage < byStage.size(); ++stage) {
    std::vector<Row> here;
    std::map<std::string, size_t> hereIndex;
    for (const Part &part : byStage[stage]) {
      auto [it, isNew] = hereIndex.try_emplace(keyOf(part), here.size());
      if (isNew) {
        here.push_back(Row{part, {static_cast<int64_t>(stage)}});
        continue;
      }
      here[it->second].calls += part.calls;
      here[it->second].seconds += part.seconds;
    }
    for (Row &row : here) {
      auto [it, isNew] = index.try_emplace(keyOf(row), rows.size());
      if (isNew) {
        rows.push_back(std::move(row));
        continue;
      }
      Row &all = rows[it->second];
      all.stages.push_back(static_cast<int64_t>(stage));
      if (row.seconds > all.seconds) {
        all.calls = row.calls;
        all.seconds = row.seconds;
      }
    }
  }
  return rows;
}

/// Returns the segments in the order of the model (chunk by chunk, stage by stage), each with its number
/// of repetitions.
std::vector<std::pair<std::string, int64_t>> segmentsOf(const StepWork &work) {
  std::vector<std::pair<std::string, int64_t>> segments;
  for (size_t chunk = 0; chunk < work.part.front().size(); ++chunk)
    for (const std::vector<int> &parts : work.part)
      for (const Segment &segment : work.parts[parts[chunk]].segments) {
        auto same = std::find_if(segments.begin(), segments.end(),
                                 [&](const auto &known) { return known.first == segment.name; });
        if (same == segments.end())
          segments.emplace_back(segment.name, segment.repeat);
        else
          same->second += segment.repeat;
      }
  return segments;
}

/// Returns the prefix of the names of a repeated segment's kernels up to the layer number: "transformer.h.0" for
/// "transformer.h.0.attn/attention". Returns "" if the names have no common prefix of this form.
std::string layerPrefix(const std::vector<KernelRow> &rows, const std::string &segment) {
  std::string prefix;
  for (const KernelRow &row : rows) {
    if (row.segment != segment || row.name.find('/') == std::string::npos)
      continue;
    size_t end = std::string::npos;
    for (size_t dot = row.name.find('.'); dot != std::string::npos && end == std::string::npos;
         dot = row.name.find('.', dot + 1)) {
      size_t after = row.name.find_first_not_of("0123456789", dot + 1);
      if (after != std::string::npos && after > dot + 1 && (row.name[after] == '.' || row.name[after] == '/'))
        end = after;
    }
    std::string its = end == std::string::npos ? "" : row.name.substr(0, end);
    if (its.empty() || (!prefix.empty() && its != prefix))
      return "";
    prefix = std::move(its);
  }
  return prefix;
}

/// Replaces layer numbers by stars in names, because a row stands for all layers of a segment: "transformer.h.*.attn".
void starLayers(StepReport &report) {
  for (const auto &[segment, count] : report.segments) {
    std::string prefix = layerPrefix(report.kernels, segment);
    if (count == 1 || prefix.empty())
      continue;
    std::string starred = prefix.substr(0, prefix.rfind('.')) + ".*";
    auto star = [&](std::string &text) {
      size_t at = text.find(prefix);
      if (at != std::string::npos && text.find_first_of("./", at + prefix.size()) == at + prefix.size())
        text.replace(at, prefix.size(), starred);
    };
    for (KernelRow &row : report.kernels)
      star(row.name);
    for (CollectiveRow &row : report.collectives)
      star(row.cause);
    for (StageMemory &memory : report.simulation.memory)
      for (auto &[name, bytes] : memory.largest)
        star(name);
  }
}

/// Returns why a collective is needed. The simulator names collectives between operators "all_gather of X"; the cause
/// says what about X makes the collective necessary.
std::string causeOf(const CollectiveOfStep &one) {
  std::string named = one.kind + " of ";
  if (!one.cause.starts_with(named))
    return one.cause;
  std::string of = one.cause.substr(named.size());
  if (one.kind == toString(Collective::AllReduce) || one.kind == toString(Collective::ReduceScatter))
    return of + " leaves partial sums";
  return of + (one.kind == toString(Collective::AllGather) ? " is sharded, but needed in full"
                                                           : " is needed on other ranks");
}

} // namespace

StepReport stepReport(std::string model, const Cluster &cluster, Plan plan, const StepWork &work, const StepPlan &step,
                      const PipelineModel &pipeline, Simulation simulation) {
  StepReport report;
  report.model = std::move(model);
  report.cluster = cluster;
  report.plan = std::move(plan);
  report.mesh = pipeline.mesh();
  report.microbatches = step.schedule.microbatches;
  report.modelFlops = work.modelFlops;
  report.simulation = std::move(simulation);
  report.segments = segmentsOf(work);
  std::vector<std::vector<KernelOfStep>> kernels;
  std::vector<std::vector<CollectiveOfStep>> collectives;
  for (int64_t stage = 0; stage < step.schedule.stages; ++stage) {
    PartsOfStep parts = partsOfStep(work, step, pipeline, stage);
    kernels.push_back(std::move(parts.kernels));
    collectives.push_back(std::move(parts.collectives));
  }
  report.kernels = rowsOf<KernelRow>(kernels);
  report.collectives = rowsOf<CollectiveRow>(collectives);
  for (CollectiveRow &row : report.collectives)
    row.cause = causeOf(row);
  starLayers(report);
  std::stable_sort(report.collectives.begin(), report.collectives.end(),
                   [](const auto &a, const auto &b) { return a.seconds > b.seconds; });
  return report;
}

std::vector<std::pair<std::string, double>> differences(const Breakdown &one, const Breakdown &baseline) {
  std::vector<std::pair<std::string, double>> all = {{"forward", one.forward - baseline.forward},
                                                     {"backward", one.backward - baseline.backward},
                                                     {"recomputation", one.recompute - baseline.recompute},
                                                     {"optimizer", one.optimizer - baseline.optimizer},
                                                     {"bubble", one.bubble - baseline.bubble}};
  std::map<std::string, double> exposed = one.exposed;
  for (const auto &[axis, seconds] : baseline.exposed)
    exposed[axis] -= seconds;
  for (const auto &[axis, seconds] : exposed)
    all.emplace_back("waiting for " + axis, seconds);
  std::erase_if(all, [](const auto &part) { return part.second == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const auto &a, const auto &b) { return std::abs(a.second) > std::abs(b.second); });
  return all;
}

} // namespace kerf
