// SPDX-License-Identifier: Apache-2.0
#include "Space.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/CostModel/Pipeline.h"
#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace kerf::plansearch {

namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= n / d; ++d)
    if (n % d == 0) {
      list.push_back(d);
      if (d != n / d)
        list.push_back(n / d);
    }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<int64_t> upTo(int64_t n) {
  std::vector<int64_t> list(n);
  std::iota(list.begin(), list.end(), 1);
  return list;
}

} // namespace

std::vector<const Cluster *> uniformGroups(const Cluster &cluster) {
  if (!cluster.mixed())
    return {&cluster};
  std::vector<const Cluster *> parts;
  for (const Cluster &group : cluster.groups)
    parts.push_back(&group);
  return parts;
}

Space::Space(const PlanSearchOptions &options, const TrainingJob &job, const Cluster &cluster, int64_t layers)
    : options(options), constraints(options.constraints), cluster(cluster), trainer(*job.trainer),
      trainerSpace(trainer.space), available(job.ranks.value_or(cluster.ranks())), layerCount(layers),
      batch(job.exportedBatch ? job.exportedBatch
            : job.globalBatch ? job.globalBatch
                              : options.constraints.globalBatch),
      noMicrobatchesReason(job.noMicrobatchesReason), sixteenBits(job.dtype == "bf16" || job.dtype == "f8"),
      variesStates(mayKeepStatesOtherwise(job)) {
  for (const Cluster &group : cluster.groups)
    flopsOfGroup.push_back(peakFlops(group.device, job.dtype));
}

bool Space::canRun(const AxisSizes &sizes) const {
  int64_t node = cluster.mixed() ? 1 : cluster.devicesPerUnit(0), ranks = sizes.ranks();
  if (!trainerSpace.partialNodes && ranks > node && ranks % node != 0)
    return false;
  if (sizes.stage > 1 && sizes.context > 1 && !trainerSpace.contextInPipelines)
    return false;
  bool experts = options.expertSizes.size() > 1 || sizes.expert > 1;
  if (sizes.stage > 1 && experts && !trainerSpace.expertsInPipelines)
    return false;
  return trainerSpace.contextWithExperts || sizes.context == 1 || sizes.expert == 1;
}

/// Axes of size 1 may stand anywhere in the trainer's orders.
bool Space::canOrder(const Choice &layout, const AxisOrder &order) const {
  auto sizes = layout.sizes.asArray();
  std::vector<std::string_view> used;
  for (int8_t axis : order)
    if (sizes[axis] > 1)
      used.emplace_back(kPlanAxes[axis]);
  auto hasInOrder = [&](const std::vector<std::string_view> &its) {
    auto at = its.begin();
    return std::ranges::all_of(used, [&](std::string_view axis) {
      at = std::find(at, its.end(), axis);
      return at != its.end();
    });
  };
  return trainerSpace.meshOrders.empty() || std::ranges::any_of(trainerSpace.meshOrders, hasInOrder);
}

bool Space::liesInGroups(const AxisSizes &sizes) const {
  if (!cluster.mixed())
    return true;
  auto [known, isNew] = groupsOfMesh.try_emplace({sizes.ranks(), sizes.stage});
  if (isNew)
    if (auto groups = groupsOfStages(*firstRanks(cluster, sizes.ranks()), sizes.stage))
      known->second = std::move(*groups);
  return known->second.has_value();
}

const std::vector<int> &Space::groupsOf(const AxisSizes &sizes) const {
  static const std::vector<int> one;
  auto known = groupsOfMesh.find({sizes.ranks(), sizes.stage});
  return known == groupsOfMesh.end() || !known->second ? one : *known->second;
}

std::vector<int64_t> Space::candidateSizes(const char *axis, const std::vector<int64_t> &all) const {
  auto pinned = constraints.meshSizes.find(axis);
  return pinned == constraints.meshSizes.end() ? all : std::vector<int64_t>{pinned->second};
}

Result<std::vector<Choice>> Space::meshes() const {
  if (batch <= 0)
    return Error{"the global batch is not known; give <global-batch> or \"global_batch\" in the constraints"};
  if (constraints.microbatch && batch % constraints.microbatch != 0)
    return Error{fmt::format("{}: microbatch is {}, which does not divide the global batch of {}; give a microbatch "
                             "that divides it, because every model replica has whole microbatches",
                             options.constraintsFile, constraints.microbatch, batch)};
  std::vector<Choice> list;
  std::vector<int64_t> ofBatch = divisors(batch);
  AxisSizes sizes;
  bool needsWholeGroups = false;
  for (int64_t model : candidateSizes("model", options.modelSizes))
    for (int64_t context : candidateSizes("context", options.contextSizes))
      for (int64_t expert : candidateSizes("expert", options.expertSizes))
        for (int64_t stage : candidateSizes("stage", upTo(std::max<int64_t>(1, std::min(layerCount, available)))))
          for (int64_t data : candidateSizes("data", ofBatch)) {
            sizes = {stage, data, context, expert, model};
            if (data > available || sizes.ranks() > available || batch % (data * expert) != 0 || !liesInGroups(sizes))
              continue;
            if (!canRun(sizes))
              continue;
            if (options.allRanks && sizes.ranks() != available)
              continue;
            if (!noMicrobatchesReason.empty() && constraints.microbatch &&
                constraints.microbatch * data * expert != batch) {
              needsWholeGroups = true;
              continue;
            }
            list.emplace_back().sizes = sizes;
          }
  if (list.empty() && needsWholeGroups)
    return Error{
        fmt::format("{}: microbatch is {}, and no mesh that is left has model replicas of so many samples (of a "
                    "global batch of {}); {}",
                    options.constraintsFile, constraints.microbatch, batch, noMicrobatchesReason)};
  if (list.empty())
    return Error{fmt::format("{}: no mesh of {} {} ranks is left whose \"data\" divides the global batch of {}{}{}; "
                             "free an axis or change the batch",
                             options.constraintsFile, options.allRanks ? "all" : "at most", available, batch,
                             cluster.mixed() ? " and whose stages lie in one group each" : "",
                             trainer.ownPrograms ? "" : fmt::format(" and that {} runs", trainer.title))};
  return list;
}

std::vector<Choice> Space::layouts(const Choice &mesh) const {
  std::vector<Choice> list;
  struct ModelAxisLayout {
    bool sequenceParallel = false, solved = false;
  };
  bool cuts = mesh.sizes.model > 1, solves = cuts && constraints.layout == OpLayout::Solved;
  std::vector<ModelAxisLayout> overModel = {{false, solves}};
  if (!constraints.sequenceParallel.empty())
    overModel = {{constraints.sequenceParallel.front(), solves}};
  else if (cuts && !solves)
    overModel = {{true, false}, {false, false}};
  if (cuts && mesh.sizes.expert == 1 && !constraints.layout && constraints.sequenceParallel.empty())
    overModel.push_back({false, true});
  std::erase_if(overModel, [&](const ModelAxisLayout &how) {
    bool whole = cuts && !how.solved && !how.sequenceParallel;
    return (how.solved && !trainerSpace.solvedLayout) || (whole && !trainerSpace.tensorWithoutSequence) ||
           (how.sequenceParallel && mesh.sizes.context > 1 && !trainerSpace.sequenceWithContext);
  });
  std::vector<bool> ulysses = {constraints.contextStyle == ContextStyle::Ulysses};
  if (mesh.sizes.context == 1)
    ulysses = {false};
  else if (!constraints.contextStyle)
    ulysses = {false, true};
  if (mesh.sizes.context > 1)
    std::erase_if(ulysses, [&](bool style) {
      return std::ranges::find(trainerSpace.contextStyles, style ? ContextStyle::Ulysses : ContextStyle::Ring) ==
             trainerSpace.contextStyles.end();
    });
  int64_t group = batch / (mesh.sizes.data * mesh.sizes.expert);
  for (int64_t microbatch : divisors(group)) {
    if ((constraints.microbatch && microbatch != constraints.microbatch) ||
        (!noMicrobatchesReason.empty() && microbatch != group))
      continue;
    for (const ModelAxisLayout &how : overModel)
      for (bool style : ulysses) {
        Choice choice = mesh;
        choice.level = Choice::Level::Layout;
        choice.microbatch = microbatch;
        choice.sequenceParallel = how.sequenceParallel;
        choice.solved = how.solved;
        choice.ulysses = style;
        list.push_back(choice);
      }
  }
  return list;
}

bool Space::dataAxisDominates(const Choice &layout) const {
  bool pinned =
      constraints.microbatch || constraints.meshSizes.contains("data") || constraints.meshSizes.contains("context");
  return !pinned && std::gcd(layout.microbatch, layout.sizes.context) > 1;
}

std::vector<AxisOrder> Space::orders(const Choice &layout) const {
  AxisOrder order;
  bool stageFirst = !groupsOf(layout.sizes).empty(); // each stage has to be a run of consecutive ranks
  if (!constraints.order.empty()) {                  // axes that it does not name are innermost
    std::vector<int8_t> named;
    for (const std::string &name : constraints.order)
      if (int axis = planAxis(name); axis >= 0)
        named.push_back(static_cast<int8_t>(axis));
    for (int8_t axis = 0; axis < static_cast<int8_t>(order.size()); ++axis)
      if (std::find(named.begin(), named.end(), axis) == named.end())
        named.push_back(axis);
    std::copy(named.begin(), named.end(), order.begin());
    auto its = layout.sizes.asArray();
    int8_t outermost = *std::find_if(order.begin(), order.end(), [&](int8_t axis) { return its[axis] > 1; });
    bool possible = (!stageFirst || outermost == planAxis("stage")) && canOrder(layout, order);
    return possible ? std::vector<AxisOrder>{order} : std::vector<AxisOrder>();
  }
  auto sizes = layout.sizes.asArray();
  std::vector<int8_t> used, unused;
  for (int8_t axis = 0; axis < static_cast<int8_t>(order.size()); ++axis)
    (sizes[axis] > 1 ? used : unused).push_back(axis);
  std::vector<AxisOrder> orders;
  do {
    if (stageFirst && used.front() != planAxis("stage"))
      continue;
    std::copy(unused.begin(), unused.end(), std::copy(used.begin(), used.end(), order.begin()));
    if (canOrder(layout, order))
      orders.push_back(order);
  } while (std::next_permutation(used.begin(), used.end()));
  return orders;
}

std::vector<Choice> Space::executions(const Choice &order) const {
  int64_t stages = order.sizes.stage, count = microbatches(order);
  std::vector<Choice> pipelines;
  const SchedulePlan &pinned = constraints.schedule;
  auto offer = [&](const ScheduleRecord &record, int64_t chunks) {
    if (pinned.chunks && pinned.chunks != chunks)
      return;
    Choice choice = order;
    choice.level = Choice::Level::Execution;
    choice.schedule = record.kind;
    choice.chunks = chunks;
    pipelines.push_back(choice);
  };
  for (const ScheduleRecord &record : schedules()) {
    const bool named = pinned.name == record.name;
    if ((!pinned.name.empty() && !named) || (!pinned.variant.empty() && pinned.variant != record.variant) ||
        (record.whenNamed && pinned.variant.empty()))
      continue;
    if (stages == 1 && record.singleStage != SingleStage::Searched &&
        !(named && record.singleStage == SingleStage::WhenNamed))
      continue;
    if (!pinned.inFlight.empty() && !record.searched)
      continue;
    const std::vector<ScheduleKind> &runnable = trainerSpace.schedules;
    if (!runnable.empty() && std::ranges::find(runnable, record.kind) == runnable.end())
      continue;
    if (record.splitsBackward && order.sequenceParallel && !trainerSpace.zeroBubbleWithSequence)
      continue;
    if (!record.chunked)
      offer(record, 1);
    // Interleaved schedules process microbatches in groups of as many as there are stages, so the stages have to divide
    // the number of microbatches.
    for (int64_t chunks = 2; record.chunked && chunks * stages <= layerCount && count % stages == 0; ++chunks)
      offer(record, chunks);
  }

  std::vector<Choice> list;
  const std::vector<int64_t> &pins = constraints.optimizerSharding;
  for (const Choice &pipeline : pipelines)
    for (auto [level, ranks] : shardings(order))
      for (OptimizerStates states : statesAt(pins.size() == 1 ? pins.front() : level)) {
        Choice choice = pipeline;
        choice.optimizerSharding = level;
        choice.shardingRanks = ranks;
        choice.states = states;
        list.push_back(choice);
        choice.overlapsExperts = true;
        if (mayOverlapExperts(choice))
          list.push_back(choice);
      }
  return list;
}

std::vector<OptimizerStates> Space::statesAt(int64_t sharding) const {
  const std::vector<OptimizerStates> &can = trainerSpace.optimizerStates;
  bool varies = variesStates && sharding == 1 && !can.empty();
  if (auto pinned = constraints.optimizerStates) // what cannot have them where it is pinned too is refused by name
    return varies || *pinned == OptimizerStates::Device || !constraints.optimizerSharding.empty() || !variesStates
               ? std::vector{*pinned}
               : std::vector<OptimizerStates>();
  std::vector<OptimizerStates> states;
  for (OptimizerStates one : can)
    if (varies && keepsNumbers(one))
      states.push_back(one);
  if (states.empty() || states.front() != OptimizerStates::Remainders)
    states.insert(states.begin(), OptimizerStates::Device);
  return states;
}

bool Space::mayOverlapExperts(const Choice &choice) const {
  const AxisSizes &sizes = choice.sizes;
  auto recomputes = [](Recompute mode) { return mode == Recompute::Full || mode == Recompute::Offload; };
  bool can = trainerSpace.overlapsExperts && sixteenBits && !constraints.overlap && sizes.expert > 1 &&
             options.expertSizes.size() > 1 && sizes.model == 1 && sizes.context == 1 &&
             std::ranges::none_of(constraints.recompute, recomputes) && constraints.recomputeLayers.empty();
  if (!can || choice.level < Choice::Level::Layout)
    return can;
  const std::vector<int64_t> &pins = constraints.optimizerSharding;
  bool decided = choice.level >= Choice::Level::Execution;
  bool runs = !decided || ((sizes.stage == 1 || choice.chunks > 1) && choice.optimizerSharding <= 1 &&
                           std::ranges::all_of(pins, [](int64_t level) { return level <= 1; }));
  return microbatches(choice) > 1 && runs;
}

/// Offers all replicas, those that lie on one node, and, to Kerf's own programs, powers of two times as many as these.
/// For Megatron-LM these double the number of search nodes, and make one of the next best plans of GPT-3 175B on 1,024
/// A100 0.01 % faster.
std::vector<int64_t> Space::shardingRanks(const Mesh &mesh) const {
  if (int64_t pinned = constraints.optimizerShardingRanks)
    return replicaCount(mesh) % pinned == 0 ? std::vector<int64_t>{pinned} : std::vector<int64_t>();
  const std::vector<AxisRef> replicas = shardingAxes(mesh, 0);
  int64_t node = std::numeric_limits<int64_t>::max(), inside = 1, share = 1;
  for (const Cluster *part : uniformGroups(cluster))
    node = std::min(node, part->devicesPerUnit(0));
  for (int axis = static_cast<int>(mesh.axes.size()) - 1; axis >= 0; --axis) {
    int64_t size = mesh.axes[axis].size;
    bool holdsReplicas = std::any_of(replicas.begin(), replicas.end(), [&](auto &ref) { return ref.axis == axis; });
    if (holdsReplicas && node % inside == 0)
      share *= std::gcd(size, node / inside);
    inside *= size;
  }
  int context = mesh.find("context");
  std::vector<int64_t> ranks = {0};
  const int64_t all = shardCount(replicas);
  const int64_t most = trainer.ownPrograms ? all - 1 : std::min(share, all - 1);
  for (int64_t n = std::max<int64_t>(share, 2); trainerSpace.shardsOverSubgroups && n <= most; n *= 2) {
    bool partOfContext = context >= 0 && n % mesh.axes[context].size != 0;
    if (shardCount(shardingAxes(mesh, n)) == n && (trainerSpace.subgroupsCutContext || !partOfContext))
      ranks.push_back(n);
  }
  return ranks;
}

/// The level is 0 where the constraints decide it.
std::vector<std::pair<int, int64_t>> Space::shardings(const Choice &order) const {
  bool pinned = !constraints.optimizerSharding.empty();
  bool cuts = order.sizes.data * order.sizes.context * order.sizes.expert > 1;
  const std::vector<int64_t> &pins = constraints.optimizerSharding;
  bool always = pinned && *std::max_element(pins.begin(), pins.end()) > 0;
  const std::vector<int> &levels =
      order.sizes.stage > 1 ? trainerSpace.optimizerShardingsInPipelines : trainerSpace.optimizerShardings;
  auto has = [&](int64_t level) { return std::ranges::find(levels, level) != levels.end(); };
  std::vector<std::pair<int, int64_t>> list;
  if (!std::ranges::all_of(pins, has))
    return list;
  bool onlyData = order.sizes.ranks() == order.sizes.data;
  bool copies = has(0) && (trainerSpace.replicatesBesideOtherAxes || onlyData);
  if (!always && copies)
    list.emplace_back(0, 0);
  if (!always && !pinned && !cuts && copies) {
    if (statesAt(1) != std::vector{OptimizerStates::Device} && has(1)) // a single rank may keep states in other ways
      list.emplace_back(1, 0);
    return list;
  }
  if (!always && (pinned || (!cuts && copies)))
    return list; // empty where the trainer has no copies beside the other axes
  std::vector<int64_t> ranks = shardingRanks(mesh(order));
  for (int level = always ? 0 : 1; level <= (always ? 0 : 3); ++level)
    for (int64_t n : ranks)
      if (always || has(level))
        list.emplace_back(level, n);
  return list;
}

Mesh Space::mesh(const Choice &choice) const {
  Mesh mesh;
  auto sizes = choice.sizes.asArray();
  for (int8_t axis : choice.order)
    if (sizes[axis] > 1)
      mesh.axes.push_back({kPlanAxes[axis], sizes[axis]});
  return mesh;
}

ScheduleOptions Space::schedule(const Choice &choice) const {
  ScheduleOptions options;
  const std::vector<int64_t> &inFlight = constraints.schedule.inFlight;
  if (inFlight.size() == 1 || static_cast<int64_t>(inFlight.size()) == choice.sizes.stage)
    options.inFlight = inFlight;
  options.kind = choice.schedule;
  options.stages = choice.sizes.stage;
  options.microbatches = microbatches(choice);
  options.chunks = choice.chunks;
  return options;
}

Plan Space::plan(const Choice &choice) const {
  Plan plan = constraints;
  auto sizes = choice.sizes.asArray();
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    plan.meshSizes[kPlanAxes[axis]] = sizes[axis];
  plan.globalBatch = batch;
  plan.microbatch = choice.microbatch;
  plan.sequenceParallel = {choice.sequenceParallel};
  if (!constraints.layout)
    plan.layout = choice.solved ? OpLayout::Solved : OpLayout::Megatron;
  if (choice.sizes.context > 1)
    plan.contextStyle = choice.ulysses ? ContextStyle::Ulysses : ContextStyle::Ring;
  plan.order.clear();
  for (int8_t axis : choice.order)
    plan.order.push_back(kPlanAxes[axis]);
  const ScheduleRecord &schedule = recordOf(choice.schedule);
  plan.schedule = {std::string(schedule.name), choice.chunks, std::string(schedule.variant),
                   constraints.schedule.inFlight};
  if (constraints.optimizerSharding.empty())
    plan.optimizerSharding = {choice.optimizerSharding};
  if (choice.shardingRanks)
    plan.optimizerShardingRanks = choice.shardingRanks;
  if (choice.states != OptimizerStates::Device)
    plan.optimizerStates = choice.states;
  if (choice.overlapsExperts) {
    Overlap overlap =
        trainer.overlap({choice.sizes.stage, choice.schedule, choice.optimizerSharding, choice.sequenceParallel});
    overlap.experts = true;
    plan.overlap = overlapWords(overlap);
  }
  if (layerCount == 0 || choice.level < Choice::Level::Cut || !decidesCut(choice))
    return plan;
  plan.stages.clear();
  int64_t next = 0, stages = choice.sizes.stage;
  std::vector<int64_t> layers = layersOfParts(choice);
  for (int64_t p = 0; p < static_cast<int64_t>(layers.size()); ++p) {
    plan.stages.push_back({std::pair(next, next + layers[p] - 1), p % stages, p / stages});
    next += layers[p];
  }
  return plan;
}

} // namespace kerf::plansearch
