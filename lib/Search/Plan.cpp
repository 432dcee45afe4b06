// SPDX-License-Identifier: Apache-2.0
// Queries of plans: axes, stages, layers, and decisions that cannot be lowered.
#include "kerf/Search/Plan.h"
#include "kerf/Schedule/Schedule.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>

namespace kerf {

int planAxis(std::string_view name) {
  auto found = std::find(std::begin(kPlanAxes), std::end(kPlanAxes), name);
  return found == std::end(kPlanAxes) ? -1 : static_cast<int>(found - std::begin(kPlanAxes));
}

/// Returns both ends of a range such as "4-7"; nothing when the text is no range.
static std::optional<std::pair<int64_t, int64_t>> numbersOf(const std::string &pattern) {
  size_t dash = pattern.find('-');
  if (dash == std::string::npos)
    return std::nullopt;
  std::pair<int64_t, int64_t> ends;
  const char *text = pattern.data(), *end = text + pattern.size();
  auto first = std::from_chars(text, text + dash, ends.first);
  auto last = std::from_chars(text + dash + 1, end, ends.second);
  if (first.ec != std::errc() || last.ec != std::errc() || first.ptr != text + dash || last.ptr != end)
    return std::nullopt;
  return ends;
}

Result<std::vector<std::string>> stageCuts(const Plan &plan, const std::string &where) {
  std::vector<std::string> cuts;
  if (std::all_of(plan.stages.begin(), plan.stages.end(), [](auto &run) { return run.until.empty(); }))
    return cuts;
  auto wrong = [&](const std::string &message) { return Error{fmt::format("{}: stages: {}", where, message)}; };
  int64_t stages = plan.meshSizes.contains("stage") ? plan.meshSizes.at("stage") : 1;
  int64_t chunks = plan.schedule.chunks ? plan.schedule.chunks : defaultChunkCount(plan.schedule.name);
  if (static_cast<int64_t>(plan.stages.size()) != stages * chunks)
    return wrong(fmt::format("there are {} entries for {} stages of {} chunks; give one entry for each chunk",
                             plan.stages.size(), stages, chunks));
  std::map<int64_t, const StageLayers *> byPart;
  for (const StageLayers &run : plan.stages) {
    if (run.stage >= stages || run.chunk >= chunks)
      return wrong(fmt::format("there is no chunk {1} of stage {0}; the plan has {2} stages of {3} chunks", run.stage,
                               run.chunk, stages, chunks));
    if (!byPart.try_emplace(run.chunk * stages + run.stage, &run).second)
      return wrong(fmt::format("chunk {} of stage {} is given twice; leave one entry", run.chunk, run.stage));
  }
  for (const auto &[part, run] : byPart) {
    bool last = part == stages * chunks - 1;
    if (run->until.empty() != last)
      return wrong(fmt::format("chunk {} of stage {} {}", run->chunk, run->stage,
                               last ? "is the last part, which holds all remaining ops; leave its \"until\" out"
                                    : "has no \"until\"; only the last part may leave it out"));
    if (!last)
      cuts.push_back(run->until);
  }
  return cuts;
}

bool matchesLayer(const std::string &pattern, int64_t number, const std::string &name) {
  if (auto numbers = numbersOf(pattern))
    return numbers->first <= number && number <= numbers->second;
  return globMatch(pattern, std::to_string(number)) || (!name.empty() && globMatch(pattern, name));
}

Recompute recomputeModeOf(const Plan &plan, int64_t stage, int64_t number, const std::string &name) {
  for (const LayerRecompute &layers : plan.recomputeLayers)
    if (matchesLayer(layers.pattern, number, name))
      return layers.mode;
  if (plan.recompute.empty())
    return Recompute::None;
  return plan.recompute.size() == 1 ? plan.recompute.front() : plan.recompute[stage];
}

Mesh Plan::mesh() const {
  std::vector<std::string> names = order;
  for (const char *axis : kPlanAxes)
    if (std::find(names.begin(), names.end(), axis) == names.end())
      names.push_back(axis);
  for (const auto &[axis, size] : meshSizes)
    if (std::find(names.begin(), names.end(), axis) == names.end())
      names.push_back(axis);
  Mesh mesh;
  for (const std::string &name : names)
    if (auto found = meshSizes.find(name); found != meshSizes.end() && found->second > 1)
      mesh.axes.push_back({name, found->second});
  return mesh;
}

Status checkLowerable(const Plan &plan, const std::string &where) {
  const char *remedy = "give the plan with <plan>, without ops that a search chose (docs/plan.md)";
  for (const auto &[axis, size] : plan.meshSizes)
    if (size > 1 && (axis == "stage" || axis == "context" || axis == "expert"))
      return Error{
          fmt::format("{}: mesh.{} is {}; the search of operators' strategies only uses \"data\" and \"model\"; {}",
                      where, axis, size, remedy)};
  auto all = [](const auto &values, const auto &off) {
    return std::all_of(values.begin(), values.end(), [&](const auto &value) { return value == off; });
  };
  const struct {
    bool asked;
    const char *key;
  } table[] = {
      {!all(plan.recompute, Recompute::None) || !plan.recomputeLayers.empty() || !plan.recomputeOps.empty(),
       "recompute"},
      {!all(plan.optimizerSharding, int64_t{0}), "optimizer_sharding"},
      {plan.optimizerShardingRanks > 1, "optimizer_sharding_ranks"},
      {!all(plan.sequenceParallel, false), "sequence_parallel"},
      {plan.layout == OpLayout::Solved, "layout"},
      {plan.stages.size() > 1, "stages"},
      {plan.schedule.chunks > 1, "schedule.chunks"},
      {plan.optimizerStates.value_or(OptimizerStates::Device) != OptimizerStates::Device, "optimizer_states"},
      {plan.attention == AttentionKernels::Unfused, "attention"},
  };
  for (const auto &row : table)
    if (row.asked)
      return Error{fmt::format("{}: {}: the search of operators' strategies cannot apply this decision; {}", where,
                               row.key, remedy)};
  int64_t data = plan.meshSizes.contains("data") ? plan.meshSizes.at("data") : 1;
  if (plan.microbatch && plan.globalBatch && plan.microbatch < (plan.globalBatch + data - 1) / data)
    return Error{fmt::format("{}: microbatch {} is less than the {} samples of a model replica ({} / {}); {}", where,
                             plan.microbatch, (plan.globalBatch + data - 1) / data, plan.globalBatch, data, remedy)};
  return ok();
}

} // namespace kerf
