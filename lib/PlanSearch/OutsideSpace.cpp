// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/OutsideSpace.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

std::vector<std::string> decisionsOutsideSpace(const Cluster &cluster, const TrainingJob &job,
                                               const PlanSearchOptions &options, int64_t layers) {
  const Plan &given = options.constraints;
  int64_t ranks = job.ranks.value_or(cluster.ranks());
  auto isOne = [&](const char *axis) {
    auto its = given.meshSizes.find(axis);
    return its != given.meshSizes.end() && its->second == 1;
  };
  bool pipelines = ranks > 1 && layers > 1 && !isOne("stage"), replicas = ranks > 1;
  std::vector<std::string> outside;
  auto add = [&](bool left, const char *what) {
    if (left)
      outside.emplace_back(what);
  };
  for (const auto &[axis, what] : options.omittedSizes)
    if (!given.meshSizes.contains(axis) && ranks > 1)
      outside.push_back(fmt::format("mesh: {}", what));
  add(options.contextSizes.size() > 1 && !given.microbatch && !given.meshSizes.contains("data") &&
          !given.meshSizes.contains("context"),
      "mesh: a size of context that has a common factor with the microbatch, where a larger data is at least as good");
  add(pipelines && given.schedule.name.empty() && job.trainer->space.schedules.empty(),
      "schedule: interleaved where the stages do not divide the microbatches; zero-bubble 1p and 2p");
  int64_t pinnedLayers = 0; // layers whose part the constraints give
  for (const StageLayers &run : given.stages)
    pinnedLayers += run.layers ? run.layers->second - run.layers->first + 1 : layers;
  add(pipelines && pinnedLayers < layers, "stages: uneven cuts, other than by the first and the last part; cuts inside "
                                          "of layers; meshes that differ between stages");
  add(pipelines && cluster.mixed(), "stages: a stage on several device groups; device groups in another order");
  add(!given.decidesRecompute() && layers > 0,
      "recompute: other layers than the first ones of each part; different numbers of layers in the parts of a stage; "
      "more than two modes in one part, or two that do not follow each other on a ladder; stages on different ladders; "
      "offload");
  add(replicas && given.optimizerSharding.empty(), "optimizer_sharding: levels that differ between stages");
  if (replicas && !given.optimizerShardingRanks)
    outside.push_back(
        fmt::format("optimizer_sharding_ranks: other numbers than all replicas, and the replicas on one node{}",
                    job.trainer->ownPrograms ? " times powers of two" : ""));
  if (replicas && !given.overlap)
    outside.push_back(job.trainer->ownPrograms ? "overlap: other lists than gradients, parameters, tensor and stage"
                                               : fmt::format("overlap: other lists than {}'s", job.trainer->title));
  bool sixteen = job.dtype != "f32" && job.dtype != "f64";
  add(sixteen && given.gradientDtype.empty(), "gradient_dtype: types of 16 bits, which change the training's numbers");
  add(mayKeepStatesOtherwise(job) && !given.optimizerStates && !job.trainer->space.optimizerStates.empty(),
      "optimizer_states: moments of 16 bits, which change the training's numbers");
  add(job.trainer->space.solvedLayout && options.modelSizes.size() > 1 && options.expertSizes.size() > 1 &&
          !given.layout && given.sequenceParallel.empty() && !isOne("model") && !isOne("expert"),
      "layout: solved on a mesh with the axis expert");
  add(!given.attention, "attention: unfused");
  add(ranks > 1 && given.ops.empty(), "ops: strategies and recomputation of single ops");
  add(ranks > 1 && given.arguments.empty(), "arguments: shardings of single parameters");
  return outside;
}

std::string keysOutsideSpace(const std::vector<std::string> &outside) {
  std::vector<std::string> keys;
  for (const std::string &one : outside)
    if (std::string key = one.substr(0, one.find(':')); std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  return fmt::format("{}", fmt::join(keys, ", "));
}

} // namespace kerf
