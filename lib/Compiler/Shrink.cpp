// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/Shrink.h"
#include "HandWritten.h"
#include "kerf/Sharding/Refine.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace kerf {

namespace {

constexpr int64_t kMinAxisSize = 2, kMostStages = 3;

/// Reduces one plan (see `shrink`).
class Shrinker {
public:
  Shrinker(const CompletedPlan &completed, int64_t layers) : completed(completed), layers(layers) {
    result.plan = completed.plan;
  }

  ShrunkPlan run(ShrunkModel model) {
    bool configured = model == ShrunkModel::Configured;
    shrinkMesh();
    shrinkStages(configured);
    if (configured && newLayers < layers) {
      shrinkPins(result.plan.ops);
      shrinkPins(result.plan.recomputeOps);
    }
    if (!meshOfStage.empty())
      setMeshesOfStages();
    shrinkBatch(configured);
    if (configured)
      chooseSizes();
    result.plan.predicted.reset();
    result.plan.modelHash.clear();
    result.plan.clusterHash.clear();
    result.plan.keptKeys.clear();
    return std::move(result);
  }

private:
  /// Returns the size of a mesh axis in the full plan.
  int64_t fullSize(const char *axis) const { return completed.plan.meshSizes.at(axis); }
  /// Returns the size of a mesh axis in the reduced plan.
  int64_t newSize(const char *axis) const { return result.plan.meshSizes.at(axis); }
  void note(const std::string &what, int64_t before, int64_t after) {
    if (before != after)
      result.notes.push_back(fmt::format("{} {} -> {}", what, before, after));
  }

  void shrinkMesh() {
    for (auto &[axis, size] : result.plan.meshSizes)
      size = std::min(size, axis == "stage" ? kMostStages : kMinAxisSize);
    shrinkShardingRanks();
    if (stagesDiffer(completed.plan))
      shrinkMeshesOfStages();
    for (const auto &[axis, size] : result.plan.meshSizes)
      note("mesh." + axis, fullSize(axis.c_str()), size);
  }

  /// Returns the stages of the full plan that remain, with at least two different meshes where stages have meshes of
  /// their own.
  std::vector<int64_t> stagesKept() const {
    std::vector<int64_t> kept;
    int64_t last = newSize("stage") - 1, oldLast = fullSize("stage") - 1;
    for (int64_t stage = 0; stage <= last; ++stage)
      kept.push_back(last ? stage * oldLast / last : 0);
    auto mesh = [&](int64_t stage) { return planOfStage(completed.plan, stage).meshSizes; };
    auto another = [&](int64_t stage) { return mesh(stage) != mesh(0); };
    if (std::none_of(kept.begin(), kept.end(), another))
      for (int64_t stage = 1; stage < oldLast; ++stage)
        if (another(stage))
          kept[last > 1 ? 1 : last] = stage;
    return kept;
  }

  /// Reduces stages with meshes of their own. Sub-axes that the stages use in the same way become one sub-axis of two
  /// ranks.
  void shrinkMeshesOfStages() {
    std::vector<Mesh> meshes;
    for (int64_t stage : stagesKept()) {
      Mesh &mesh = meshes.emplace_back();
      Plan its = planOfStage(completed.plan, stage);
      for (const char *axis : {"data", "context", "expert", "model"})
        mesh.axes.push_back({axis, its.meshSizes.at(axis)});
    }
    Refinement refined = refine(meshes);
    std::set<std::vector<size_t>> seenUses;
    meshOfStage.assign(meshes.size(), {{"data", 1}, {"context", 1}, {"expert", 1}, {"model", 1}});
    for (int subAxis = 0; subAxis < static_cast<int>(refined.subAxes.size()); ++subAxis) {
      std::vector<size_t> its; // the axis of each mesh that contains this sub-axis
      for (const auto &axes : refined.axes)
        its.push_back(std::find_if(axes.begin(), axes.end(),
                                   [&](auto &subAxes) {
                                     return std::find(subAxes.begin(), subAxes.end(), subAxis) != subAxes.end();
                                   }) -
                      axes.begin());
      if (seenUses.insert(its).second)
        for (size_t stage = 0; stage < meshes.size(); ++stage)
          meshOfStage[stage][meshes[stage].axes[its[stage]].name] *= kMinAxisSize;
    }
    for (const auto &[axis, size] : meshOfStage.front())
      result.plan.meshSizes[axis] = size;
    int64_t &ranks = result.plan.optimizerShardingRanks, before = ranks;
    if (ranks)
      ranks = kMinAxisSize;
    for (auto &mesh : meshOfStage)
      ranks = std::gcd(ranks, mesh["data"] * mesh["context"] * mesh["expert"]);
    ranks = before ? ranks : 0;
    note("optimizer_sharding_ranks", before, ranks);
  }

  void setMeshesOfStages() {
    for (StageLayers &run : result.plan.stages)
      if (const auto &mesh = meshOfStage[run.stage]; mesh != meshOfStage.front()) {
        run.mesh = mesh;
        if (run.chunk == 0)
          result.notes.push_back(fmt::format("stage {} has data {}, context {}, expert {}, model {}", run.stage,
                                             mesh.at("data"), mesh.at("context"), mesh.at("expert"), mesh.at("model")));
      }
  }

  /// Returns the largest size of the axis on any stage of the reduced plan.
  int64_t most(const char *axis) const {
    int64_t size = newSize(axis);
    for (const auto &mesh : meshOfStage)
      size = std::max(size, mesh.at(axis));
    return size;
  }

  /// Reduces `optimizer_sharding_ranks`. An axis over only a part of which states are sharded keeps two sub-axes, so
  /// that some ranks still share states and others replicate them.
  void shrinkShardingRanks() {
    int64_t &ranks = result.plan.optimizerShardingRanks, before = ranks;
    if (!ranks || stagesDiffer(completed.plan))
      return;
    ranks = 1;
    for (const AxisRef &cut : shardingAxes(completed.mesh, before)) {
      const auto &[name, size] = completed.mesh.axes[cut.axis];
      if (cut.size < size)
        result.plan.meshSizes[name] = kMinAxisSize * kMinAxisSize;
      ranks *= kMinAxisSize;
    }
    note("optimizer_sharding_ranks", before, ranks);
  }

  /// Replaces a list with one value per stage of the full plan by the values of the stages that remain.
  template <typename T> void pickStages(std::vector<T> &values) const {
    if (values.size() <= 1)
      return;
    std::vector<T> picked;
    int64_t last = newSize("stage") - 1, oldLast = fullSize("stage") - 1;
    for (int64_t stage = 0; stage <= last; ++stage)
      picked.push_back(values[size_t(last ? stage * oldLast / last : 0)]);
    values = std::move(picked);
  }

  /// Keeps one layer for each recomputation mode in use, and one layer without recomputation if layers remain.
  void pickRecomputedLayers(std::vector<LayerRecompute> &rules) {
    std::vector<LayerRecompute> picked;
    for (Recompute mode :
         {Recompute::Full, Recompute::ExceptAttention, Recompute::Pointwise, Recompute::Selective, Recompute::Offload})
      if (std::any_of(rules.begin(), rules.end(), [&](const LayerRecompute &rule) { return rule.mode == mode; }) &&
          static_cast<int64_t>(picked.size()) < newLayers) {
        picked.push_back({std::to_string(picked.size()), mode});
        result.notes.push_back(fmt::format("recompute: layer {} {}, as for some layers of the full plan",
                                           picked.back().pattern, toString(mode)));
      }
    if (picked.empty() && !rules.empty()) // every rule was "none"
      picked = {{"*", Recompute::None}};
    rules = std::move(picked);
  }

  /// Returns the layer number in a pattern: "17" for "model.layers.17.mlp*"; empty if the pattern has none.
  static std::string_view layerIn(std::string_view pattern) {
    for (size_t begin = 0, end; begin < pattern.size(); begin = end + 1) {
      end = std::min(pattern.find_first_of("./", begin), pattern.size());
      std::string_view part = pattern.substr(begin, end - begin);
      if (!part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos)
        return part;
    }
    return {};
  }

  /// Returns the pattern with its layer number replaced by `number`: "model.layers.17.mlp*" -> "model.layers.3.mlp*". A
  /// pattern without a layer number stays.
  static std::string ofLayer(const std::string &pattern, int64_t number) {
    std::string_view part = layerIn(pattern);
    if (part.empty())
      return pattern;
    size_t begin = part.data() - pattern.data();
    return pattern.substr(0, begin) + std::to_string(number) + pattern.substr(begin + part.size());
  }

  /// Moves each pin of a layer that the small model does not have to the small model's last layer.
  template <typename Pins> void shrinkPins(Pins &pins) {
    Pins left;
    for (auto pin : pins) {
      std::string_view part = layerIn(pin.pattern);
      if (!part.empty() && std::stoll(std::string(part)) >= newLayers) {
        std::string pattern = ofLayer(pin.pattern, newLayers - 1);
        result.notes.push_back(fmt::format("ops[\"{}\"] -> \"{}\"", pin.pattern, pattern));
        pin.pattern = std::move(pattern);
      }
      if (std::none_of(left.begin(), left.end(), [&](const auto &other) { return other.pattern == pin.pattern; }))
        left.push_back(std::move(pin));
    }
    pins = std::move(left);
  }

  /// Reduces stages that end at operators: `parts` of the cuts remain, spread from the first to the last, and cuts in
  /// removed layers move to remaining layers.
  void shrinkCuts(const std::vector<StageLayers> &runs, int64_t stages, int64_t parts, bool mayChangeLayers) {
    int64_t before = static_cast<int64_t>(runs.size()) - 1, after = parts - 1;
    newLayers = mayChangeLayers ? std::min(layers, parts + 1) : layers;
    for (int64_t part = 0; part < parts; ++part) {
      StageLayers &run = result.plan.stages.emplace_back();
      run.stage = part % stages;
      run.chunk = part / stages;
      if (part == after)
        continue;
      const std::string &until = runs[after > 1 ? part * (before - 1) / (after - 1) : 0].until;
      run.until = newLayers < layers ? ofLayer(until, part) : until;
      if (run.until != until)
        result.notes.push_back(fmt::format("until {} -> {}", until, run.until));
    }
  }

  void shrinkStages(bool mayChangeLayers) {
    Plan &plan = result.plan;
    int64_t stages = newSize("stage"), chunks = std::min<int64_t>(plan.schedule.chunks, 2), parts = stages * chunks;
    note("schedule.chunks", plan.schedule.chunks, chunks);
    plan.schedule.chunks = chunks;
    plan.schedule.inFlight.clear(); // a small model has room for all microbatches
    pickStages(plan.recompute);
    pickStages(plan.optimizerSharding);
    // Parts without layers at either end remain without layers. The first other part has one more layer, so that parts
    // differ.
    std::vector<StageLayers> runs = completed.plan.stages;
    auto byPart = [&](const StageLayers &run) { return run.chunk * fullSize("stage") + run.stage; };
    std::sort(runs.begin(), runs.end(), [&](auto &a, auto &b) { return byPart(a) < byPart(b); });
    if (!runs.empty() && !runs.front().until.empty()) {
      plan.stages.clear();
      shrinkCuts(runs, stages, parts, mayChangeLayers);
      result.sizes.layersInEachPart = true;
      if (newLayers != layers)
        pickRecomputedLayers(plan.recomputeLayers);
      return;
    }
    bool emptyFront = !runs.empty() && !runs.front().layers && parts > 2;
    bool emptyBack = runs.size() > 1 && !runs.back().layers && parts > 2;
    int64_t filled = parts - emptyFront - emptyBack;
    newLayers = mayChangeLayers ? std::min(layers, filled + 1) : layers;
    if (newLayers != layers)
      pickRecomputedLayers(plan.recomputeLayers);
    plan.stages.clear();
    if (parts == 1)
      return;
    int64_t begin = 0, index = 0;
    for (int64_t part = 0; part < parts; ++part) {
      StageLayers run;
      run.stage = part % stages;
      run.chunk = part / stages;
      if (!(part == 0 && emptyFront) && !(part == parts - 1 && emptyBack)) {
        int64_t count = newLayers / filled + (index < newLayers % filled);
        if (count > 0)
          run.layers = {begin, begin + count - 1};
        begin += count;
        ++index;
      }
      plan.stages.push_back(run);
    }
  }

  void shrinkBatch(bool free) {
    Plan &plan = result.plan;
    int64_t groups = newSize("data") * newSize("expert"), stages = newSize("stage");
    int64_t most = plan.schedule.chunks > 1 ? 2 * stages : 2 * stages + 1;
    int64_t microbatches = std::min(completed.microbatches, most);
    if (plan.schedule.chunks > 1)
      microbatches = std::max(stages, microbatches / stages * stages);
    int64_t samples = groups; // a microbatch must be a multiple of this number of samples
    for (const auto &mesh : meshOfStage)
      samples = std::lcm(samples, mesh.at("data") * mesh.at("expert"));
    int64_t least = samples / groups;
    if (free) {
      plan.microbatch = std::max(least, std::min<int64_t>(plan.microbatch, 2) / least * least);
      plan.globalBatch = groups * plan.microbatch * microbatches;
    } else {
      int64_t group = std::max<int64_t>(1, plan.globalBatch / groups);
      while (microbatches > 1 && (group % microbatches != 0 || group / microbatches % least != 0))
        --microbatches;
      plan.microbatch = group / microbatches;
    }
    note("microbatches", completed.microbatches, microbatches);
    note("microbatch", completed.plan.microbatch, plan.microbatch);
  }

  void chooseSizes() {
    SmallSizes &sizes = result.sizes;
    bool ulysses = completed.plan.contextStyle == ContextStyle::Ulysses;
    int64_t ranks = fullSize("model"), small = most("model");
    for (int64_t stage = 0; stage < fullSize("stage"); ++stage)
      ranks = std::max(ranks, planOfStage(completed.plan, stage).meshSizes.at("model"));
    sizes.layers = newLayers;
    sizes.batch = result.plan.globalBatch;
    sizes.sequenceShards = most("context");
    sizes.headShards = small * (ulysses ? most("context") : 1);
    sizes.expertShards = most("expert");
    sizes.headRanks = ranks;
  }

  const CompletedPlan &completed;
  int64_t layers, newLayers = 0;
  std::vector<std::map<std::string, int64_t>>
      meshOfStage; // mesh of each remaining stage; empty if all stages share one mesh
  ShrunkPlan result;
};

} // namespace

ShrunkPlan shrink(const CompletedPlan &completed, int64_t layers, ShrunkModel model) {
  return Shrinker(completed, layers).run(model);
}

Result<TrainingStep> importSmallStep(mlir::MLIRContext &context, const ModelSource &config, const StepOptions &options,
                                     const SmallSizes &sizes, std::vector<std::string> &notes) {
  auto small = importSmallModel(context, config, options.import, sizes);
  if (!small)
    return small.error();
  notes.insert(notes.end(), small->notes.begin(), small->notes.end());
  return buildTrainingStep(context, std::move(small->model), config.name, options);
}

} // namespace kerf
