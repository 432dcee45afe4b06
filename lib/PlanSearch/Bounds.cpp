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

const PipelineModel &Bounds::pipelineOf(const Choice &choice) {
  MeshModels &meshModels = models[{choice.sizes.asArray(), choice.order}];
  if (meshModels.pipeline)
    return *meshModels.pipeline;
  Mesh mesh = theSpace->mesh(choice);
  const Cluster &cluster = clusterOf(mesh.ranks());
  if (cluster.mixed()) {
    meshModels.pipeline = std::move(*PipelineModel::make(mesh, cluster));
  } else {
    meshModels.alike = std::make_unique<CollectiveModel>(mesh, cluster, shapes);
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
  return reductionTiming(level, true) == ReductionTiming::EveryMicrobatch && plannedOverlap(choice).gradients ? level
                                                                                                              : 0;
}

const PassSeconds &Bounds::passesOn(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives) {
  const bool accumulates = accumulatesFullGradients(choice);
  const int reduced = microbatchReductionLevel(choice);
  const bool splits = reduced && recordOf(choice.schedule).splitsBackward;
  const Overlap overlap = plannedOverlap(choice);
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

Bounds::MessageSeconds Bounds::messageSecondsOf(const Choice &choice, const ModelWork &work,
                                                const PipelineModel &pipeline, int64_t stage) {
  if (choice.sizes.stage == 1)
    return {};
  StageMessage message = messageOf(work, pipeline.mesh(), trainer.prices.sends);
  bool alike = !pipeline.stages() && !pipeline.messagesDiffer();
  auto seconds = [&](int64_t to) {
    return alike || (to >= 0 && to < choice.sizes.stage) ? messageSeconds(pipeline, stage, to, message) : 0.0;
  };
  return {seconds(stage + 1), seconds(stage - 1)};
}

double Bounds::tiedSeconds(const Choice &choice, const ModelWork &work) {
  if (choice.sizes.stage == 1 || theSpace->layers() == 0)
    return 0;
  double elements = 0;
  for (const ParameterGroup &group : tiedToLast(work))
    elements += group.elements;
  const PipelineModel &pipeline = pipelineOf(choice);
  const StageMessage message = messageOf(work, pipeline.mesh(), trainer.prices.sends);
  return kSumRounding *
         pipeline.sendSeconds(0, choice.sizes.stage - 1, message.axes, elements * stateBytesAt(choice).gradient);
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
  least.kind = ScheduleKind::ZeroBubble2P; // no schedule has a smaller bubble
  bool pinned = !options.constraints.optimizerSharding.empty();
  std::vector<double> states =
      pinned ? std::vector<double>(work.chain.size()) : stateBytesOf(work, theSpace->mesh(choice), stateBytes, {3});
  const DeviceSpec &device = stageGroups(choice).front().cluster->device;
  StagePrices stage{&pass, &device, recomputeLimit(device)};
  return forcedRecomputeSeconds({work, activations, states, std::span(&stage, 1)}, least);
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
static std::vector<double> elementsOf(const ModelWork &model) {
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
  const std::vector<double> all = elementsOf(work);
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
    std::vector<double> gathered = elementsOf(held);
    for (double &one : gathered)
      one *= layers * bytes.weight;
    entry->second = {stateBytesOf(held, collectives.mesh(), bytes, sharding), std::move(gathered),
                     parameterSeconds(held, collectives, bytes, sharding, besideBackwards, trainer.prices.bucketBytes),
                     totalOverChain(held, stateBytesOf(held, collectives.mesh(), {0, 0, 1}, sharding))};
  }
  return entry->second;
}

Bounds::FirstPartSeconds Bounds::firstPartSeconds(const Choice &choice, const ModelWork &work,
                                                  const PassSeconds &pass) const {
  double forward = kInfinity, backward = kInfinity; // of the cheapest layer
  for (size_t l = 0; l < work.chain.size(); ++l)
    if (work.chain[l].layers) {
      forward = std::min(forward, pass.segments[l].forward);
      backward = std::min(backward, pass.segments[l].backward());
    }
  if (forward == kInfinity)
    return {};
  const int64_t parts = choice.sizes.stage * choice.chunks, layers = theSpace->layers();
  // The parts between the first and the last one hold the fewest layers when these two hold the most (docs/search.md).
  const int64_t ends = 2 * ((layers + parts - 1) / parts + 1), between = std::max<int64_t>(0, layers - ends);
  double count =
      static_cast<double>(choice.sizes.stage - 1); // layers, each as often as stages follow it; one in part 0
  for (int64_t stage = 1; stage + 1 < choice.sizes.stage; ++stage) {
    int64_t least = between / (parts - 2) + (stage - 1 < between % (parts - 2) ? 1 : 0);
    count += static_cast<double>((choice.sizes.stage - 1 - stage) * least);
  }
  return {count * forward, count * backward};
}

/// Bounds a schedule and an optimizer sharding: adds pipeline bubbles, and gathers and reductions of parameters.
Result<double> Bounds::executionBound(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const PipelineModel &pipeline = pipelineOf(choice);
  const CollectiveModel &collectives = pipeline.collectives(0);
  const DeviceSpec &device = collectives.cluster().device;
  const PassSeconds &pass = passesOn(choice, **work, collectives);
  auto stages = static_cast<double>(choice.sizes.stage),
       microbatches = static_cast<double>(theSpace->microbatches(choice));
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  bool alike = pinned.empty() || pinned.size() == 1;
  int most = pricedSharding(trainer.prices,
                            pinned.empty() ? choice.optimizerSharding
                                           : static_cast<int>(*std::max_element(pinned.begin(), pinned.end())),
                            choice.sizes.stage);
  Parameters &parameters = parametersOf(choice, **work, collectives, most);
  if (totalOverChain(**work, parameters.stateBytes) > roomOfStages(choice) ||
      (alike && !partsFit(choice, **work, &parameters.stateBytes, most)))
    return kInfinity;
  if (pipeline.stages())
    return orderBound(choice);
  StagePrices stage{&pass, &device, pinned.size() > 1 ? kInfinity : recomputeLimit(device)};
  double forced = forcedRecomputeSeconds(
      {**work, activationBytesOfLayout(key, **work), parameters.stateBytes, std::span(&stage, 1)},
      theSpace->schedule(choice));
  // Seconds of gradients: those that every microbatch repeats, those that no backward pass hides, and those of the
  // first entry of the chain, whose backward pass is the last.
  double everyMicrobatch = 0, reduction = 0, last = 0;
  if (alike && trainer.prices.gathers.replicatedBelowElements == 0) {
    everyMicrobatch = (microbatches - 1) * parameters.seconds.everyMicrobatch / stages;
    // A stage's gradients are complete after the last microbatch's backward pass; with several chunks, those of the
    // last chunk are complete before the last group of microbatches passes back through the earlier chunks.
    double beside = choice.chunks > 1 ? std::ceil(microbatches / std::max(1.0, std::floor(microbatches / stages))) : 1;
    double each = recordOf(choice.schedule).splitsBackward ? pass.weightGradient : pass.backward + forced;
    bool afterBackward = reductionTiming(most, plannedOverlap(choice).gradients) == ReductionTiming::AfterBackward;
    reduction =
        parameters.seconds.reductionTotal + parameters.seconds.copiesTotal - (afterBackward ? 0 : beside * each);
    reduction = std::max(0.0, reduction);
    last = parameters.seconds.reductionBySegment.front() + parameters.seconds.copiesBySegment.front();
  }
  const double tied = tiedSeconds(choice, **work);
  double bound = std::max(everyMicrobatch, tasksBound(choice, **work, pass, forced, reduction));
  if (!recordOf(choice.schedule).splitsBackward) // the first stage ends last
    return std::max(bound, std::max(everyMicrobatch, tasksBound(choice, **work, pass, forced, 0)) + last + tied);
  bound = std::max(bound, (microbatches * (pass.total() + forced) + reduction + 2 * tied) / stages);
  return options.constraints.stages.empty() ? std::max(bound, microbatches * pass.layer + tied) : bound;
}

double Bounds::tasksBound(const Choice &choice, const ModelWork &work, const PassSeconds &pass, double forced,
                          double reduction) {
  const PipelineModel &pipeline = pipelineOf(choice);
  auto stages = static_cast<double>(choice.sizes.stage),
       microbatches = static_cast<double>(theSpace->microbatches(choice));
  double layers = std::ceil(static_cast<double>(theSpace->layers()) / stages);
  double busiest = std::max((pass.total() + forced) / stages, layers * pass.layer);
  // The busiest stage takes at least the average.
  double bound = std::max(microbatches * busiest, (microbatches * (pass.total() + forced) + reduction) / stages);
  if (choice.chunks > 1 && !recordOf(choice.schedule).splitsBackward && options.constraints.stages.empty()) {
    // Every microbatch enters stage s through the first parts of the stages before it, and leaves it through them: the
    // first task of a stage is the forward pass of its first part, the last one the backward pass of that part. So
    // T >= f_0 + ... + f_{s-1} + s a + m w_s + max(b_0 + ... + b_{s-1} + s a', r_s), with f and b the seconds of first
    // parts, and the mean over s of these inequalities holds whatever the cut.
    FirstPartSeconds parts = firstPartSeconds(choice, work, pass);
    MessageSeconds messages = messageSecondsOf(choice, work, pipeline, 0);
    // A microbatch passes through all parts and back, and is sent at each border.
    double borders = stages * static_cast<double>(choice.chunks) - 1;
    bound = std::max(bound, pass.total() + forced + borders * (messages.forward + messages.backward));
    double hops = stages * (stages - 1) / 2;
    double entering = parts.forward + hops * messages.forward, leaving = parts.backward + hops * messages.backward;
    bound =
        std::max(bound, (microbatches * (pass.total() + forced) + entering + std::max(leaving, reduction)) / stages);
  }
  if (choice.chunks == 1) {
    // As in filledShare, where the reductions of stage s and its messages, a seconds there and back, add r_s + s a to
    // the inequality of stage s. All of r is counted with the least weight, that of stage 0. Where weight gradients are
    // tasks of their own, other tasks may take their place, and reductions follow them.
    const bool split = recordOf(choice.schedule).splitsBackward;
    double left = 1 - 1 / microbatches, between = 0;
    MessageSeconds messages = messageSecondsOf(choice, work, pipeline, 0);
    for (double s = 1; s < stages; ++s)
      between += std::pow(left, stages - 1 - s) / microbatches * s * (messages.forward + messages.backward);
    double passing = pass.total() - (split ? pass.weightGradient : 0) + forced + between,
           after = split ? 0 : std::pow(left, stages - 1) / microbatches * reduction;
    bound = std::max(bound, (passing + after) / filledShare(stages, microbatches));
    // A microbatch is in flight on the first stage while it goes to the last stage and back.
    if (!recordOf(choice.schedule).searched) {
      double there = passing - between + (stages - 1) * (messages.forward + messages.backward);
      bound = std::max(bound, microbatches * there / maxInFlight(theSpace->schedule(choice), 0));
    }
  }
  return bound;
}

/// Bounds a cut by the seconds and the memory of each stage.
Result<double> Bounds::cutBound(const Choice &choice, const std::vector<int64_t> &layersOfParts, double cutoff) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  if (!theSpace->decidesCut(choice) || theSpace->layers() == 0)
    return 0.0;
  const PipelineModel &pipeline = pipelineOf(choice);
  const Plan &given = options.constraints;
  int sharding = pricedSharding(trainer.prices,
                                given.optimizerSharding.empty() ? choice.optimizerSharding
                                                                : static_cast<int>(given.optimizerSharding.front()),
                                choice.sizes.stage);
  auto parametersAt = [&](int64_t stage) -> const Parameters & {
    return parametersOf(choice, **work, pipeline.collectives(stage), sharding);
  };
  bool reduces = given.optimizerSharding.size() <= 1 && trainer.prices.gathers.replicatedBelowElements == 0;
  const Overlap overlap = plannedOverlap(choice);
  std::vector<StagePrices> stages;
  bool differ = pipeline.stages() || pipeline.messagesDiffer();
  for (int64_t s = 0; s < (differ ? choice.sizes.stage : 1); ++s) {
    const DeviceSpec &device = pipeline.device(s);
    MessageSeconds messages = messageSecondsOf(choice, **work, pipeline, s);
    stages.push_back({&passesOn(choice, **work, pipeline.collectives(s)), &device, recomputeLimit(device),
                      reduces ? &parametersAt(s).seconds.reductionBySegment : nullptr,
                      reduces ? &parametersAt(s).seconds.copiesBySegment : nullptr, messages.forward, messages.backward,
                      given.optimizerSharding.size() <= 1 ? memoryLimit.onDevice(device) : kInfinity});
  }
  return cutSecondsLowerBound({**work, activationBytesOfLayout(key, **work), parametersAt(0).stateBytes, stages,
                               reductionTiming(sharding, overlap.gradients), overlap.stage, tiedSeconds(choice, **work),
                               &parametersAt(0).gatheredBytes, given.recompute},
                              layersOfParts, theSpace->schedule(choice), cutoff);
}

Result<double> Bounds::boundOfAllCuts(const Choice &execution, double cutoff) {
  const std::vector<int64_t> least = theSpace->leastLayersOfParts(execution);
  auto work = workOf(keyOf(execution));
  if (!work)
    return work.error();
  // Where there are several kinds of layers, other cuts give a part other kinds.
  auto isRun = [](const ChainSegment &entry) { return entry.layers > 0; };
  if (least.empty() || std::ranges::count_if((*work)->chain, isRun) != 1)
    return 0.0;
  auto update = updateSeconds(execution);
  if (!update)
    return update.error();
  auto bound = cutBound(execution, least, cutoff - *update);
  return bound ? Result<double>(*bound + *update) : bound;
}

Result<double> Bounds::updateSeconds(const Choice &choice) {
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  auto work = workOf(keyOf(choice));
  if (!work)
    return work.error();
  const PipelineModel &pipeline = pipelineOf(choice);
  if (pinned.size() > 1 || pipeline.stages() || trainer.prices.gathers.replicatedBelowElements != 0)
    return 0.0;
  const int level = pricedSharding(
      trainer.prices, pinned.empty() ? choice.optimizerSharding : static_cast<int>(pinned.front()), choice.sizes.stage);
  const CollectiveModel &collectives = pipeline.collectives(0);
  const Parameters &parameters = parametersOf(choice, **work, collectives, level);
  auto stages = static_cast<double>(choice.sizes.stage);
  double gathers = plannedOverlap(choice).parameters ? 0 : parameters.seconds.gatherTotal / stages;
  return kSumRounding *
         (gathers + kerf::updateSeconds(collectives.cluster().device, parameters.updatedElements / stages,
                                        stateBytesAt(choice), trainer.prices.update));
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
