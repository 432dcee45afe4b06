// SPDX-License-Identifier: Apache-2.0
#include "CompressedStep.h"

#include <fmt/format.h>
#include <map>

namespace kerf::plansearch {

using namespace compression;

Result<PreparedStep> prepareStep(const Plan &plan, const Cluster &cluster, const TrainingJob &job,
                                 const LayoutSource &layouts) {
  Plan asked = plan;
  asked.predicted.reset();
  if (job.globalBatch)
    asked.globalBatch = job.globalBatch;
  TrainingJob anyRanks = job;
  anyRanks.ranks.reset();
  auto completed = completePlan(std::move(asked), "the plan", cluster, anyRanks);
  if (!completed)
    return completed.error();
  auto model = layouts(layoutKeyOf(completed->plan));
  if (!model)
    return model.error();
  if (!*model)
    return Error{fmt::format("{} cannot be laid out as the plan says; change mesh.model, mesh.context, mesh.expert or "
                             "microbatch",
                             job.model)};
  auto work = stepWork(*completed, anyRanks, **model);
  if (!work)
    return work.error();
  auto step = stepPlan(*completed, anyRanks, **model);
  if (!step)
    return step.error();
  auto pipeline = PipelineModel::make(completed->mesh, completed->cluster);
  if (!pipeline)
    return pipeline.error();
  return PreparedStep{std::move(*completed), *model, std::move(*work), std::move(*step),
                      std::make_unique<PipelineModel>(std::move(*pipeline))};
}

PartProblem problemOfPart(const StepView &view, int64_t p, const std::vector<std::string> &names,
                          const std::vector<CompressionPin> &pins, const CompressionRequest &request) {
  int64_t stages = view.step.schedule.stages;
  CodecLimits limits = request.limits;
  if (request.always)
    limits.codecs = {request.always};
  else if (limits.codecs.empty())
    limits.codecs = usualCodecs();
  std::map<const ParameterGroup *, std::vector<SyncOption>> known; // layers of a segment have the same options
  OptionSource options = [&](const GradientOfPart &gradient, const SyncGradient &sync, const SyncNetwork &network,
                             const CollectiveModel &collectives) {
    const ParameterGroup &group = *gradient.group;
    if (const CompressionPin *pin = compressionPinOf(pins, names[gradient.index], group)) {
      SyncOption option = plainOption(sync, network);
      option.choice = pin->choice;
      if (pin->choice.codec && sync.sharded)
        option.choice.scheme = SyncScheme::ReduceScatter;
      return std::vector<SyncOption>{option};
    }
    bool fast = !request.always && linkIsTooFast(collectives, group.reduceAxes);
    // The planner chooses for small gradients too: their costs say whether it pays.
    bool excluded = request.always ? excludedByDefault(sync.shape) : isVector(sync.shape);
    if (fast || group.isTable || excluded)
      return std::vector<SyncOption>{plainOption(sync, network)};
    std::vector<SyncOption> &all = known[&group];
    if (all.empty()) {
      all = allOptions(sync, network, limits, [&](auto &codec) { return codecCurve(collectives, codec); });
      all = request.always ? all : withoutBeaten(std::move(all));
    }
    return all;
  };
  return gradientProblem(view.work, view.step, view.pipeline, p % stages, p / stages, options);
}

} // namespace kerf::plansearch
