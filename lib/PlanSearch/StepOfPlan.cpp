// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/CostModel/Compute.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <map>

using namespace kerf;

std::vector<AxisRef> kerf::onMesh(const std::vector<AxisRef> &refs, const Mesh &mesh) {
  std::vector<AxisRef> real;
  for (AxisRef ref : refs)
    if (int axis = mesh.find(kPlanAxes[ref.axis]); axis >= 0)
      real.push_back(ref.size ? AxisRef{axis, ref.before, ref.size} : wholeAxis(mesh, axis));
  return real;
}

namespace {

/// How a layer's sharded parameters are gathered: one collective for each parameter, or one flat parameter
/// for the layer (FSDP).
enum class Parameters { Each, Flat };

Segment segmentOnMesh(Segment segment, const Mesh &mesh, Parameters parameters) {
  for (PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient})
    for (PassCollective &collective : pass->collectives)
      collective.axes = onMesh(collective.axes, mesh);
  for (std::vector<ParameterGroup> *groups : {&segment.parameters, &segment.copied})
    for (ParameterGroup &group : *groups)
      group.reduceAxes = onMesh(group.reduceAxes, mesh);
  // Where no other rank holds the same parameters, sharding changes nothing, and they stay what they are.
  bool shared =
      std::ranges::any_of(segment.parameters, [](const ParameterGroup &group) { return !group.reduceAxes.empty(); });
  if (parameters == Parameters::Each || !shared)
    return segment;
  std::map<std::vector<AxisRef>, ParameterGroup> flat;
  std::map<std::vector<AxisRef>, double> largest; // elements of the largest parameter so far
  for (const ParameterGroup &group : segment.parameters) {
    ParameterGroup &sum =
        flat.try_emplace(group.reduceAxes, ParameterGroup{segment.name, 0, group.reduceAxes}).first->second;
    if (sum.parameter.empty() || group.elements > largest[group.reduceAxes]) {
      sum.parameter = group.parameter;
      sum.isTable = group.isTable;
      largest[group.reduceAxes] = group.elements;
    }
    sum.elements += group.elements;
    sum.updateFlops += group.updateFlops;
  }
  segment.parameters.clear();
  for (auto &[axes, group] : flat) {
    group.shape = {1, static_cast<int64_t>(group.elements)}; // one flat tensor
    segment.parameters.push_back(std::move(group));
  }
  return segment;
}

Parameters parametersOf(const Plan &plan, const Trainer &trainer, int64_t stage) {
  bool each = plan.optimizerSharding.size() > 1;
  int64_t sharding = each ? plan.optimizerSharding[stage] : plan.optimizerSharding.front();
  return sharding == 3 && trainer.prices.gathers.wholeLayers ? Parameters::Flat : Parameters::Each;
}

/// Returns the weights by which parts share layers where the plan does not decide: all equal, or on a mixed cluster the
/// FLOP/s of the stages' devices.
Result<std::vector<double>> usualShares(const CompletedPlan &completed, const TrainingJob &job) {
  int64_t stages = completed.plan.meshSizes.at("stage"), parts = stages * completed.plan.schedule.chunks;
  auto groups = groupsOfStages(completed.cluster, stages);
  if (!groups)
    return Error{fmt::format("{}: {}", completed.where, groups.error().message)};
  std::vector<double> flops(parts, 1);
  for (int64_t p = 0; p < parts && !groups->empty(); ++p)
    flops[p] = peakFlops(completed.cluster.groups[(*groups)[p % stages]].device, job.dtype);
  return flops;
}

/// Shares `layers` layers among those parts in [first, last) that have no entry in `told`, by the weights `shares`.
/// Returns the number of layers of each part in [first, last); 0 for parts with an entry.
Result<std::vector<int64_t>> freeCounts(const std::vector<const StageLayers *> &told, int64_t first, int64_t last,
                                        int64_t layers, const std::vector<double> &shares) {
  std::vector<double> weights;
  for (int64_t p = first; p < last; ++p)
    if (!told[p])
      weights.push_back(shares[p]);
  if (!weights.empty() && layers < static_cast<int64_t>(weights.size()))
    return Error{fmt::format("\"stages\" leaves {} {} for {} free {}, which {} at least one each; give the parts "
                             "\"layers\" too, or take fewer stages",
                             layers, layers == 1 ? "layer" : "layers", weights.size(),
                             weights.size() == 1 ? "part" : "parts", weights.size() == 1 ? "needs" : "need")};
  std::vector<int64_t> counts = weights.empty() ? std::vector<int64_t>() : cutByWeights(layers, weights), all;
  size_t next = 0;
  for (int64_t p = first; p < last; ++p)
    all.push_back(told[p] ? 0 : counts[next++]);
  return all;
}

} // namespace

Result<LayerCut> kerf::cutLayers(const CompletedPlan &completed, const TrainingJob &job, int64_t layers) {
  const Plan &plan = completed.plan;
  auto wrong = [&](const std::string &message) { return Error{fmt::format("{}: {}", completed.where, message)}; };
  int64_t stages = plan.meshSizes.at("stage"), parts = stages * plan.schedule.chunks;
  LayerCut runs;
  if (plan.stages.empty()) {
    if (layers < parts)
      return wrong(fmt::format("{} layers are not enough for {} stages of {} chunks; take fewer stages or chunks",
                               layers, stages, plan.schedule.chunks));
    auto shares = usualShares(completed, job);
    if (!shares)
      return shares.error();
    int64_t begin = 0;
    for (int64_t count : cutByWeights(layers, *shares)) {
      runs.emplace_back(begin, begin + count);
      begin += count;
    }
    return runs;
  }
  if (static_cast<int64_t>(plan.stages.size()) > parts)
    return wrong(fmt::format("\"stages\" has {} entries for {} stages of {} chunks; give one entry for each chunk",
                             plan.stages.size(), stages, plan.schedule.chunks));
  std::vector<const StageLayers *> byPart(parts, nullptr);
  for (const StageLayers &run : plan.stages) {
    if (run.stage >= stages || run.chunk >= plan.schedule.chunks)
      return wrong(fmt::format("stages: there is no chunk {1} of stage {0}; the plan has {2} stages of {3} chunks",
                               run.stage, run.chunk, stages, plan.schedule.chunks));
    const StageLayers *&its = byPart[run.chunk * stages + run.stage];
    if (its)
      return wrong(fmt::format("stages: chunk {} of stage {} is given twice; leave one entry", run.chunk, run.stage));
    its = &run;
  }
  auto shares = usualShares(completed, job);
  if (!shares)
    return shares.error();
  int64_t next = 0;
  for (int64_t p = 0; p < parts;) {
    int64_t told = p; // the next part whose layers the plan gives
    while (told < parts && !(byPart[told] && byPart[told]->layers))
      ++told;
    const StageLayers *run = told < parts ? byPart[told] : nullptr;
    if (run && run->layers->second >= layers)
      return wrong(fmt::format("stages: chunk {} of stage {} ends with layer {}; the {} layers of {} are 0 to {}",
                               run->chunk, run->stage, run->layers->second, layers, job.model, layers - 1));
    if (run && run->layers->first < next)
      return wrong(
          fmt::format("stages: chunk {} of stage {} begins with layer {}, the part before it ends before layer {}; "
                      "begin the chunk with layer {}",
                      run->chunk, run->stage, run->layers->first, next, next));
    auto counts = freeCounts(byPart, p, told, (run ? run->layers->first : layers) - next, *shares);
    if (!counts)
      return wrong(fmt::format("stages: {}", counts.error().message));
    for (int64_t count : *counts) {
      runs.emplace_back(next, next + count);
      next += count;
    }
    p = told + 1;
    if (!run)
      break;
    if (run->layers->first != next)
      return wrong(
          fmt::format("stages: chunk {} of stage {} begins with layer {}, the part before it ends before layer {}; "
                      "begin the chunk with layer {}",
                      run->chunk, run->stage, run->layers->first, next, next));
    runs.emplace_back(next, run->layers->second + 1);
    next = run->layers->second + 1;
  }
  if (next != layers)
    return wrong(fmt::format("stages: the parts hold {} layers, but {} has {}; end the last part with layer {}", next,
                             job.model, layers, layers - 1));
  return runs;
}

std::string kerf::noLayersText(const std::string &where, int64_t stages, const std::string &model) {
  return fmt::format(
      "{}: mesh.stage is {}, and no repeated layer was found in {} between which it could be cut; give the "
      "op with which each stage ends, \"stages\": [{{\"until\": \"OP\"}}, {{}}] (docs/plan.md), or set "
      "mesh.stage to 1",
      where, stages, model);
}

namespace {

/// A part's share of one entry of the model's chain: the entry's index, and the number of its layers.
struct HeldLink {
  size_t link = 0;
  int64_t repeat = 1;
};

/// Returns the share of part `p` in the model's chain. The work before all layers belongs to the first part, the work
/// after all layers to the last one, and the work between two runs of layers to the part around it.
std::vector<HeldLink> linksOfPart(const ModelWork &model, const LayerCut &cut, size_t p) {
  auto [begin, end] = cut[p];
  bool last = p + 1 == cut.size();
  std::vector<HeldLink> held;
  int64_t at = 0;
  for (size_t l = 0; l < model.chain.size(); ++l) {
    const ChainSegment &link = model.chain[l];
    if (link.layers) {
      int64_t count = std::min(end, at + link.layers) - std::max(begin, at);
      if (count > 0)
        held.push_back({l, count});
      at += link.layers;
      continue;
    }
    bool isFirst = l == 0, isLast = l + 1 == model.chain.size();
    bool here = isFirst && isLast ? true : isFirst ? p == 0 : isLast ? last : begin <= at && at < end;
    if (here)
      held.push_back({l, 1});
  }
  return held;
}

/// Adds copies of tied parameters to parts outside of the first stage. The gradients of copies
/// are summed between stages.
void addTiedParameters(const ModelWork &model, const Mesh &mesh, const std::vector<size_t> &linksOfFirstStage,
                       StepWork &work) {
  for (const auto &[link, tied] : model.tied) {
    if (std::find(linksOfFirstStage.begin(), linksOfFirstStage.end(), link) != linksOfFirstStage.end())
      continue;
    ParameterGroup group = tied;
    group.reduceAxes = onMesh(tied.reduceAxes, mesh);
    for (Part &part : work.parts)
      for (Segment &segment : part.segments)
        if (segment.chainIndex == static_cast<int>(link))
          segment.parameters.push_back(group);
    work.tiedElements += group.elements;
  }
}

} // namespace

Result<StepWork> kerf::stepWork(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model) {
  const Plan &plan = completed.plan;
  const Mesh &mesh = completed.mesh;
  int64_t layers = model.layers(), stages = plan.meshSizes.at("stage");
  if (layers == 0 && stages > 1)
    return Error{noLayersText(completed.where, stages, job.model)};
  auto cut = layers ? cutLayers(completed, job, layers) : Result<LayerCut>(LayerCut{{0, 0}});
  if (!cut)
    return cut.error();
  std::map<Parameters, std::vector<Segment>> segmentsWith;

  StepWork work;
  work.part.resize(stages);
  std::map<std::string, int> known; // index in work.parts of identical parts, by their content
  std::vector<size_t> linksOfFirstStage;
  for (size_t p = 0; p < cut->size(); ++p) {
    size_t stage = p % stages;
    Part part;
    Parameters parameters = parametersOf(plan, *job.trainer, static_cast<int64_t>(stage));
    std::vector<Segment> &segments = segmentsWith[parameters];
    if (segments.empty())
      for (const ChainSegment &link : model.chain)
        segments.push_back(segmentOnMesh(link.segment, mesh, parameters));
    std::string key = parameters == Parameters::Flat ? "flat " : "";
    for (const HeldLink &held : linksOfPart(model, *cut, p)) {
      part.segments.push_back(segments[held.link]);
      part.segments.back().repeat = held.repeat;
      part.segments.back().chainIndex = static_cast<int>(held.link);
      key += fmt::format("{}x{} ", held.link, held.repeat);
      if (stage == 0)
        linksOfFirstStage.push_back(held.link);
    }
    auto [found, isNew] = known.try_emplace(key, static_cast<int>(work.parts.size()));
    if (isNew) {
      part.name = p == 0 ? "first" : p + 1 == cut->size() ? "last" : fmt::format("part {}", p);
      work.parts.push_back(std::move(part));
    }
    work.part[stage].push_back(found->second);
  }
  addTiedParameters(model, mesh, linksOfFirstStage, work);
  StageSends sends = model.receivedBytes.empty() ? job.trainer->prices.sends : StageSends::Full;
  work.message = messageOf(model, mesh, sends);
  for (double bytes : model.receivedBytes)
    work.forwardMessages.push_back({work.message.axes, bytes, {}});
  if (!work.forwardMessages.empty()) { // gradients take the opposite way of activations
    work.backwardMessages.assign(work.forwardMessages.begin() + 1, work.forwardMessages.end());
    work.backwardMessages.emplace_back();
  }
  double batches = static_cast<double>(plan.globalBatch) / static_cast<double>(model.samples);
  work.tokens = model.tokens * batches;
  work.modelFlops = model.modelFlops * batches;
  work.dtype = job.dtype;
  return work;
}

namespace {

/// Returns the innermost axis part of `mesh` with `count` ranks, along which an all-gather joins `count` shares; all
/// axes of a stage when no axis can be divided so.
std::vector<AxisRef> axesOfShards(const Mesh &mesh, int64_t count) {
  std::vector<AxisRef> all;
  for (int axis = static_cast<int>(mesh.axes.size()) - 1; axis >= 0; --axis) {
    if (mesh.axes[axis].name == "stage")
      continue;
    if (mesh.axes[axis].size % count == 0)
      return {{axis, 1, count}};
    all.insert(all.begin(), wholeAxis(mesh, axis));
  }
  return all;
}

/// Returns the message between stages that hold different shares of the activations. The smaller share is sent; a
/// receiver that holds more gathers the rest.
StageMessage messageBetween(const std::vector<AxisRef> &stageAxes, double fromBytes, double toBytes, const Mesh &to) {
  StageMessage message{stageAxes, std::min(fromBytes, toBytes), {}};
  if (toBytes > fromBytes && fromBytes > 0)
    message.afterReceive = {
        {"gather of the stream", Collective::AllGather, axesOfShards(to, std::llround(toBytes / fromBytes)), toBytes}};
  return message;
}

/// Returns one plan for each stage, whose mesh is the mesh of that stage.
std::vector<CompletedPlan> plansOfStages(const CompletedPlan &completed) {
  std::vector<CompletedPlan> plans;
  for (int64_t s = 0; s < completed.plan.meshSizes.at("stage"); ++s) {
    CompletedPlan its = completed;
    its.plan = planOfStage(completed.plan, s);
    its.mesh = its.plan.mesh();
    for (StageLayers &run : its.plan.stages)
      run.mesh.clear();
    plans.push_back(std::move(its));
  }
  return plans;
}

} // namespace

Result<StepWork> kerf::stepWork(const CompletedPlan &completed, const TrainingJob &job,
                                const std::vector<const ModelWork *> &modelOfStage) {
  std::vector<CompletedPlan> plans = plansOfStages(completed);
  auto stages = static_cast<int64_t>(plans.size());
  std::vector<StepWork> works; // for each different mesh, as if all stages had it
  std::vector<size_t> workOfStage;
  StepWork all;
  std::vector<int> firstPart; // index in all.parts of the first part of each of `works`
  for (int64_t s = 0; s < stages; ++s) {
    auto alike = std::find_if(plans.begin(), plans.begin() + s, [&](auto &one) { return one.mesh == plans[s].mesh; });
    if (alike != plans.begin() + s) {
      workOfStage.push_back(workOfStage[alike - plans.begin()]);
      continue;
    }
    auto work = stepWork(plans[s], job, *modelOfStage[s]);
    if (!work)
      return work.error();
    workOfStage.push_back(works.size());
    firstPart.push_back(static_cast<int>(all.parts.size()));
    all.parts.insert(all.parts.end(), work->parts.begin(), work->parts.end());
    works.push_back(std::move(*work));
  }
  for (int64_t s = 0; s < stages; ++s) {
    std::vector<int> &parts = all.part.emplace_back(works[workOfStage[s]].part[s]);
    for (int &part : parts)
      part += firstPart[workOfStage[s]];
  }
  all.message = works.front().message;
  auto bytesInto = [&](int64_t stage, int64_t part) {
    const ModelWork &model = *modelOfStage[stage];
    return model.receivedBytes.empty() ? model.layerOutputLocalBytes : model.receivedBytes[part];
  };
  int64_t parts = stages * completed.plan.schedule.chunks;
  auto between = [&](int64_t from, int64_t to) {
    int64_t a = from % stages, b = to % stages, into = std::max(from, to);
    if (workOfStage[a] != workOfStage[b])
      return messageBetween(all.message.axes, bytesInto(a, into), bytesInto(b, into), plans[b].mesh);
    StageMessage message = works[workOfStage[b]].messageBetween(from, to);
    message.axes = all.message.axes;
    return message;
  };
  for (int64_t p = 0; p < parts; ++p) {
    all.forwardMessages.push_back(p > 0 ? between(p - 1, p) : StageMessage());
    all.backwardMessages.push_back(p + 1 < parts ? between(p + 1, p) : StageMessage());
  }
  all.tiedElements = std::max(works.front().tiedElements, works[workOfStage.back()].tiedElements);
  all.tokens = works.front().tokens;
  all.modelFlops = works.front().modelFlops;
  all.dtype = works.front().dtype;
  return all;
}

Result<PipelineModel> kerf::pipelineOf(const Plan &completed, const Cluster &cluster) {
  if (!stagesDiffer(completed))
    return PipelineModel::make(completed.mesh(), cluster);
  std::vector<Mesh> meshes;
  for (int64_t s = 0; s < completed.meshSizes.at("stage"); ++s)
    meshes.push_back(planOfStage(completed, s).mesh());
  return PipelineModel::make(meshes, cluster);
}

StageMessage kerf::messageOf(const ModelWork &model, const Mesh &mesh, StageSends sends) {
  StageMessage message{onMesh({AxisRef{planAxis("stage"), 1, 0}}, mesh), model.layerOutputLocalBytes, {}};
  std::vector<AxisRef> modelAxis = onMesh({AxisRef{planAxis("model"), 1, 0}}, mesh);
  bool whole = model.layerOutputLocalBytes == model.layerOutputBytes;
  if (whole && !modelAxis.empty() && sends == StageSends::Scattered) {
    message.bytes = model.layerOutputBytes / static_cast<double>(shardCount(modelAxis));
    message.afterReceive = {{"gather of the stream", Collective::AllGather, modelAxis, model.layerOutputBytes}};
  }
  return message;
}

namespace {

/// Returns the last layer that a numeric pattern names: 7 for "4-7" and for "7"; nothing for other patterns.
std::optional<int64_t> lastLayerOf(const std::string &pattern) {
  size_t dash = pattern.find('-');
  std::string_view digits = std::string_view(pattern).substr(dash == std::string::npos ? 0 : dash + 1);
  int64_t last = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), last);
  return code == std::errc() && end == digits.data() + digits.size() ? std::optional(last) : std::nullopt;
}

/// Returns the recomputation modes of each part's layers.
Result<std::vector<LayerModes>> recomputeOfParts(const CompletedPlan &completed, const TrainingJob &job,
                                                 const ModelWork &model) {
  const Plan &plan = completed.plan;
  int64_t stages = plan.meshSizes.at("stage"), layers = model.layers();
  for (const LayerRecompute &rule : plan.recomputeLayers) {
    if (auto last = lastLayerOf(rule.pattern); last && *last >= layers)
      return Error{fmt::format("{}: recompute[\"{}\"] names layer {}; the {} layers of {} are 0 to {}", completed.where,
                               rule.pattern, *last, layers, job.model, layers - 1)};
    bool matches = false;
    for (int64_t layer = 0; layer < layers && !matches; ++layer)
      matches = matchesLayer(rule.pattern, layer, model.nameOfLayer(layer));
    if (!matches)
      return Error{fmt::format("{}: recompute[\"{}\"] matches none of the {} layers of {}; {}", completed.where,
                               rule.pattern, layers, job.model,
                               !layers ? "leave it out"
                               : model.nameOfLayer(0).empty()
                                   ? fmt::format("they are 0 to {}", layers - 1)
                                   : fmt::format("they are \"0\" or \"{}\" and so on", model.nameOfLayer(0)))};
  }
  auto cut = layers ? cutLayers(completed, job, layers) : Result<LayerCut>(LayerCut{{0, 0}});
  if (!cut)
    return cut.error();
  std::vector<LayerModes> parts;
  for (size_t p = 0; p < cut->size(); ++p) {
    LayerModes &runs = parts.emplace_back();
    for (int64_t layer = (*cut)[p].first; layer < (*cut)[p].second; ++layer) {
      Recompute mode = recomputeModeOf(plan, static_cast<int64_t>(p) % stages, layer, model.nameOfLayer(layer));
      if (runs.empty() || runs.back().mode != mode)
        runs.push_back({mode, 0});
      ++runs.back().layers;
    }
  }
  return parts;
}

} // namespace

Result<StepPlan> kerf::stepPlan(const CompletedPlan &completed, const TrainingJob &job, const ModelWork &model) {
  const Plan &plan = completed.plan;
  StepPlan step;
  step.schedule = completed.schedule;
  if (plan.recomputeLayers.empty() && plan.recompute.size() == 1) {
    step.recompute = plan.recompute.front();
  } else {
    auto parts = recomputeOfParts(completed, job, model);
    if (!parts)
      return parts.error();
    step.recomputeOfPart = std::move(*parts);
  }
  std::vector<int> sharding;
  for (int64_t level : plan.optimizerSharding)
    sharding.push_back(pricedSharding(job.trainer->prices, static_cast<int>(level), plan.meshSizes.at("stage")));
  step.optimizerSharding = sharding.front();
  if (sharding.size() > 1)
    step.optimizerShardingOfStage = std::move(sharding);
  auto sharesOn = [&](const Mesh &mesh) {
    int64_t ranks = plan.optimizerShardingRanks;
    return ranks && ranks != replicaCount(mesh) ? std::optional(shardingAxes(mesh, ranks)) : std::nullopt;
  };
  step.shardingAxes = sharesOn(completed.mesh);
  for (int64_t s = 0; stagesDiffer(plan) && s < plan.meshSizes.at("stage"); ++s)
    step.shardingAxesOfStage.push_back(sharesOn(planOfStage(plan, s).mesh()));
  step.overlap = parseOverlap(*plan.overlap);
  step.bytes = stateBytes(job.dtype == "f8" ? "bf16" : job.dtype, plan.gradientDtype, job.optimizerMoments,
                          plan.optimizerStates.value_or(OptimizerStates::Device));
  step.trainer = job.trainer->prices;
  return step;
}

void kerf::setIntervals(Prediction &prediction, const Uncertainty &uncertainty) {
  prediction.secondsInterval = uncertainty.stepSeconds;
  prediction.peakIntervals = uncertainty.peakBytes;
}

void kerf::setRecompute(Plan &plan, const std::vector<Recompute> &modes, const LayerCut &cut, int64_t stages) {
  std::vector<std::optional<Recompute>> ofStage(stages);
  plan.recomputeLayers.clear();
  bool byStage = true;
  for (size_t p = 0; p < cut.size(); ++p)
    for (int64_t layer = cut[p].first; layer < cut[p].second; ++layer) {
      std::optional<Recompute> &its = ofStage[static_cast<int64_t>(p) % stages];
      its = its.value_or(modes[layer]);
      byStage &= its == modes[layer];
    }
  plan.recompute.clear();
  if (byStage) {
    for (std::optional<Recompute> its : ofStage) // a stage without layers recomputes nothing
      plan.recompute.push_back(its.value_or(Recompute::None));
    if (std::all_of(plan.recompute.begin(), plan.recompute.end(),
                    [&](Recompute its) { return its == plan.recompute.front(); }))
      plan.recompute.resize(1);
    return;
  }
  for (size_t first = 0, end; first < modes.size(); first = end) {
    for (end = first + 1; end < modes.size() && modes[end] == modes[first];)
      ++end;
    if (modes[first] != Recompute::None)
      plan.recomputeLayers.push_back(
          {end - first == 1 ? std::to_string(first) : fmt::format("{}-{}", first, end - 1), modes[first]});
  }
}
