// SPDX-License-Identifier: Apache-2.0
// Bounds of the levels at which a schedule and a cut into pipeline stages are decided.
#include "Bounds.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>

namespace kerf::plansearch {

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
  double forced = forcedRecomputeSeconds({**work, activationBytesOfLayout(key, **work), parameters.stateBytes,
                                          std::span(&stage, 1), trainer.space.recompute},
                                         theSpace->schedule(choice), recordOf(choice.schedule).splitsBackward);
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
                               trainer.space.recompute, reductionTiming(sharding, overlap.gradients), overlap.stage,
                               tiedSeconds(choice, **work), &parametersAt(0).gatheredBytes, given.recompute},
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

} // namespace kerf::plansearch
