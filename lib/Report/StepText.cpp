// SPDX-License-Identifier: Apache-2.0
#include "kerf/Report/StepText.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/PlanSearch/OutsideSpace.h"
#include "kerf/Report/Report.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf {

namespace {

/// Returns the numbers of layers of the stages or chunks: "12 12 11 by stage", or "12 per stage" if all are equal.
std::string layersText(const Plan &plan) {
  std::vector<int64_t> counts;
  for (const StageLayers &run : plan.stages)
    counts.push_back(run.layers ? run.layers->second - run.layers->first + 1 : 0);
  if (counts.empty())
    return "evenly, or in proportion to the FLOP/s of the stages' devices where these differ";
  bool alike = std::all_of(counts.begin(), counts.end(), [&](int64_t count) { return count == counts.front(); });
  const char *what = plan.schedule.chunks > 1 ? "chunk" : "stage";
  return alike ? fmt::format("{} per {}", counts.front(), what) : fmt::format("{} by {}", fmt::join(counts, " "), what);
}

template <typename T> std::string valuesText(const std::vector<T> &values) {
  bool alike = std::all_of(values.begin(), values.end(), [&](const T &value) { return value == values.front(); });
  return values.empty() ? "" : alike ? fmt::format("{}", values.front()) : fmt::format("{}", fmt::join(values, " "));
}

constexpr double kLeastToTell = 0.01; // smallest change of a step by one kind of work that the text names
constexpr size_t kMostPatterns = 6;   // most patterns of layers in a line

/// Returns the ops that differ from their layer's recomputation: " but keeps *.attention; recomputes *.gelu".
std::string recomputedOpsText(const Plan &plan) {
  std::vector<std::string> kept, again;
  for (const OpRecompute &op : plan.recomputeOps)
    (op.recompute ? again : kept).push_back(op.pattern);
  std::string text;
  if (!kept.empty())
    text = fmt::format(" but keeps {}", fmt::join(kept, " "));
  if (!again.empty())
    text += fmt::format("{} recomputes {}", kept.empty() ? " but" : ";", fmt::join(again, " "));
  return text;
}

/// Returns the plan's recomputation: "full", "none full full none" by stage, or "full in layers 0-2 8-10; selective in
/// 3-7", followed by single ops.
std::string recomputeText(const Plan &plan) {
  std::string ops = recomputedOpsText(plan);
  if (plan.recomputeLayers.empty()) {
    std::vector<std::string_view> words;
    for (Recompute mode : plan.recompute)
      words.push_back(toString(mode));
    return valuesText(words) + ops;
  }
  std::string text;
  for (Recompute mode :
       {Recompute::Full, Recompute::ExceptAttention, Recompute::Pointwise, Recompute::Selective, Recompute::Offload}) {
    std::vector<std::string> patterns;
    for (const LayerRecompute &rule : plan.recomputeLayers)
      if (rule.mode == mode)
        patterns.push_back(rule.pattern);
    if (patterns.empty())
      continue;
    bool more = patterns.size() > kMostPatterns;
    patterns.resize(std::min(patterns.size(), kMostPatterns));
    text += fmt::format("{}{} in {}{}{}", text.empty() ? "" : "; ", toString(mode), text.empty() ? "layers " : "",
                        fmt::join(patterns, " "), more ? " ..." : "");
  }
  return (text.empty() ? "none" : text) + ops;
}

} // namespace

/// Returns the line with the interval of the step, and the kind of work that contributes most to it.
static std::string intervalText(const Uncertainty &its) {
  size_t most = 0;
  for (size_t k = 1; k < kWorkKinds; ++k)
    if (std::abs(its.changes[k]) > std::abs(its.changes[most]))
      most = k;
  std::string text =
      fmt::format("  interval     {:.4g} to {:.4g} s in 80 % of cases", its.stepSeconds.low, its.stepSeconds.high);
  if (std::abs(its.changes[most]) > kLeastToTell)
    text += fmt::format("; the most uncertain part: {}", toString(static_cast<WorkKind>(most)));
  return text + "\n";
}

std::string toText(const Simulation &s, int64_t ranks, const std::string &cluster) {
  const Breakdown &b = s.breakdown;
  std::string text = fmt::format("{} ranks of {}\n", ranks, cluster);
  text += fmt::format("  step         {:.4g} s, {:.4g} tokens/s, {:.1f} % model FLOPs utilization\n", s.stepSeconds,
                      s.tokensPerSecond, 100 * s.modelFlopsUtilization);
  if (s.uncertainty)
    text += intervalText(*s.uncertainty);
  text += fmt::format("  compute      forward {:.4g} s, backward {:.4g} s, recomputed {:.4g} s, optimizer {:.4g} s\n",
                      b.forward, b.backward, b.recompute, b.optimizer);
  for (const auto &[axis, seconds] : b.collectives) {
    auto exposed = b.exposed.find(axis);
    text += fmt::format("  collectives  {}: {:.4g} s, {:.4g} s exposed\n", axis, seconds,
                        exposed == b.exposed.end() ? 0.0 : exposed->second);
  }
  text += fmt::format("  bubble       {:.4g} s\n", b.bubble);
  const StageMemory *most = &s.memory.front();
  size_t stage = 0;
  for (size_t i = 0; i < s.memory.size(); ++i)
    if (s.memory[i].deviceBytes / s.memory[i].limitBytes > most->deviceBytes / most->limitBytes) {
      most = &s.memory[i];
      stage = i;
    }
  text += fmt::format("  memory       {} allocated, {} on the device, of {}: {}\n", bytesText(most->peakBytes),
                      bytesText(most->deviceBytes), bytesText(most->limitBytes), s.fits ? "fits" : "does not fit");
  if (s.uncertainty && s.uncertainty->deviceBytes[stage].high > s.uncertainty->deviceBytes[stage].low)
    text += fmt::format("               {} to {} on the device in 80 % of cases\n",
                        bytesText(s.uncertainty->deviceBytes[stage].low),
                        bytesText(s.uncertainty->deviceBytes[stage].high));
  text += fmt::format("               peak on stage {}, in the {}\n", stage, most->moment);
  for (const auto &[name, bytes] : most->largest)
    text += fmt::format("               {:>14}  {}\n", bytesText(bytes), name);
  return text;
}

/// Returns the plan's optimizer sharding: "3", "3 over 8 ranks", or "1, states host".
static std::string shardingText(const Plan &plan) {
  std::string text = valuesText(plan.optimizerSharding);
  if (plan.optimizerShardingRanks)
    text += fmt::format(" over {} ranks", plan.optimizerShardingRanks);
  bool full = plan.optimizerStates.value_or(OptimizerStates::Device) == OptimizerStates::Device;
  return full ? text : fmt::format("{}, states {}", text, toString(*plan.optimizerStates));
}

/// Returns the plan's mesh, followed by the meshes of stages that differ: "stage 2 x data 4 x model 2; stage 1:
/// data 8".
static std::string meshesText(const Plan &plan) {
  std::string text = meshText(plan.mesh());
  std::set<int64_t> told;
  for (const StageLayers &run : plan.stages) {
    Mesh mesh;
    for (const MeshAxis &axis : planOfStage(plan, run.stage).mesh().axes)
      if (axis.name != "stage")
        mesh.axes.push_back(axis);
    if (!run.mesh.empty() && told.insert(run.stage).second)
      text += fmt::format("; stage {}: {}", run.stage, meshText(mesh));
  }
  return text;
}

std::string planText(const Plan &plan) {
  std::string text =
      fmt::format("{}, {}, microbatch {}", meshesText(plan),
                  scheduleText(plan.schedule.name, plan.schedule.variant, plan.schedule.chunks), plan.microbatch);
  if (plan.recompute != std::vector<Recompute>{Recompute::None})
    text += fmt::format(", recompute {}", recomputeText(plan));
  if (plan.optimizerSharding != std::vector<int64_t>{0})
    text += fmt::format(", optimizer sharding {}", shardingText(plan));
  if (plan.sequenceParallel == std::vector<bool>{true})
    text += ", sequence parallel";
  if (plan.meshSizes.at("model") > 1 && plan.layout == OpLayout::Solved)
    text += ", layout solved";
  return text;
}

std::vector<std::pair<std::string, std::string>> decisionTexts(const Plan &plan) {
  std::vector<std::pair<std::string, std::string>> lines;
  auto line = [&](const char *what, std::string value) { lines.emplace_back(what, std::move(value)); };
  line("mesh", meshesText(plan) + " (outermost first)");
  line("batch",
       fmt::format("{} samples, microbatches of {}, {} per model replica", plan.globalBatch, plan.microbatch,
                   plan.globalBatch / plan.microbatch / plan.meshSizes.at("data") / plan.meshSizes.at("expert")));
  if (plan.meshSizes.at("stage") > 1) {
    line("schedule", scheduleText(plan.schedule.name, plan.schedule.variant, plan.schedule.chunks));
    line("layers", layersText(plan));
  }
  line("recompute", recomputeText(plan));
  line("optimizer", fmt::format("sharding {}", shardingText(plan)));
  if (plan.meshSizes.at("model") > 1 && plan.layout == OpLayout::Solved)
    line("layout", "solved: for each op, which dimension \"model\" shards");
  else if (plan.meshSizes.at("model") > 1)
    line("sequence", plan.sequenceParallel.front() ? "sharded over model" : "replicated over model");
  return lines;
}

std::string compressionText(const Plan &plan) {
  std::string text;
  for (const CompressionPin &pin : plan.compression) {
    const compression::SyncChoice &choice = pin.choice;
    std::string how = "none";
    if (choice.codec)
      how = fmt::format("{}, {}{}{}{}{}", choice.codec->name, choice.hierarchy ? "hierarchical " : "",
                        toString(choice.scheme), choice.pieces > 1 ? fmt::format(", {} pieces", choice.pieces) : "",
                        choice.errorFeedback ? ", error feedback" : "",
                        choice.firstStep ? fmt::format(", from step {}", choice.firstStep) : "");
    text += fmt::format("  {:<12} {}: {}\n", text.empty() ? "compression" : "", pin.pattern, how);
  }
  return text;
}

double optimalityGap(double stepSeconds, double lowerBoundSeconds) {
  return std::max(0.0, 1 - lowerBoundSeconds / stepSeconds);
}

std::string boundText(double step, double bound, const std::vector<std::string> &outside) {
  if (bound <= 0)
    return "none: the plans that the simulator estimates as fastest were compiled and compared (docs/search.md)";
  std::string text =
      bound >= step
          ? "proven optimal in the searched space"
          : fmt::format("no plan in the searched space takes less than {:.4g} s, {:.2f} % less than this plan", bound,
                        100 * optimalityGap(step, bound));
  if (!outside.empty())
    text += fmt::format("; not searched: some values of {}", keysOutsideSpace(outside));
  return text + " (docs/search.md)";
}

std::string unusedText(int64_t ranks, const Cluster &cluster, bool proven) {
  if (ranks >= cluster.ranks())
    return "";
  return fmt::format("{} of {} ranks stay unused{}", cluster.ranks() - ranks, cluster.ranks(),
                     proven ? ": no plan with them is faster" : "");
}

std::string toText(const FoundPlans &found, const std::string &model, const Cluster &cluster) {
  const FoundPlan &best = found.plans.front();
  const Plan &plan = best.plan;
  int64_t ranks = plan.mesh().ranks();
  std::string text = fmt::format("plan for {}\n", model);
  for (const auto &[what, value] : decisionTexts(plan))
    text += fmt::format("  {:<12} {}\n", what, value);
  text += compressionText(plan);
  text += toText(best.simulation, ranks, cluster.name);
  double step = best.simulation.stepSeconds, bound = found.lowerBoundSeconds;
  if (std::string unused = unusedText(ranks, cluster, bound >= step); !unused.empty())
    text += fmt::format("  {}\n", unused);
  text += fmt::format("  bound        {}\n",
                      found.compressionPlanned
                          ? "none: compression was planned for the best plans of two searches, and the best pair is "
                            "this one (docs/compression-planning.md)"
                          : boundText(step, bound, found.outsideSpace));
  text += fmt::format("  search       {} search nodes, {} plans simulated, {} layouts of the model\n",
                      found.statistics.choices, found.statistics.simulated, found.statistics.layouts);
  if (found.plans.size() > 1)
    text += "other plans\n";
  bool ties = false;
  for (size_t i = 1; i < found.plans.size(); ++i) {
    const auto &first = best.simulation.uncertainty, &its = found.plans[i].simulation.uncertainty;
    bool tie = first && its && isTie(*first, *its);
    ties |= tie;
    text += fmt::format("  {:+.2f} %{} {}\n", 100 * (found.plans[i].simulation.stepSeconds / step - 1),
                        tie ? " ~" : "  ", planText(found.plans[i].plan));
  }
  if (ties)
    text += "  ~ a tie: too close to the first plan for the prediction to tell which is faster\n";
  return text;
}

} // namespace kerf
