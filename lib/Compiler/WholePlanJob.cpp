// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/WholePlanJob.h"
#include "Tuning.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Compiler/ModelLayouts.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/CostModel/TrainerFor.h"
#include "kerf/PlanSearch/CompletePlan.h"
#include "kerf/PlanSearch/TrainerPins.h"

#include <fmt/format.h>

namespace kerf {

const std::vector<std::string> &WholePlanJob::warnings() const { return model->warnings(); }

Result<WholePlanJob> makeWholePlanJob(mlir::MLIRContext &context, const ModelSource &source, const Cluster &cluster,
                                      const WholePlanJobOptions &options) {
  for (const StageLayers &run : options.search.constraints.stages)
    if (!run.until.empty())
      return Error{fmt::format(
          "{}: its stages end at operators (\"until\"), but the search cuts between layers only; give \"layers\", "
          "or give a complete plan to `kerf simulate` or `kerf train`",
          options.search.constraintsFile)};
  if (stagesDiffer(options.search.constraints))
    return Error{fmt::format(
        "{}: its stages have meshes of their own, but the search gives all stages one mesh; give a complete "
        "plan to `kerf simulate` or `kerf train`",
        options.search.constraintsFile)};
  auto used = firstRanks(cluster, options.ranks.value_or(cluster.ranks()));
  if (!used)
    return used.error();
  if (Status status = checkDtype(*used, options.dtype); !status)
    return status.error();
  const Trainer &trainer = trainerFor(*options.trainer, options.step.optimizer.optimizer);
  for (Status status : {checkTrainer(trainer, *used, options.dtype, options.step.optimizer.optimizer),
                        checkPins(trainer, options.search.constraints, options.search.constraintsFile)})
    if (!status)
      return status.error();
  if (used->groups.size() > kMostPlannedGroups)
    return Error{fmt::format(
        "cluster '{}' has {} groups, but the search supports at most {}; give a cluster file with fewer groups",
        used->name, used->groups.size(), kMostPlannedGroups)};
  StepOptions step = options.step;
  Plan uncompressed = options.search.constraints; // compression is priced apart from the model (CompressPlan.h)
  uncompressed.compression.clear();
  if (Status status = setPlanDependentOptions(step, uncompressed, options.search.constraintsFile); !status)
    return status.error();
  auto model =
      std::make_shared<ModelLayouts>(context, source, step, options.dtype, *used, options.search.constraints, trainer);
  auto job = model->job(std::nullopt);
  if (!job)
    return job.error();
  job->trainer = &trainer;
  if (Status status = model->checkMicrobatches(); !status)
    job->noMicrobatchesReason = status.error().message;
  PlanSearchOptions search = options.search;
  search.constraints.ops = job->ops; // includes the pins of annotated IR
  search.constraints.arguments = job->arguments;
  int64_t most = used->ranks();
  for (auto [sizes, all] : {std::pair(&search.modelSizes, model->modelSizes(most, trainer.space.unevenHeads)),
                            std::pair(&search.expertSizes, model->expertSizes(most)),
                            std::pair(&search.contextSizes, model->contextSizes(most, kMinContextTokensPerRank))}) {
    if (!all)
      return all.error();
    *sizes = std::move(*all);
  }
  if (search.modelSizes.size() > 1)
    search.omittedSizes.emplace_back(
        "model", fmt::format("sizes of model that do not divide the heads of attention{} (without attention: that are "
                             "no powers of two)",
                             trainer.space.unevenHeads ? ", other than powers of two below their number" : ""));
  if (search.expertSizes.size() > 1)
    search.omittedSizes.emplace_back("expert", "sizes of expert that do not divide the experts");
  auto anyContext = model->contextSizes(most, 1);
  if (!anyContext)
    return anyContext.error();
  if (anyContext->size() > search.contextSizes.size())
    search.omittedSizes.emplace_back(
        "context", fmt::format("sizes of context that leave a rank fewer than {} positions", kMinContextTokensPerRank));
  bool pinned = !job->ops.empty() || !job->arguments.empty();
  LayoutSource layouts = [model, pinned](const LayoutKey &key) -> Result<const ModelWork *> {
    auto possible = model->possible(key);
    if (!possible)
      return possible.error();
    if (!*possible)
      return nullptr;
    auto work = model->work(key);
    bool cannot = !work && pinned && work.error().status == ExitStatus::Infeasible;
    return cannot ? Result<const ModelWork *>(nullptr) : work;
  };
  search.expectLayouts = [model](std::span<const LayoutKey> keys) { model->expect(keys); };
  std::shared_ptr<LoweredFigures> figures;
  if (pricedAsLowered(*used) && options.dtype != "f8") {
    figures = std::make_shared<LoweredFigures>(context, source, options.step, options.dtype);
    job->refineWithProgram = [figures](const Plan &plan, const Cluster &on, Simulation &simulation) {
      return figures->apply(plan, "the plan", on, simulation);
    };
  }
  return WholePlanJob{std::move(*used),   std::move(*job),  std::move(search),
                      std::move(layouts), std::move(model), std::move(figures)};
}

} // namespace kerf
