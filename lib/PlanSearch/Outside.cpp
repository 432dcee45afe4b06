// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/Outside.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

std::vector<std::string> outsideOfSpace(const Cluster &cluster, const TrainingJob &job,
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
  for (const auto &[axis, what] : options.sizesLeftOut)
    if (!given.meshSizes.contains(axis) && ranks > 1)
      outside.push_back(fmt::format("mesh: {}", what));
  add(options.contextSizes.size() > 1 && !given.microbatch && !given.meshSizes.contains("data") &&
          !given.meshSizes.contains("context"),
      "mesh: a context that shares a factor with the microbatch, where as much more of data does the same");
  int64_t told = 0; // layers that the constraints give to parts
  for (const StageLayers &run : given.stages)
    told += run.layers ? run.layers->second - run.layers->first + 1 : layers;
  add(pipelines && told < layers, "stages: other cuts than even ones with a first and a last part of their own "
                                  "size, cuts inside of layers, meshes of their own");
  add(pipelines && cluster.mixed(), "stages: of more than one group of devices, or groups in another order");
  add(!given.decidesRecompute() && layers > 0,
      "recompute: of other layers than the first ones of each part, of different numbers of layers in the parts of a "
      "stage, full and selective layers beside layers without; offload");
  add(replicas && given.optimizerSharding.empty(), "optimizer_sharding: different from stage to stage");
  add(replicas && !given.optimizerShardingRanks,
      "optimizer_sharding_ranks: others than all that hold the same parameters and those of them on a node");
  if (replicas && !given.overlap)
    outside.push_back(job.trainer->ownPrograms ? "overlap: other than gradients, parameters and stage"
                                               : fmt::format("overlap: other than {}'s", job.trainer->title));
  bool sixteen = job.dtype != "f32" && job.dtype != "f64";
  add(sixteen && given.gradientDtype.empty(), "gradient_dtype: of 16 bits, which changes numbers");
  add(!given.attention, "attention: unfused");
  add(ranks > 1 && given.ops.empty(), "ops: strategies and recomputation of single operators");
  add(ranks > 1 && given.arguments.empty(), "arguments: layouts of single parameters");
  return outside;
}

std::string outsideText(const std::vector<std::string> &outside) {
  std::vector<std::string> keys;
  for (const std::string &one : outside)
    if (std::string key = one.substr(0, one.find(':')); std::find(keys.begin(), keys.end(), key) == keys.end())
      keys.push_back(std::move(key));
  return fmt::format("{}", fmt::join(keys, ", "));
}

} // namespace kerf
