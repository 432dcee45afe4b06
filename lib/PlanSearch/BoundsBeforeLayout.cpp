// SPDX-License-Identifier: Apache-2.0
// Bounds of meshes and layouts that are found without computing a layout: from the work on one rank, and from
// communication that no layout avoids.
#include "Bounds.h"
#include "Tuning.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <set>

namespace kerf::plansearch {

LayoutKey Bounds::wholeSequenceKeyOf(const Choice &choice) const {
  LayoutKey key = keyOf(choice);
  key.context = 1;
  key.ulysses = false;
  return key;
}

Result<const Bounds::LeastShare *> Bounds::leastShareOf(const Choice &choice, ShareOf whole) {
  const AxisSizes &sizes = choice.sizes;
  const bool oneRank = whole == ShareOf::OneRank;
  const int64_t ranks = oneRank ? sizes.context * sizes.expert * sizes.model : sizes.context,
                ring = choice.ulysses ? 1 : sizes.context;
  LayoutKey key = wholeSequenceKeyOf(choice);
  if (oneRank)
    key = {1, 1, 1, choice.microbatch * sizes.expert, false, key.fusedAttention};
  auto [entry, isNew] = leastShares.try_emplace({key, ranks, ring});
  std::optional<LeastShare> &share = entry->second;
  if (!isNew)
    return share ? &*share : nullptr;
  auto work = workOf(key);
  if (!work)
    return work.error();
  if (!*work)
    return nullptr;
  share.emplace();
  share->work = leastShareOfWork(**work, ranks, ring);
  if (!oneRank) // "context" cuts no parameters
    for (size_t i = 0; i < share->work.chain.size(); ++i)
      share->work.chain[i].segment.parameters = (*work)->chain[i].segment.parameters;
  for (const Cluster *group : uniformGroups(all))
    share->passes.push_back(
        passSeconds(share->work, group->device, nullptr, Overlap(), trainer.prices, options.constraints.recompute));
  TrainerPrices unhindered = trainer.prices;
  unhindered.issueSeconds = 0;
  share->kernels = passSeconds(share->work, uniformGroups(all).front()->device, nullptr, Overlap(), unhindered,
                               options.constraints.recompute);
  share->activations = activationBytesOf(share->work);
  return &*share;
}

Result<double> Bounds::boundBeforeLayout(const Choice &choice, ShareOf whole) {
  auto share = leastShareOf(choice, whole);
  if (!share)
    return share.error();
  if (!*share)
    return whole == ShareOf::OneRank ? layoutBound(choice) : 0;
  const LeastShare &its = **share;
  if (theSpace->groupsOf(choice.sizes).empty())
    return evenSeconds(choice, its.work, its.activations, its.passes.front());
  return mixedSeconds(choice, its.work,
                      [&](const StageGroup &group) -> const PassSeconds & { return its.passes[group.number]; });
}

Result<double> Bounds::boundOfWholeSequence(const Choice &choice, double known) {
  if (choice.sizes.context == 1 || choice.solved)
    return known;
  auto bound = boundBeforeLayout(choice, ShareOf::WholeSequence);
  return bound ? boundWithCommunication(choice, std::max(known, *bound), ShareOf::WholeSequence) : bound;
}

const ModelWork *Bounds::workOfSample(int64_t model, int64_t expert, bool sequenceParallel) {
  auto work = workOf({model, 1, expert, 1, sequenceParallel, options.constraints.attention != AttentionKernels::Unfused,
                      false, false});
  return work ? *work : nullptr;
}

const std::vector<RepeatedCollective> &Bounds::collectivesOfModel(int64_t model, bool sequenceParallel) {
  auto [entry, isNew] = modelCollectives.try_emplace({model, sequenceParallel});
  if (isNew)
    if (const ModelWork *work = workOfSample(model, 1, sequenceParallel))
      entry->second = collectivesOfLayers(*work, planAxis("model"), /*tokensOnly=*/false);
  return entry->second;
}

const std::vector<RepeatedCollective> &Bounds::exchangesOfTokens(int64_t expert) {
  auto [entry, isNew] = tokenExchanges.try_emplace(expert);
  if (isNew)
    if (const ModelWork *work = workOfSample(1, expert, false))
      entry->second = collectivesOfLayers(*work, planAxis("expert"), /*tokensOnly=*/true);
  return entry->second;
}

/// The products of a Megatron-LM layout are cut over "model" wherever they can be cut, whatever the other axes are: the
/// inputs of some are gathered, and the results of others are sums over the axis. "expert" cuts the batch, from which
/// tokens are brought to their experts and back; "context" and "model" can at most cut what is exchanged.
Bounds::WaitingSeconds Bounds::leastWaiting(const Choice &order, const CollectiveModel &collectives) {
  WaitingSeconds waiting;
  const AxisSizes &sizes = order.sizes;
  const Overlap overlap = plannedOverlap(order);
  auto add = [&](const std::vector<RepeatedCollective> &list, double share) {
    const GroupShape *group = nullptr; // of the collective before
    const std::vector<AxisRef> *axes = nullptr;
    for (const RepeatedCollective &one : list) {
      double exposed = leastExposedShare(one.collective, overlap);
      if (exposed == 0)
        continue;
      if (!axes || *axes != one.collective.axes)
        group = &collectives.group(onMesh(one.collective.axes, collectives.mesh()));
      axes = &one.collective.axes;
      auto seconds = [&](Collective kind) { return collectiveSeconds(kind, *group, one.collective.bytes * share); };
      // Another layout may have an all-reduce in place of a reduce-scatter and an all-gather, and the other way round.
      double each = 0;
      switch (one.collective.kind) {
      case Collective::AllReduce:
        each = std::min(seconds(Collective::AllReduce),
                        seconds(Collective::ReduceScatter) + seconds(Collective::AllGather));
        break;
      case Collective::ReduceScatter:
      case Collective::AllGather:
        each = std::min(seconds(one.collective.kind), seconds(Collective::AllReduce) / 2);
        break;
      case Collective::AllToAll:
        each = one.collective.exchangesTokens ? seconds(Collective::AllToAll) : 0;
        break;
      default:
        break;
      }
      each *= exposed;
      waiting.forward += one.forward * each;
      waiting.inputGradient += one.inputGradient * each;
      waiting.weightGradient += one.weightGradient * each;
    }
  };
  double samples = static_cast<double>(order.microbatch) / static_cast<double>(sizes.context);
  if (sizes.model > 1 && !order.solved)
    add(collectivesOfModel(sizes.model, order.sequenceParallel), samples);
  if (sizes.expert > 1)
    add(exchangesOfTokens(sizes.expert), samples / static_cast<double>(sizes.model));
  return waiting;
}

/// Makes one group of those that are summed over the same axes.
static void joinGroups(std::vector<ParameterGroup> &groups) {
  std::vector<ParameterGroup> joined;
  for (ParameterGroup &group : groups) {
    auto known = std::ranges::find(joined, group.reduceAxes, &ParameterGroup::reduceAxes);
    if (known == joined.end())
      joined.push_back(std::move(group));
    else
      known->elements += group.elements;
  }
  groups = std::move(joined);
}

/// "context" cuts no parameters, "expert" only those of experts, and "model" at most all of them.
Bounds::LeastReductions Bounds::leastReductionsOf(const Choice &order, const CollectiveModel &collectives, int level,
                                                  int64_t shardingRanks) {
  auto [entry, isNew] = reductions.try_emplace({order.sizes.asArray(), order.order, level, shardingRanks});
  if (!isNew)
    return entry->second;
  auto [parameters, isFirst] =
      leastParameters.try_emplace({order.sizes.model, order.sizes.expert, order.sizes.stage > 1});
  if (isFirst)
    if (const ModelWork *work = workOfSample(1, order.sizes.expert, false)) {
      parameters->second = parametersOnly(*work, order.sizes.stage);
      for (ChainSegment &share : parameters->second.chain) {
        joinGroups(share.segment.parameters);
        for (ParameterGroup &group : share.segment.parameters)
          group.elements /= static_cast<double>(order.sizes.model);
      }
    }
  OptimizerSharding sharding{level};
  if (shardingRanks)
    sharding.axes = shardingAxes(collectives.mesh(), shardingRanks);
  // One reduction after the backward pass takes no longer than several beside it.
  ParameterSeconds seconds = parameterSeconds(parameters->second, collectives, stateBytes, sharding,
                                              /*gradientOverlap=*/false, trainer.prices.bucketBytes);
  entry->second = {
      seconds.everyMicrobatch, seconds.reductionTotal + seconds.copiesTotal,
      totalOverChain(parameters->second, stateBytesOf(parameters->second, collectives.mesh(), stateBytes, sharding))};
  return entry->second;
}

const CollectiveModel &Bounds::collectivesOf(const Choice &order) {
  if (communication.size() >= kMostCommunicationModels)
    communication.clear();
  auto [entry, isNew] = communication.try_emplace({order.sizes.asArray(), order.order});
  if (isNew)
    entry->second =
        std::make_unique<CollectiveModel>(theSpace->mesh(order), clusterOfRanks(order.sizes.ranks()), shapes);
  return *entry->second;
}

Result<double> Bounds::boundWithCommunication(const Choice &given, double known, ShareOf whole) {
  const AxisSizes &sizes = given.sizes;
  if (sizes.ranks() == sizes.stage || !theSpace->groupsOf(sizes).empty())
    return known;
  Choice choice = given;
  // One microbatch with all samples has no more launches and latencies than several have.
  const bool isMesh = given.level == Choice::Level::Mesh;
  if (isMesh) {
    choice.level = Choice::Level::Layout;
    choice.microbatch = theSpace->globalBatch() / (sizes.data * sizes.expert);
    choice.ulysses = true; // attention takes no more time than with ring attention
  }
  auto share = leastShareOf(choice, whole);
  if (!share)
    return share.error();
  if (!*share)
    return known;
  const PassSeconds &kernels = (*share)->kernels;
  const double forced = isMesh ? 0 : forcedEvenly(choice, (*share)->work, (*share)->activations, kernels);
  const auto stages = static_cast<double>(sizes.stage);
  const double microbatches = isMesh ? 1 : static_cast<double>(theSpace->microbatches(choice));
  const std::vector<int64_t> &pinned = options.constraints.optimizerSharding;
  const double room = roomOfStages(choice);
  const bool reduces = pinned.size() <= 1 && trainer.prices.gathers.replicatedBelowElements == 0;
  // As in executionBound, for the schedule that hides the most.
  bool interleaves = stages > 1 && std::fmod(microbatches, stages) == 0;
  double beside = interleaves ? stages : 1;

  /// Returns the bound of one order of the axes, or `cutoff` where it is no less.
  auto boundOfOrder = [&](const Choice &order, double cutoff) {
    const CollectiveModel &collectives = collectivesOf(order);
    WaitingSeconds waiting = leastWaiting(order, collectives);
    double total = kernels.total() + waiting.total() + forced,
           backward = kernels.backward + forced + waiting.inputGradient + waiting.weightGradient;
    double there = isMesh ? 0 : total - kernels.weightGradient - waiting.weightGradient;
    double bound = evenlyFilled(stages, microbatches, theSpace->layers(), total, there, kernels.layer);
    if (std::max(bound, reduces ? microbatches * total / stages : 0) >= cutoff)
      return cutoff;
    double least = kInfinity; // over the levels of optimizer sharding
    for (auto [level, ranks] : reduces ? theSpace->shardings(order) : std::vector<std::pair<int, int64_t>>()) {
      int priced =
          pricedSharding(trainer.prices, pinned.empty() ? level : static_cast<int>(pinned.front()), sizes.stage);
      LeastReductions seconds = leastReductionsOf(order, collectives, priced, ranks);
      if (seconds.stateBytes > room)
        continue;
      double exposed = std::max(0.0, seconds.last - beside * backward);
      least = std::min(least,
                       std::max(microbatches * total + exposed, (microbatches - 1) * seconds.everyMicrobatch) / stages);
      if (std::max(bound, least) <= known)
        break;
    }
    return std::max(bound, reduces ? least : 0); // infinite where nothing fits
  };

  std::vector<Choice> styles = isMesh ? theSpace->layouts(given) : std::vector<Choice>{choice};
  double best = kInfinity;
  std::set<std::pair<bool, bool>> seen; // layouts of a mesh differ in sequenceParallel and solved
  for (const Choice &style : styles) {
    if (!seen.insert({style.sequenceParallel, style.solved}).second)
      continue;
    choice.sequenceParallel = style.sequenceParallel;
    choice.solved = style.solved;
    choice.ulysses = style.ulysses;
    Choice order = choice;
    order.level = isMesh ? Choice::Level::Mesh : Choice::Level::Order; // what some layout of a mesh overlaps
    for (const AxisOrder &axes : theSpace->orders(choice)) {
      order.order = axes;
      best = std::min(best, boundOfOrder(order, best / kSumRounding) * kSumRounding);
      if (best <= known)
        return known;
    }
  }
  return std::max(known, best);
}

} // namespace kerf::plansearch
