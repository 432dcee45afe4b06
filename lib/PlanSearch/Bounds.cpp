// SPDX-License-Identifier: Apache-2.0
#include "Bounds.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include "kerf/Support/Units.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace kerf::plansearch {

StateBytes keptStateBytes(const TrainingJob &job, const Plan &constraints, OptimizerStates states) {
  bool mixed = job.dtype != "f32" && job.dtype != "f64";
  std::string gradients = constraints.gradientDtype;
  return kerf::stateBytes(job.dtype == "f8" ? "bf16" : job.dtype,
                          gradients.empty() ? (mixed ? "f32" : job.dtype) : gradients, job.optimizerMoments, states);
}

StateBytes plannedStateBytes(const TrainingJob &job, const Plan &constraints) {
  StateBytes least = keptStateBytes(job, constraints, constraints.optimizerStates.value_or(OptimizerStates::Device));
  bool varies = !constraints.optimizerStates && mayKeepStatesOtherwise(job);
  for (OptimizerStates one : varies ? job.trainer->space.optimizerStates : std::vector<OptimizerStates>())
    if (StateBytes its = keptStateBytes(job, constraints, one); its.states < least.states && keepsNumbers(one))
      least = its;
  return least;
}

Bounds::Bounds(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
               const PlanSearchOptions &options, MemoryLimit memoryLimit)
    : all(cluster), layouts(layouts), options(options), memoryLimit(memoryLimit), trainer(*job.trainer),
      stateBytes(plannedStateBytes(job, options.constraints)) {
  for (size_t kind = 0; kind < stateBytesOfKind.size(); ++kind)
    stateBytesOfKind[kind] = keptStateBytes(job, options.constraints, static_cast<OptimizerStates>(kind));
  if (options.constraints.overlap)
    pinnedOverlap = parseOverlap(*options.constraints.overlap);
}

std::string limitText(const MemoryLimit &limit, const Cluster &cluster) {
  if (cluster.mixed() && std::isinf(limit.bytes))
    return "the memory of its devices";
  return bytesText(cluster.mixed() ? limit.bytes : limit.onDevice(cluster.device)) + " a device";
}

Overlap Bounds::plannedOverlap(const Choice &choice) const {
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  int sharding =
      pinned.empty() ? choice.optimizerSharding : static_cast<int>(*std::max_element(pinned.begin(), pinned.end()));
  if (pinnedOverlap)
    return *pinnedOverlap;
  Overlap overlap = trainer.overlap({choice.sizes.stage, choice.schedule, sharding, choice.sequenceParallel});
  overlap.experts =
      choice.level >= Choice::Level::Execution ? choice.overlapsExperts : theSpace->mayOverlapExperts(choice);
  return overlap;
}

Result<Bounds> Bounds::make(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                            const PlanSearchOptions &options, MemoryLimit memoryLimit) {
  Bounds bounds(cluster, job, layouts, options, memoryLimit);
  auto whole = bounds.workOf({1, 1, 1, 1, false, options.constraints.attention != AttentionKernels::Unfused});
  if (!whole)
    return whole.error();
  if (!*whole)
    return Error{"the model cannot be laid out on one rank; remove constraints on its ops and arguments"};
  bounds.theSpace.emplace(options, job, cluster, (*whole)->layers());
  return bounds;
}

LayoutKey Bounds::keyOf(const Choice &choice) const {
  return {choice.sizes.model,      choice.sizes.context,
          choice.sizes.expert,     choice.microbatch,
          choice.sequenceParallel, options.constraints.attention != AttentionKernels::Unfused,
          choice.ulysses,          choice.solved};
}

Result<const ModelWork *> Bounds::workOf(const LayoutKey &key) {
  auto work = layouts(key);
  if (work && *work && kernelSeconds.try_emplace(key).second) {
    ++layoutCount;
    for (const Cluster *group : uniformGroups(all))
      kernelSeconds[key].push_back(
          passSeconds(**work, group->device, nullptr, Overlap(), trainer.prices, options.constraints.recompute));
  }
  return work;
}

const Cluster &Bounds::clusterOf(int64_t ranks) {
  auto known = clusters.find(ranks);
  if (known == clusters.end())
    known = clusters.emplace(ranks, *firstRanks(all, ranks)).first;
  return known->second;
}

std::shared_ptr<const Cluster> Bounds::clusterOfRanks(int64_t ranks) {
  std::shared_ptr<const Cluster> &known = clustersOfRanks[ranks];
  if (!known)
    known = kerf::clusterOfRanks(clusterOf(ranks), ranks);
  return known;
}

const PipelineModel &Bounds::pipelineOf(const Choice &choice) {
  MeshModels &meshModels = models[{choice.sizes.asArray(), choice.order}];
  if (meshModels.pipeline)
    return *meshModels.pipeline;
  Mesh mesh = theSpace->mesh(choice);
  const Cluster &cluster = clusterOf(mesh.ranks());
  if (cluster.mixed()) {
    meshModels.pipeline = std::move(*PipelineModel::make(mesh, cluster));
  } else {
    meshModels.alike = std::make_unique<CollectiveModel>(mesh, clusterOfRanks(mesh.ranks()), shapes);
    meshModels.pipeline.emplace(*meshModels.alike);
  }
  return *meshModels.pipeline;
}

bool Bounds::accumulatesFullGradients(const Choice &choice) const {
  if (trainer.prices.accumulatesInProducts || theSpace->microbatches(choice) == 1)
    return false;
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  auto priced = [&](int64_t level) {
    return pricedSharding(trainer.prices, static_cast<int>(level), choice.sizes.stage);
  };
  if (!pinned.empty())
    return std::ranges::all_of(pinned, [&](int64_t level) { return priced(level) < 2; });
  bool decided = choice.level == Choice::Level::Execution || choice.level == Choice::Level::Cut;
  return decided && priced(choice.optimizerSharding) < 2;
}

int Bounds::microbatchReductionLevel(const Choice &choice) const {
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  bool decided = choice.level == Choice::Level::Execution || choice.level == Choice::Level::Cut;
  if (!decided || pinned.size() > 1 || trainer.prices.gathers.replicatedBelowElements != 0)
    return 0;
  int level = pricedSharding(
      trainer.prices, pinned.empty() ? choice.optimizerSharding : static_cast<int>(pinned.front()), choice.sizes.stage);
  const bool beside =
      reductionTiming(level, true) == ReductionTiming::EveryMicrobatch && plannedOverlap(choice).gradients;
  return beside ? level : 0;
}

const PassSeconds &Bounds::passesOn(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives) {
  const bool accumulates = accumulatesFullGradients(choice);
  const int reduced = microbatchReductionLevel(choice);
  const bool splits = choice.level >= Choice::Level::Execution && recordOf(choice.schedule).splitsBackward;
  Overlap overlap = plannedOverlap(choice);
  overlap.tensor = overlap.tensor && !splits; // the halves of a split backward have no kernels of each other
  auto [entry, isNew] = passes.try_emplace(
      {keyOf(choice), &collectives, accumulates, reduced, reduced ? choice.shardingRanks : 0, splits, overlap.experts});
  if (isNew) {
    MicrobatchGradients gradients{accumulates ? &stateBytes : nullptr, nullptr, splits};
    if (reduced)
      gradients.reductionSeconds = &parametersOf(choice, work, collectives, reduced).seconds.reductionBySegment;
    entry->second = passSeconds(work, collectives.cluster().device, &collectives, overlap, trainer.prices,
                                options.constraints.recompute, gradients);
  }
  return entry->second;
}

std::vector<Bounds::StageGroup> Bounds::stageGroups(const Choice &choice) {
  const std::vector<int> &groups = theSpace->groupsOf(choice.sizes);
  std::vector<const Cluster *> parts = uniformGroups(all);
  if (groups.empty())
    return {{parts.front(), 0, 0, choice.sizes.stage}};
  std::vector<StageGroup> list;
  for (size_t s = 0; s < groups.size(); ++s) {
    if (list.empty() || list.back().number != static_cast<size_t>(groups[s]))
      list.push_back({parts[groups[s]], static_cast<size_t>(groups[s]), static_cast<int64_t>(s), 0});
    ++list.back().stages;
  }
  return list;
}

std::vector<Choice> Bounds::orders(const Choice &layout, const ModelWork &work) {
  std::set<std::vector<AxisRef>> groups, parameterGroups;
  if (theSpace->groupsOf(layout.sizes).empty()) // on a mixed cluster it is always the outermost axis
    groups.insert({AxisRef{planAxis("stage"), 1, 0}});
  for (const ChainSegment &entry : work.chain) {
    const Segment &segment = entry.segment;
    for (const PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient})
      for (const PassCollective &collective : pass->collectives)
        groups.insert(collective.axes);
    for (const ParameterGroup &group : segment.parameters)
      parameterGroups.insert(group.reduceAxes);
    for (const ParameterGroup &group : segment.copied)
      groups.insert(group.reduceAxes);
  }
  groups.insert(parameterGroups.begin(), parameterGroups.end());
  std::vector<Choice> orders;
  std::vector<std::vector<GroupShape>> known;
  Choice choice = layout;
  choice.level = Choice::Level::Order;
  for (const AxisOrder &order : theSpace->orders(layout)) {
    choice.order = order;
    const PipelineModel &pipeline = pipelineOf(choice);
    std::vector<GroupShape> shape;
    for (const StageGroup &part : stageGroups(choice)) {
      const CollectiveModel &collectives = pipeline.collectives(part.firstStage);
      const Mesh &mesh = collectives.mesh();
      for (const std::vector<AxisRef> &group : groups)
        shape.push_back(collectives.group(onMesh(group, mesh)));
      for (int64_t ranks : theSpace->shardingRanks(mesh)) {
        if (!ranks)
          continue;
        for (const std::vector<AxisRef> &group : parameterGroups) {
          ShardAxes shares = shardAxes(onMesh(group, mesh), shardingAxes(mesh, ranks));
          shape.push_back(collectives.group(shares.cut));
          shape.push_back(collectives.group(shares.copies));
        }
      }
    }
    if (std::find(known.begin(), known.end(), shape) != known.end())
      continue;
    known.push_back(std::move(shape));
    orders.push_back(choice);
  }
  return orders;
}

/// Bounds a mesh by its products at the device's best rate, spread over all ranks. On a mixed cluster a rank counts as
/// the number of ranks of the first group that are at most as fast.
Result<double> Bounds::meshBound(const Choice &choice) {
  auto work = workOf({1, 1, 1, 1, false, options.constraints.attention != AttentionKernels::Unfused});
  if (!work)
    return work.error();
  double samples = static_cast<double>(theSpace->globalBatch()) / static_cast<double>((*work)->samples);
  double ranks = 0, room = 0;
  const DeviceSpec &first = stageGroups(choice).front().cluster->device;
  for (const StageGroup &group : stageGroups(choice)) {
    auto its = static_cast<double>(group.stages * (choice.sizes.ranks() / choice.sizes.stage));
    ranks += its * (group.number == 0 ? 1 : bestCaseSpeedup(**work, group.cluster->device, first));
    room += its * memoryLimit.onDevice(group.cluster->device);
  }
  if (totalOverChain(**work, stateBytesOf(**work, Mesh(), stateBytes, {})) > room)
    return kInfinity;
  return bestCaseSeconds(**work, first, trainer.prices, options.constraints.recompute) * samples / ranks;
}

double Bounds::mixedSeconds(const Choice &choice, const ModelWork &work,
                            const std::function<const PassSeconds &(const StageGroup &)> &passesOf) {
  std::vector<StageGroup> groups = stageGroups(choice);
  const PassSeconds &first = passesOf(groups.front());
  std::vector<double> speeds; // of each stage, relative to a stage of the first group
  for (const StageGroup &group : groups)
    speeds.insert(speeds.end(), group.stages, group.number == 0 ? 1 : relativeLayerSpeed(work, passesOf(group), first));
  // Seconds of the model on the first group. The first group runs what stands before the layers, the last
  // group what follows them.
  double whole = 0;
  for (size_t l = 0; l < work.chain.size(); ++l)
    if (int64_t layers = work.chain[l].layers)
      whole += static_cast<double>(layers) * first.segments[l].total();
    else if (l == 0)
      whole += first.segments[l].total();
    else if (l + 1 == work.chain.size())
      whole += passesOf(groups.back()).segments[l].total() * speeds.back();
  auto microbatches = static_cast<double>(theSpace->microbatches(choice));
  double bound = microbatches * whole / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  if (choice.level == Choice::Level::Execution && choice.chunks == 1 && !recordOf(choice.schedule).splitsBackward) {
    // With w_s the seconds of a microbatch on stage s, T >= w_0 + ... + w_{s-1} + m w_s for every s. A combination of
    // these inequalities bounds T from below by the sum of speed_s * w_s.
    double proportions = 0;
    for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed)
      proportions += std::max(0.0, (*speed - proportions) / microbatches);
    bound = std::max(bound, whole / proportions);
  }
  return bound;
}

double Bounds::forcedEvenly(const Choice &choice, const ModelWork &work, const ActivationBytes &activations,
                            const PassSeconds &pass) {
  ScheduleOptions least = theSpace->schedule(choice);
  least.kind = ScheduleKind::ZeroBubbleByMemory; // no schedule has a smaller bubble
  bool pinned = !options.constraints.optimizerSharding.empty();
  std::vector<double> states =
      pinned ? std::vector<double>(work.chain.size()) : stateBytesOf(work, theSpace->mesh(choice), stateBytes, {3});
  const DeviceSpec &device = stageGroups(choice).front().cluster->device;
  StagePrices stage{&pass, &device, recomputeLimit(device)};
  return forcedRecomputeSeconds({work, activations, states, std::span(&stage, 1), trainer.space.recompute}, least,
                                /*waits=*/false); // of any schedule
}

double Bounds::evenSeconds(const Choice &choice, const ModelWork &work, const ActivationBytes &activations,
                           const PassSeconds &pass) {
  double forced = forcedEvenly(choice, work, activations, pass);
  return evenlyFilled(static_cast<double>(choice.sizes.stage), static_cast<double>(theSpace->microbatches(choice)),
                      theSpace->layers(), pass.total() + forced, pass.total() - pass.weightGradient + forced,
                      pass.layer);
}

double Bounds::roomOfStages(const Choice &choice) {
  double room = 0;
  for (const StageGroup &group : stageGroups(choice)) {
    const DeviceSpec &device = group.cluster->device;
    const double always = deviceBytes(0, device), each = deviceBytes(1, device) - always; // of one allocated byte
    room += static_cast<double>(group.stages) * std::max(0.0, memoryLimit.onDevice(device) - always) / each;
  }
  return room / kSumRounding;
}

/// Returns the elements of the parameters of each entry of the chain; for a run of layers, of one layer.
static std::vector<double> elementsByEntry(const ModelWork &model) {
  std::vector<double> elements;
  for (const ChainSegment &entry : model.chain) {
    double &its = elements.emplace_back(0);
    for (const ParameterGroup &group : entry.segment.parameters)
      its += group.elements;
  }
  return elements;
}

bool Bounds::partsFit(const Choice &choice, const ModelWork &work, const std::vector<double> *stateBytes, int level) {
  const StateBytes &bytes = this->stateBytes;
  const std::vector<StageGroup> groups = stageGroups(choice);
  const std::vector<double> all = elementsByEntry(work);
  for (size_t l = 0; l < work.chain.size(); ++l) {
    const double elements = all[l];
    // A rank has all elements of its part at once, whatever the sharding: parameters and gradients with levels 0 and 1,
    // parameters and one gathered copy with level 2, two gathered copies with level 3 (StepMemory.cpp).
    double least = elements * (bytes.weight + std::min(bytes.weight, bytes.gradient));
    if (stateBytes)
      least = (*stateBytes)[l] + elements * bytes.weight * (level >= 3 ? 2 : level == 2 ? 1 : 0);
    if (std::ranges::none_of(groups, [&](const StageGroup &group) {
          const DeviceSpec &device = group.cluster->device;
          return deviceBytes(least, device) <= memoryLimit.onDevice(device);
        }))
      return false;
  }
  return true;
}

/// Bounds a layout by its kernels, without any communication.
Result<double> Bounds::layoutBound(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  if (!*work)
    return kInfinity;
  if (!partsFit(choice, **work, nullptr, 0))
    return kInfinity;
  const std::vector<PassSeconds> &passes = kernelSeconds.at(key);
  if (theSpace->groupsOf(choice.sizes).empty())
    return evenSeconds(choice, **work, activationBytesOfLayout(key, **work), passes.front());
  return mixedSeconds(choice, **work,
                      [&](const StageGroup &group) -> const PassSeconds & { return passes[group.number]; });
}

/// Bounds an order of the axes by kernels and collectives.
Result<double> Bounds::orderBound(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const PipelineModel &pipeline = pipelineOf(choice);
  if (!pipeline.stages()) {
    const PassSeconds &pass = passesOn(choice, **work, pipeline.collectives(0));
    double tasks = static_cast<double>(theSpace->microbatches(choice)) * pass.total();
    return std::max(evenSeconds(choice, **work, activationBytesOfLayout(key, **work), pass),
                    (tasks + 2 * tiedSeconds(choice, **work)) / static_cast<double>(choice.sizes.stage));
  }
  return mixedSeconds(choice, **work, [&](const StageGroup &group) -> const PassSeconds & {
    return passesOn(choice, **work, pipeline.collectives(group.firstStage));
  });
}

const ActivationBytes &Bounds::activationBytesOfLayout(const LayoutKey &key, const ModelWork &work) {
  auto [bytes, isNew] = activationBytesByLayout.try_emplace(key);
  if (isNew)
    bytes->second = activationBytesOf(work);
  return bytes->second;
}

double Bounds::recomputeLimit(const DeviceSpec &device) const {
  bool decided = options.constraints.decidesRecompute() || options.constraints.optimizerSharding.size() > 1;
  return decided ? kInfinity : memoryLimit.onDevice(device);
}

/// The result does not depend on the size of the microbatch, so all sizes share it.
Bounds::Parameters &Bounds::parametersOf(const Choice &choice, const ModelWork &work,
                                         const CollectiveModel &collectives, int level) {
  LayoutKey key = keyOf(choice);
  key.microbatch = 1;
  bool besideBackwards = plannedOverlap(choice).gradients;
  const StateBytes &bytes = stateBytesAt(choice);
  auto [entry, isNew] =
      parameters.try_emplace({key, &collectives, level, choice.shardingRanks, besideBackwards, bytes.states});
  if (isNew) {
    OptimizerSharding sharding{level};
    if (choice.shardingRanks)
      sharding.axes = shardingAxes(collectives.mesh(), choice.shardingRanks);
    const ModelWork held = parametersOnly(work, choice.sizes.stage);
    // Level 3 gathers two layers, one in use and one ahead of it, and level 2 gathers one (StepMemory.cpp).
    const double layers = level >= 3 ? 2 : level == 2 ? 1 : 0;
    std::vector<double> gathered = elementsByEntry(held);
    for (double &one : gathered)
      one *= layers * bytes.weight;
    entry->second = {stateBytesOf(held, collectives.mesh(), bytes, sharding), std::move(gathered),
                     parameterSeconds(held, collectives, bytes, sharding, besideBackwards, trainer.prices.bucketBytes),
                     totalOverChain(held, stateBytesOf(held, collectives.mesh(), {0, 0, 1}, sharding))};
  }
  return entry->second;
}

Result<double> Bounds::lowerBound(const Choice &choice, double cutoff) {
  switch (choice.level) {
  case Choice::Level::Mesh:
    return meshBound(choice);
  case Choice::Level::Layout:
    return layoutBound(choice);
  case Choice::Level::Order:
    return orderBound(choice);
  case Choice::Level::Execution:
  case Choice::Level::Cut: {
    auto update = updateSeconds(choice);
    if (!update)
      return update.error();
    auto bound = choice.level == Choice::Level::Cut
                     ? cutBound(choice, theSpace->layersOfParts(choice), cutoff - *update)
                     : executionBound(choice);
    return bound ? Result<double>(*bound + *update) : bound;
  }
  case Choice::Level::Recomputation:
    break; // TreeSearch::decideRecomputation bounds these choices
  }
  return 0.0;
}

} // namespace kerf::plansearch
