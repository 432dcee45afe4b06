// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/CompressPlan.h"
#include "CompressedStep.h"
#include "SearchLowered.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace kerf {

using namespace compression;
using namespace plansearch;

Result<StepPlan> withCompression(const StepView &view, const std::vector<CompressionPin> &pins) {
  StepPlan step = view.step;
  step.compressionOfPart.clear();
  if (pins.empty())
    return step;
  auto wrong = [&](const std::string &message) { return Error{fmt::format("{}: {}", view.completed.where, message)}; };
  if (stagesDiffer(view.completed.plan))
    return wrong("compression is not supported for stages with meshes of their own; leave one of the two out");
  auto names = gradientNames(view);
  if (!names)
    return names.error();
  int64_t stages = step.schedule.stages;
  std::vector<bool> matched(pins.size(), false);
  for (size_t p = 0; p < names->size(); ++p) {
    auto stage = static_cast<int64_t>(p) % stages;
    std::vector<GradientOfPart> gradients = gradientsOf(view.part(static_cast<int64_t>(p)));
    GradientChoices &choices = step.compressionOfPart.emplace_back(gradients.size());
    for (size_t g = 0; g < gradients.size(); ++g) {
      const ParameterGroup &group = *gradients[g].group;
      const std::string &name = (*names)[p][g];
      for (size_t i = 0; i < pins.size(); ++i)
        matched[i] = matched[i] || globMatch(pins[i].pattern, name);
      const CompressionPin *pin = compressionPinOf(pins, name, group);
      if (!pin || !pin->choice.codec || shardCount(group.reduceAxes) <= 1)
        continue;
      int sharding = step.optimizerShardingAt(stage);
      if (sharding < 2 && !step.overlap.gradients)
        return wrong("compression needs gradients that are summed beside the backward; add \"gradients\" to overlap");
      choices[g] = pin->choice;
      if (sharding >= 1) // decides the scheme
        choices[g].scheme = SyncScheme::ReduceScatter;
      std::string why;
      if (!isPossible(choices[g], syncGradient(group, step, sharding),
                      syncNetwork(view.pipeline.collectives(stage), group.reduceAxes), &why))
        return wrong(
            fmt::format("compression[\"{}\"] cannot apply to the gradient of {}: {}", pin->pattern, name, why));
    }
  }
  for (size_t i = 0; i < pins.size(); ++i)
    if (!matched[i])
      return wrong(fmt::format("compression[\"{}\"] matches no parameter of {}; change the pattern or leave it out",
                               pins[i].pattern, view.job.model));
  return step;
}

void addDifference(Simulation &figures, const Simulation &plain, const Simulation &coded) {
  double before = figures.stepSeconds;
  auto change = [](double &to, double from, double into) { to = std::max(0.0, to + into - from); };
  auto changeAll = [&](std::map<std::string, double> &to, const std::map<std::string, double> &from,
                       const std::map<std::string, double> &into) {
    for (const auto &[axes, seconds] : into)
      change(to[axes], from.contains(axes) ? from.at(axes) : 0, seconds);
  };
  change(figures.stepSeconds, plain.stepSeconds, coded.stepSeconds);
  change(figures.breakdown.backward, plain.breakdown.backward, coded.breakdown.backward);
  change(figures.breakdown.bubble, plain.breakdown.bubble, coded.breakdown.bubble);
  changeAll(figures.breakdown.collectives, plain.breakdown.collectives, coded.breakdown.collectives);
  changeAll(figures.breakdown.exposed, plain.breakdown.exposed, coded.breakdown.exposed);
  for (size_t s = 0; s < std::min(figures.memory.size(), coded.memory.size()); ++s) {
    StageMemory &memory = figures.memory[s];
    double more = coded.memory[s].states - plain.memory[s].states;
    for (double *bytes : {&memory.states, &memory.peakBytes, &memory.reservedBytes, &memory.deviceBytes})
      *bytes += more;
    figures.fits = figures.fits && memory.deviceBytes <= memory.limitBytes;
  }
  if (figures.stepSeconds > 0 && before > 0) {
    figures.tokensPerSecond *= before / figures.stepSeconds;
    figures.modelFlopsUtilization *= before / figures.stepSeconds;
  }
}

namespace {

/// Plans each part; parts that are alike are planned once. `allChunks` says whether the gradients of chunks that are
/// not the last to run backward are planned too.
std::vector<GradientChoices> planParts(const StepView &view, const std::vector<CompressionPin> &pins,
                                       const std::vector<std::vector<std::string>> &names,
                                       const CompressionRequest &request, double leastGain, bool allChunks) {
  const StepPlan &step = view.step;
  int64_t stages = step.schedule.stages;
  std::map<std::tuple<int, int, int, LayerModes, bool>, GradientChoices> known;
  std::vector<GradientChoices> all;
  for (int64_t p = 0; p < stages * step.schedule.chunks; ++p) {
    int64_t stage = p % stages, chunk = p / stages;
    bool planned = chunk == 0 || allChunks;
    auto key = std::tuple(view.work.part[stage][chunk], view.pipeline.groupOf(stage), step.optimizerShardingAt(stage),
                          step.recomputeAt(stage, chunk), planned);
    auto found = pins.empty() ? known.find(key) : known.end(); // pins may name single layers
    if (found == known.end()) {
      PartProblem part = problemOfPart(view, p, names[p], pins, request);
      OptionIndices chosen(part.problem.gradients.size(), 0);
      if (planned)
        chosen = request.always ? chooseAlways(part.problem) : planGradients(part.problem, {leastGain}).choice;
      GradientChoices choices(names[p].size());
      for (size_t t = 0; t < chosen.size(); ++t)
        choices[part.indexOf[t]] = part.problem.gradients[t].options[chosen[t]].choice;
      found = known.insert_or_assign(key, std::move(choices)).first;
    }
    all.push_back(found->second);
  }
  return all;
}

/// Tries compressions of one plan.
class PlanCompressor {
public:
  PlanCompressor(const StepView &view, const std::vector<CompressionPin> &pins, const Simulation &plain,
                 const Simulation &figures)
      : view(view), pins(pins), plain(plain), figures(figures) {}

  /// Returns the prediction with this compression.
  Result<PlannedCompression> with(std::vector<CompressionPin> all) const {
    auto step = withCompression(view, all);
    if (!step)
      return step.error();
    auto coded = simulate(view.work, *step, view.pipeline);
    if (!coded)
      return coded.error();
    PlannedCompression result{std::move(all), figures};
    addDifference(result.simulation, plain, *coded);
    return result;
  }

  /// Returns the planner's choices for the gradients that no pin decides, with their prediction.
  Result<PlannedCompression> planned(const CompressionRequest &request, double leastGain, bool allChunks) const {
    auto names = gradientNames(view);
    if (!names)
      return names.error();
    std::vector<GradientChoices> choices = planParts(view, pins, *names, request, leastGain, allChunks);
    std::vector<std::string> freeNames;
    std::vector<SyncChoice> freeChoices;
    for (size_t p = 0; p < choices.size(); ++p)
      for (const GradientOfPart &gradient : gradientsOf(view.part(static_cast<int64_t>(p))))
        if (const std::string &name = (*names)[p][gradient.index]; !compressionPinOf(pins, name, *gradient.group)) {
          freeNames.push_back(name);
          freeChoices.push_back(choices[p][gradient.index]);
        }
    auto whole = withPatterns(freeNames, freeChoices);
    if (!whole)
      return whole;
    for (bool oneForAll : {true, false}) {
      auto simpler = withPatterns(freeNames, simplerChoices(freeNames, freeChoices, oneForAll));
      if (simpler && simpler->simulation.fits == whole->simulation.fits &&
          simpler->simulation.stepSeconds <= (1 + kSimplerCosts) * whole->simulation.stepSeconds)
        return simpler;
    }
    return whole;
  }

private:
  /// Returns the prediction with the pins, and with patterns for these choices.
  Result<PlannedCompression> withPatterns(const std::vector<std::string> &names,
                                          const std::vector<SyncChoice> &choices) const {
    std::vector<CompressionPin> all = pins;
    for (CompressionPin &pattern : patternsOf(names, choices))
      all.push_back(std::move(pattern));
    return with(std::move(all));
  }

  const StepView &view;
  const std::vector<CompressionPin> &pins;
  const Simulation &plain, &figures;
};

} // namespace

Result<PlannedCompression> planCompression(const StepView &view, const std::vector<CompressionPin> &pins,
                                           const Simulation &plain, const Simulation &figures,
                                           const CompressionRequest &request) {
  PlanCompressor compressor(view, pins, plain, figures);
  if (request.always)
    return compressor.planned(request, 0, true);
  auto best = compressor.with(pins);
  if (!best)
    return best;
  double leastGain = kLeastGain * best->simulation.stepSeconds, enough = best->simulation.stepSeconds - leastGain;
  CompressionRequest stateless = request; // without codecs that keep the loss of a step
  if (stateless.limits.codecs.empty())
    stateless.limits.codecs = usualCodecs();
  std::erase_if(stateless.limits.codecs, [](const CodecRecord *codec) { return codec->biased; });
  for (bool allChunks : {false, true}) {
    if (allChunks && view.step.schedule.chunks == 1)
      break;
    auto tried = compressor.planned(request, leastGain, allChunks);
    if (tried && !tried->simulation.fits && best->simulation.fits && !stateless.limits.codecs.empty())
      tried = compressor.planned(stateless, leastGain, allChunks);
    if (!tried)
      return tried;
    bool fits = tried->simulation.fits || !best->simulation.fits;
    if (fits && tried->simulation.stepSeconds < std::min(enough, best->simulation.stepSeconds))
      best = std::move(*tried);
  }
  return best;
}

Result<FoundPlan> compressPlan(const FoundPlan &found, const std::vector<CompressionPin> &pins, const Cluster &cluster,
                               const TrainingJob &job, const LayoutSource &layouts, const CompressionRequest &request) {
  auto prepared = prepareStep(found.plan, cluster, job, layouts);
  if (!prepared)
    return prepared.error();
  auto plain = simulate(prepared->work, prepared->step, *prepared->pipeline);
  if (!plain)
    return plain.error();
  auto planned = planCompression(prepared->view(job), pins, *plain, found.simulation, request);
  if (!planned)
    return planned.error();
  FoundPlan result{found.plan, std::move(planned->simulation)};
  result.plan.compression = std::move(planned->compression);
  result.plan.predicted = predictionOf(result.simulation, 0);
  return result;
}

} // namespace kerf
