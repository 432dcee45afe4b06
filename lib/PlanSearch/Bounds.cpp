// SPDX-License-Identifier: Apache-2.0
#include "Bounds.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace kerf::plansearch {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

Bounds::Bounds(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
               const PlanSearchOptions &options, MemoryLimit memoryLimit)
    : all(cluster), layouts(layouts), options(options), memoryLimit(memoryLimit), trainer(*job.trainer) {
  const Plan &given = options.constraints;
  std::string gradients = given.gradientDtype;
  bool mixed = job.dtype != "f32" && job.dtype != "f64";
  stateBytes = kerf::stateBytes(job.dtype == "f8" ? "bf16" : job.dtype,
                                gradients.empty() ? (mixed ? "f32" : job.dtype) : gradients, job.moments);
  if (given.overlap)
    pinnedOverlap = kerf::overlapOf(*given.overlap);
}

Overlap Bounds::overlapOf(const Choice &choice) const {
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  int sharding =
      pinned.empty() ? choice.optimizerSharding : static_cast<int>(*std::max_element(pinned.begin(), pinned.end()));
  return pinnedOverlap ? *pinnedOverlap
                       : trainer.overlap({choice.frame.stage, choice.schedule, sharding, choice.sequenceParallel});
}

Result<Bounds> Bounds::make(const Cluster &cluster, const TrainingJob &job, const LayoutSource &layouts,
                            const PlanSearchOptions &options, MemoryLimit memoryLimit) {
  Bounds bounds(cluster, job, layouts, options, memoryLimit);
  auto whole = bounds.workOf({1, 1, 1, 1, false, options.constraints.attention != AttentionKernels::Unfused});
  if (!whole)
    return whole.error();
  if (!*whole)
    return Error{"the model cannot be laid out on one rank"};
  bounds.theSpace.emplace(options, job, cluster, (*whole)->layers());
  return bounds;
}

LayoutKey Bounds::keyOf(const Choice &choice) const {
  return {choice.frame.model,      choice.frame.context,
          choice.frame.expert,     choice.microbatch,
          choice.sequenceParallel, options.constraints.attention != AttentionKernels::Unfused,
          choice.ulysses,          choice.solved};
}

Result<const ModelWork *> Bounds::workOf(const LayoutKey &key) {
  auto work = layouts(key);
  if (work && *work && kernels.try_emplace(key).second) {
    ++layoutCount;
    for (const Cluster *group : alikeParts(all))
      kernels[key].push_back(passSeconds(**work, group->device, nullptr, Overlap(), trainer.prices));
  }
  return work;
}

const Cluster &Bounds::clusterOf(int64_t ranks) {
  auto known = clusters.find(ranks);
  if (known == clusters.end())
    known = clusters.emplace(ranks, *firstRanks(all, ranks)).first;
  return known->second;
}

/// Of the choice's mesh in its order, which the space has.
const PipelineModel &Bounds::pipelineOf(const Choice &choice) {
  Links &links = models[{choice.frame.sizes(), choice.order}];
  if (links.pipeline)
    return *links.pipeline;
  Mesh mesh = theSpace->mesh(choice);
  const Cluster &cluster = clusterOf(mesh.ranks());
  if (cluster.mixed()) {
    links.pipeline = std::move(*PipelineModel::make(mesh, cluster));
  } else {
    links.alike = std::make_unique<CollectiveModel>(mesh, cluster, shapes);
    links.pipeline.emplace(*links.alike);
  }
  return *links.pipeline;
}

/// Whether kernels add up the whole gradients of all parameters in every microbatch, whatever else is decided later.
bool Bounds::accumulatesWhole(const Choice &choice) const {
  if (trainer.prices.accumulatesInProducts || theSpace->microbatches(choice) == 1)
    return false;
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  if (!pinned.empty())
    return *std::max_element(pinned.begin(), pinned.end()) < 2;
  bool decided = choice.level == Choice::Level::Execution || choice.level == Choice::Level::Cut;
  return decided && choice.optimizerSharding < 2;
}

/// With the collectives on their links.
const PassSeconds &Bounds::passesOn(const Choice &choice, const ModelWork &work, const CollectiveModel &collectives) {
  const bool accumulates = accumulatesWhole(choice);
  auto [entry, isNew] = passes.try_emplace({keyOf(choice), &collectives, accumulates});
  if (isNew)
    entry->second = passSeconds(work, collectives.cluster().device, &collectives, overlapOf(choice), trainer.prices,
                                accumulates ? &stateBytes : nullptr);
  return entry->second;
}

/// Messages from a stage to its neighbours, where it has them.
Bounds::Sends Bounds::sendsOf(const Choice &choice, const ModelWork &work, const PipelineModel &pipeline,
                              int64_t stage) {
  if (choice.frame.stage == 1)
    return {};
  StageMessage message = messageOf(work, pipeline.mesh(), trainer.prices.sends);
  bool alike = !pipeline.stages();
  auto seconds = [&](int64_t to) {
    return alike || (to >= 0 && to < choice.frame.stage) ? messageSeconds(pipeline, stage, to, message) : 0.0;
  };
  return {seconds(stage + 1), seconds(stage - 1)};
}

/// Stages of the mesh that lie in one group.
struct Bounds::Group {
  const Cluster *cluster = nullptr;
  size_t number = 0;
  int64_t firstStage = 0, stages = 0;
};

std::vector<Bounds::Group> Bounds::groupsOf(const Choice &choice) {
  const std::vector<int> &groups = theSpace->groupsOf(choice.frame);
  std::vector<const Cluster *> parts = alikeParts(all);
  if (groups.empty())
    return {{parts.front(), 0, 0, choice.frame.stage}};
  std::vector<Group> list;
  for (size_t s = 0; s < groups.size(); ++s) {
    if (list.empty() || list.back().number != static_cast<size_t>(groups[s]))
      list.push_back({parts[groups[s]], static_cast<size_t>(groups[s]), static_cast<int64_t>(s), 0});
    ++list.back().stages;
  }
  return list;
}

std::vector<Choice> Bounds::orders(const Choice &layout, const ModelWork &work) {
  std::set<std::vector<AxisRef>> groups, parameterGroups;
  if (theSpace->groupsOf(layout.frame).empty()) // else it is the outermost axis in any order
    groups.insert({AxisRef{planAxis("stage"), 1, 0}});
  for (const ChainLink &link : work.chain) {
    const Segment &segment = link.segment;
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
    for (const Group &part : groupsOf(choice)) {
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

/// Products at the best rate there is, on as many ranks as the mesh has: of several groups, each rank counts as many as
/// the first one's that do the most that it can do in that time.
Result<double> Bounds::ofMesh(const Choice &choice) {
  auto work = workOf({1, 1, 1, 1, false, options.constraints.attention != AttentionKernels::Unfused});
  if (!work)
    return work.error();
  double samples = static_cast<double>(theSpace->globalBatch()) / static_cast<double>((*work)->samples);
  double ranks = 0, room = 0;
  const Device &first = groupsOf(choice).front().cluster->device;
  for (const Group &group : groupsOf(choice)) {
    auto its = static_cast<double>(group.stages * (choice.frame.ranks() / choice.frame.stage));
    ranks += its * (group.number == 0 ? 1 : bestSpeed(**work, group.cluster->device, first));
    room += its * memoryLimit.of(group.cluster->device);
  }
  if (wholeOf(**work, stateBytesOf(**work, Mesh(), stateBytes, {})) > room)
    return kInfinity;
  return bestSeconds(**work, first) * samples / ranks;
}

/// Each stage does at most so much of the layers as its speed is of what one of the first group does.
double Bounds::mixedSeconds(const Choice &choice, const ModelWork &work,
                            const std::function<const PassSeconds &(const Group &)> &passesOf) {
  std::vector<Group> groups = groupsOf(choice);
  const PassSeconds &first = passesOf(groups.front());
  std::vector<double> speeds; // of stages
  for (const Group &group : groups)
    speeds.insert(speeds.end(), group.stages, group.number == 0 ? 1 : speedOf(work, passesOf(group), first));
  double whole = 0; // in the first group's seconds; what stands before the layers is on it, what follows on the last
  for (size_t l = 0; l < work.chain.size(); ++l)
    if (int64_t layers = work.chain[l].layers)
      whole += static_cast<double>(layers) * first.links[l].whole();
    else if (l == 0)
      whole += first.links[l].whole();
    else if (l + 1 == work.chain.size())
      whole += passesOf(groups.back()).links[l].whole() * speeds.back();
  auto microbatches = static_cast<double>(theSpace->microbatches(choice));
  double bound = microbatches * whole / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  if (choice.level == Choice::Level::Execution && choice.chunks == 1 && !recordOf(choice.schedule).splitsBackward) {
    // T >= w_0 + ... + w_{s-1} + m w_s, of which the proportions make at least the sum of speed_s w_s.
    double proportions = 0;
    for (auto speed = speeds.rbegin(); speed != speeds.rend(); ++speed)
      proportions += std::max(0.0, (*speed - proportions) / microbatches);
    bound = std::max(bound, whole / proportions);
  }
  return bound;
}

/// Stages evenly filled, whatever the schedule and the sharding.
double Bounds::evenSeconds(const Choice &choice, const ModelWork &work, const PassSeconds &pass) {
  ScheduleOptions least = theSpace->schedule(choice);
  least.kind = ScheduleKind::ZeroBubble2P; // no schedule has a smaller bubble
  bool pinned = !options.constraints.optimizerSharding.empty();
  std::vector<double> states =
      pinned ? std::vector<double>(work.chain.size()) : stateBytesOf(work, theSpace->mesh(choice), stateBytes, {3});
  const Device &device = groupsOf(choice).front().cluster->device;
  StagePrices stage{&pass, &device, recomputeLimit(device)};
  double forced = forcedSeconds({work, heldOfLayout(keyOf(choice), work), states, std::span(&stage, 1)}, least);
  auto stages = static_cast<double>(choice.frame.stage);
  double layers = std::ceil(static_cast<double>(theSpace->layers()) / stages);
  return static_cast<double>(theSpace->microbatches(choice)) *
         std::max((pass.whole() + forced) / stages, layers * pass.layer);
}

/// Kernels alone.
Result<double> Bounds::ofLayout(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  if (!*work)
    return kInfinity;
  const std::vector<PassSeconds> &passes = kernels.at(key);
  if (theSpace->groupsOf(choice.frame).empty())
    return evenSeconds(choice, **work, passes.front());
  return mixedSeconds(choice, **work, [&](const Group &group) -> const PassSeconds & { return passes[group.number]; });
}

/// With the collectives on their links.
Result<double> Bounds::ofOrder(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const PipelineModel &pipeline = pipelineOf(choice);
  if (!pipeline.stages())
    return evenSeconds(choice, **work, passesOn(choice, **work, pipeline.collectives(0)));
  return mixedSeconds(choice, **work, [&](const Group &group) -> const PassSeconds & {
    return passesOn(choice, **work, pipeline.collectives(group.firstStage));
  });
}

const LinkHeld &Bounds::heldOfLayout(const LayoutKey &key, const ModelWork &work) {
  auto [held, isNew] = heldBytesOf.try_emplace(key);
  if (isNew)
    held->second = heldOf(work);
  return held->second;
}

/// Infinite where recomputation is not for the search to decide.
double Bounds::recomputeLimit(const Device &device) const {
  bool decided = options.constraints.decidesRecompute() || options.constraints.optimizerSharding.size() > 1;
  return decided ? kInfinity : memoryLimit.of(device);
}

/// The same for all microbatches: of the layout, the axes and where they lie.
Bounds::Parameters &Bounds::parametersOf(const Choice &choice, const ModelWork &work,
                                         const CollectiveModel &collectives, int level) {
  LayoutKey key = keyOf(choice);
  key.microbatch = 1;
  bool besideBackwards = overlapOf(choice).gradients;
  auto [entry, isNew] = parameters.try_emplace({key, &collectives, level, choice.shardingRanks, besideBackwards});
  if (isNew) {
    OptimizerSharding sharding{level};
    if (choice.shardingRanks)
      sharding.axes = shardingAxes(collectives.mesh(), choice.shardingRanks);
    entry->second = {
        stateBytesOf(work, collectives.mesh(), stateBytes, sharding),
        parameterSeconds(work, collectives, stateBytes, sharding, besideBackwards, trainer.prices.bucketBytes)};
  }
  return entry->second;
}

/// With the way of the first microbatch to the last stage, and parameters gathered and reduced.
Result<double> Bounds::ofExecution(const Choice &choice) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  const PipelineModel &pipeline = pipelineOf(choice);
  const CollectiveModel &collectives = pipeline.collectives(0);
  const Device &device = collectives.cluster().device;
  const PassSeconds &pass = passesOn(choice, **work, collectives);
  auto stages = static_cast<double>(choice.frame.stage),
       microbatches = static_cast<double>(theSpace->microbatches(choice));
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  bool alike = pinned.empty() || pinned.size() == 1;
  int most =
      pinned.empty() ? choice.optimizerSharding : static_cast<int>(*std::max_element(pinned.begin(), pinned.end()));
  Parameters &parameters = parametersOf(choice, **work, collectives, most);
  double room = 0;
  for (const Group &group : groupsOf(choice))
    room += static_cast<double>(group.stages) * memoryLimit.of(group.cluster->device);
  if (wholeOf(**work, parameters.stateBytes) > room)
    return kInfinity;
  if (pipeline.stages())
    return ofOrder(choice);
  StagePrices stage{&pass, &device, pinned.size() > 1 ? kInfinity : recomputeLimit(device)};
  double forced = forcedSeconds({**work, heldOfLayout(key, **work), parameters.stateBytes, std::span(&stage, 1)},
                                theSpace->schedule(choice));
  double layers = std::ceil(static_cast<double>(theSpace->layers()) / stages);
  double busiest = std::max((pass.whole() + forced) / stages, layers * pass.layer);
  double bound = microbatches * busiest, reduction = 0; // what no backward hides, of all stages
  if (alike && trainer.prices.gathers.wholeBelowElements == 0) {
    bound = std::max(bound, (microbatches - 1) * parameters.seconds.everyMicrobatch / stages);
    // The sums of a stage are complete with the last microbatch's backward; those of its last chunk before the last
    // group of microbatches goes back through the chunks before it.
    double beside = choice.chunks > 1 ? std::ceil(microbatches / std::max(1.0, std::floor(microbatches / stages))) : 1;
    double each = recordOf(choice.schedule).splitsBackward ? pass.weightGradient : pass.backward + forced;
    bool after = reductionsOf(most, overlapOf(choice).gradients) == Reductions::After;
    reduction = parameters.seconds.reduction - (after ? 0 : beside * each);
    reduction = std::max(0.0, reduction);
  }
  // The average stage has its share of both.
  bound = std::max(bound, (microbatches * (pass.whole() + forced) + reduction) / stages);
  if (choice.chunks == 1 && !recordOf(choice.schedule).splitsBackward) {
    // Stage s waits for those before it, T >= w_0 + ... + w_{s-1} + s a + m w_s + r_s, whatever the cut; a is a message
    // there and back. These p lines in the proportions (1 - 1/m)^(p-1-s) / m: T (1 - (1 - 1/m)^p) >= W + sums of r and
    // of s a in them, the first of which weighs r the least.
    double left = 1 - 1 / microbatches, between = 0;
    Sends sends = sendsOf(choice, **work, pipeline, 0);
    for (double s = 1; s < stages; ++s)
      between += std::pow(left, stages - 1 - s) / microbatches * s * (sends.on + sends.back);
    bound = std::max(bound, (pass.whole() + forced + between + std::pow(left, stages - 1) / microbatches * reduction) /
                                (1 - std::pow(left, stages)));
  }
  return bound;
}

/// Stage by stage.
Result<double> Bounds::ofCut(const Choice &choice, double enough) {
  LayoutKey key = keyOf(choice);
  auto work = workOf(key);
  if (!work)
    return work.error();
  if (!theSpace->decidesCut(choice) || theSpace->layers() == 0)
    return 0.0;
  const PipelineModel &pipeline = pipelineOf(choice);
  const Plan &given = options.constraints;
  int sharding =
      given.optimizerSharding.empty() ? choice.optimizerSharding : static_cast<int>(given.optimizerSharding.front());
  auto parametersAt = [&](int64_t stage) -> const Parameters & {
    return parametersOf(choice, **work, pipeline.collectives(stage), sharding);
  };
  bool reduces = given.optimizerSharding.size() <= 1 && trainer.prices.gathers.wholeBelowElements == 0;
  const Overlap overlap = overlapOf(choice);
  std::vector<StagePrices> stages;
  for (int64_t s = 0; s < (pipeline.stages() ? choice.frame.stage : 1); ++s) {
    const Device &device = pipeline.device(s);
    Sends sends = sendsOf(choice, **work, pipeline, s);
    stages.push_back({&passesOn(choice, **work, pipeline.collectives(s)), &device, recomputeLimit(device),
                      reduces ? &parametersAt(s).seconds.reductions : nullptr, sends.on, sends.back});
  }
  return cutSeconds({**work, heldOfLayout(key, **work), parametersAt(0).stateBytes, stages,
                     reductionsOf(sharding, overlap.gradients), overlap.stage},
                    theSpace->layersOfParts(choice), theSpace->schedule(choice), enough);
}

Result<double> Bounds::of(const Choice &choice, double enough) {
  switch (choice.level) {
  case Choice::Level::Mesh:
    return ofMesh(choice);
  case Choice::Level::Layout:
    return ofLayout(choice);
  case Choice::Level::Order:
    return ofOrder(choice);
  case Choice::Level::Execution:
    return ofExecution(choice);
  case Choice::Level::Cut:
    return ofCut(choice, enough);
  case Choice::Level::Ready:
    break; // bounded where they are made
  }
  return 0.0;
}

} // namespace kerf::plansearch
