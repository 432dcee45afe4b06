// SPDX-License-Identifier: Apache-2.0
// Explains the compression of a plan: what each gradient costs, why it is compressed or not, and at which bandwidth
// that changes.
#include "CompressedStep.h"
#include "kerf/PlanSearch/Explain.h"

#include <algorithm>

namespace kerf {

using namespace compression;
using namespace plansearch;

namespace {

/// The planner's problem of one part of a plan, and the choice that the plan makes.
struct ChosenPart {
  PartProblem free;      // with all options that the request allows
  PlanProblem chosen;    // with two options for each gradient: not compressed, and the plan's choice
  OptionIndices planned; // indices in `chosen`
};

Result<ChosenPart> chosenPart(const StepView &view, int64_t part, const std::vector<std::string> &names,
                              const std::vector<CompressionPin> &rules, const CompressionRequest &request) {
  auto coded = withCompression(view, rules);
  if (!coded)
    return coded.error();
  ChosenPart result{problemOfPart(view, part, names, {}, request), {}, {}};
  int64_t stages = view.step.schedule.stages;
  const GradientChoices *choices = coded->compressionAt(part % stages, part / stages);
  auto options = [&](const GradientOfPart &gradient, const SyncGradient &sync, const SyncNetwork &network,
                     const CollectiveModel &) {
    std::vector<SyncOption> both(2, plainOption(sync, network));
    if (choices)
      both[1].choice = (*choices)[gradient.index];
    return both;
  };
  PartProblem own = gradientProblem(view.work, view.step, view.pipeline, part % stages, part / stages, options);
  for (const PlanGradient &gradient : own.problem.gradients)
    result.planned.push_back(gradient.options[1].choice.codec ? 1 : 0);
  result.chosen = std::move(own.problem);
  return result;
}

/// Returns the first layer whose gradients are sent after the communication stream last waited.
size_t firstAfterLastWait(const PlanProblem &problem) {
  std::vector<StreamLayer> layers = problem.layers;
  for (const PlanGradient &gradient : problem.gradients) {
    addCost(layers[gradient.layer].sync, gradient.options.front().cost);
    layers[gradient.layer].syncBytes += gradient.bytes;
  }
  std::vector<SendTime> sends;
  runStreams(layers, problem.rules, &sends);
  size_t first = 0;
  for (size_t l = 0; l < sends.size(); ++l)
    if (sends[l].idleBefore && (l == 0 || sends[l].start != sends[l - 1].start))
      first = l;
  return first;
}

} // namespace

std::string_view toString(CompressionReason reason) {
  switch (reason) {
  case CompressionReason::Saves:
    return "saves time";
  case CompressionReason::NoLater:
    return "saves nothing alone";
  case CompressionReason::Excluded:
    return "left out: a vector or a table";
  case CompressionReason::Hidden:
    return "hidden behind the backward";
  case CompressionReason::SavesNothing:
    return "no codec saves time";
  }
  return "";
}

Result<ExplainedCompression> explainCompression(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                                const LayoutSource &layouts, const CompressionRequest &request) {
  CompressionRequest free = request; // also where the user asks for one codec: would the planner take it?
  if (free.always)
    free.limits.codecs = {free.always};
  free.always = nullptr;
  auto prepared = prepareStep(plan, cluster, job, layouts);
  if (!prepared)
    return prepared.error();
  StepView view = prepared->view(job);
  auto names = gradientNames(view);
  if (!names)
    return names.error();
  ExplainedCompression result;
  std::optional<ChosenPart> slowest;
  for (int64_t stage = 0; stage < view.step.schedule.stages; ++stage) { // chunk 0 is the last to run backward
    auto one = chosenPart(view, stage, (*names)[stage], plan.compression, free);
    if (!one)
      return one.error();
    double seconds = finishSeconds(one->chosen, one->planned);
    if (!slowest || seconds > result.seconds) {
      result.stage = stage;
      result.seconds = seconds;
      slowest = std::move(*one);
    }
  }
  const PlanProblem &problem = slowest->chosen;
  result.plainSeconds = finishSeconds(problem, OptionIndices(slowest->planned.size(), 0));
  result.lowerBoundSeconds = std::min(finishLowerBound(slowest->free.problem), result.seconds);

  // The planner's choices as the outermost network becomes slower or faster.
  std::vector<double> compressedUpTo(problem.gradients.size(), 0);
  for (double factor : kBandwidthFactors) {
    Cluster scaled = cluster;
    if (scaled.mixed() || !scaleQuantity(scaled, scaled.levels.back().name + ".bandwidth", factor))
      break;
    auto there = prepareStep(plan, scaled, job, layouts);
    if (!there)
      break;
    PartProblem part = problemOfPart(there->view(job), result.stage, (*names)[result.stage], {}, free);
    OptionIndices choice =
        planGradients(part.problem, {kLeastGain * finishSeconds(part.problem, OptionIndices(compressedUpTo.size(), 0))})
            .choice;
    for (size_t t = 0; t < choice.size(); ++t)
      compressedUpTo[t] = choice[t] ? factor : compressedUpTo[t];
  }

  size_t first = firstAfterLastWait(problem);
  std::vector<GradientOfPart> gradients = gradientsOf(view.part(result.stage));
  for (size_t t = 0; t < problem.gradients.size(); ++t) {
    const PlanGradient &gradient = problem.gradients[t];
    ExplainedGradient one;
    const std::string &name = (*names)[result.stage][slowest->free.indexOf[t]];
    one.name = withoutLayerNumber(name);
    one.bytes = gradient.bytes;
    one.choice = gradient.options[1].choice;
    one.plain = gradient.options[0].cost;
    one.own = gradient.options[1].cost;
    one.compressedUpTo = compressedUpTo[t];
    const ParameterGroup &group = *gradients[slowest->free.indexOf[t]].group;
    if (slowest->planned[t]) {
      OptionIndices without = slowest->planned;
      without[t] = 0;
      one.savedSeconds = finishSeconds(problem, without) - result.seconds;
      one.reason = one.savedSeconds > 1e-9 * result.seconds ? CompressionReason::Saves : CompressionReason::NoLater;
      result.stateBytes += compressionStateBytes(one.choice, group);
    } else {
      one.reason = group.isTable || isVector(gradient.gradient.shape) ? CompressionReason::Excluded
                   : gradient.layer < first                           ? CompressionReason::Hidden
                                                                      : CompressionReason::SavesNothing;
    }
    auto alike = std::find_if(result.gradients.begin(), result.gradients.end(), [&](const ExplainedGradient &known) {
      return known.name == one.name && known.choice == one.choice && known.reason == one.reason &&
             known.compressedUpTo == one.compressedUpTo;
    });
    if (alike == result.gradients.end()) {
      result.gradients.push_back(std::move(one));
    } else {
      auto count = static_cast<double>(alike->count);
      alike->savedSeconds = (alike->savedSeconds * count + one.savedSeconds) / (count + 1);
      ++alike->count;
    }
  }
  return result;
}

} // namespace kerf
