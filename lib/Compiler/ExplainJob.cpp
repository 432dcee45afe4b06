// SPDX-License-Identifier: Apache-2.0
// Explains plans of the search over whole plans: repeats or changes the search for which a plan was made.
#include "kerf/Compiler/ExplainJob.h"
#include "ExplainPlacement.h"
#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/StepText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

/// Rebuilds the search job stored in `plan`, with `changes` applied. Fails when the plan stores no job or the model
/// file is missing.
Result<WholePlanJob> savedJob(mlir::MLIRContext &context, const std::string &file, const Plan &plan,
                              const ExplainRequest &request) {
  const JobChanges &changes = request.changes;
  auto saved = readJob(plan, file);
  if (!saved)
    return saved.error();
  if (!*saved || !(*saved)->cluster || ((*saved)->model.empty() && !changes.model))
    return Error{fmt::format(
        "{}: its \"job\" lacks the \"model\" or the \"cluster\"; give a plan that `kerf plan -o` wrote", file)};
  const Job &job = **saved;
  if (!changes.model)
    if (Status status = checkModelExists(job, file); !status)
      return status.error();
  auto settings = readSettings(job.options, /*strict=*/false);
  if (!settings)
    return Error{fmt::format("{}: job.options: {}", file, settings.error().message)};
  settings->search.ranks = job.ranks;
  Cluster cluster = *job.cluster;
  Plan constraints = job.constraints.value_or(Plan());
  if (!changes.trainer.empty())
    settings->search.trainer = changes.trainer;
  for (const std::string &one : changes.whatIf)
    if (Status status = scaleJob(one, cluster, *settings, constraints); !status)
      return status.error();
  auto wanted = settings->search.wantedRanks();
  if (!wanted)
    return wanted.error();
  auto used = firstRanks(cluster, *wanted ? *wanted : cluster.ranks());
  if (!used)
    return used.error();
  auto planRequest = makePlanRequest(changes.model ? *changes.model : ModelSource(job.model), *settings, *used,
                                     std::move(constraints), "");
  if (!planRequest)
    return planRequest.error();
  planRequest->stop = request.stop;
  return makeWholePlanJob(context, *planRequest);
}

Result<Answer> answerWhatIf(const ExplainRequest &request, WholePlanJob job) {
  const std::vector<std::string> &whatIf = request.changes.whatIf;
  auto there = simulatePlan(request.plan, job.cluster, job.job, job.layouts);
  job.search.startingPlan = request.plan;
  auto found = searchPlans(job.cluster, job.job, job.layouts, job.search);
  if (!found)
    return found.error();
  const FoundPlan &best = found->plans.front();
  Json root = {{"what_if", whatIf},
               {"this_plan_seconds", there ? Json(there->simulation.stepSeconds) : Json()},
               {"step_seconds", best.simulation.stepSeconds},
               {"lower_bound_seconds", found->lowerBoundSeconds},
               {"outside", found->outsideSpace},
               {"plan", Json::parse(toJson(best.plan))}};
  if (there)
    root["difference"] = differenceJson(*there, best);
  std::string text = fmt::format("with {}\n", fmt::join(whatIf, ", "));
  if (request.plan.predicted)
    text += fmt::format("  {:<12} {:.4g} s as it was planned\n", request.file, request.plan.predicted->stepSeconds);
  if (!there)
    text += fmt::format("  {:<12} cannot run: {}\n", request.file, there.error().message);
  else
    text += fmt::format("  {:<12} {:.4g} s{}\n", request.file, there->simulation.stepSeconds,
                        there->simulation.fits ? "" : ", and does not fit");
  text += fmt::format("  best         {:.4g} s: {}\n", best.simulation.stepSeconds, planText(best.plan));
  if (found->lowerBoundSeconds > 0)
    text += fmt::format("  bound        {:.4g} s\n", found->lowerBoundSeconds);
  if (there)
    text += differenceText(*there, best);
  return Answer{std::move(root), std::move(text)};
}

Result<Answer> compareWholePlans(mlir::MLIRContext &context, const ExplainRequest &request,
                                 const FoundPlan &simulated) {
  auto second = savedJob(context, request.otherFile, *request.other, request);
  if (!second)
    return second.error();
  auto there = simulatePlan(*request.other, second->cluster, second->job, second->layouts);
  if (!there)
    return there.error();
  return Answer{differenceJson(simulated, *there),
                fmt::format("{} -> {}\n{}", request.file, request.otherFile, differenceText(simulated, *there))};
}

Result<Answer> explainWholePlan(mlir::MLIRContext &context, const ExplainRequest &request) {
  if (request.other && !request.changes.whatIf.empty())
    return Error{"<what-if> applies to one plan, but two plans are given; leave one of them out"};
  auto job = savedJob(context, request.file, request.plan, request);
  if (!job)
    return job.error();
  if (!request.changes.whatIf.empty())
    return answerWhatIf(request, std::move(*job));
  auto simulated = simulatePlan(request.plan, job->cluster, job->job, job->layouts);
  if (!simulated)
    return simulated.error();
  if (request.other)
    return compareWholePlans(context, request, *simulated);
  std::vector<Report::StageSteps> steps;
  if (job->lowered)
    steps = job->lowered->lastSteps();
  std::optional<ExplainedCompression> compression;
  if (job->search.compression || !request.plan.compression.empty()) {
    auto explained = explainCompression(request.plan, job->cluster, job->job, job->layouts,
                                        job->search.compression.value_or(CompressionRequest()));
    if (!explained)
      return explained.error();
    compression = std::move(*explained);
  }
  auto explanation = explainPlan(job->cluster, job->job, job->layouts, job->search, *simulated, request.onSearchBegin);
  if (!explanation)
    return explanation.error();
  Json all = toJson(*explanation, *simulated);
  if (!steps.empty())
    all["steps"] = toJson(steps);
  std::string text = toText(*explanation, *simulated);
  if (compression) {
    all["compression"] = toJson(*compression);
    text += toText(*compression);
  }
  return Answer{std::move(all), text + toText(steps)};
}

} // namespace

bool isWholePlan(const Plan &plan) { return plan.keptKeys.contains("job") && !plan.keptKeys.contains("report"); }

Result<Answer> explain(mlir::MLIRContext &context, const ExplainRequest &request) {
  const std::string &file = request.file;
  if (!isWholePlan(request.plan)) {
    for (const auto &[given, name] :
         {std::pair(!request.changes.trainer.empty(), "for"), std::pair(!request.changes.whatIf.empty(), "what-if")})
      if (given)
        return Error{
            fmt::format("{} is a plan of <search=placement>, and <{}> applies to plans of <search=whole> only; "
                        "leave <{}> out",
                        file, name, name)};
    return explainPlacement(request);
  }
  if (!request.op.empty())
    return Error{
        fmt::format("{} is a whole plan, and <op> applies to plans of <search=placement> only; leave <op> out", file)};
  if (request.other && !isWholePlan(*request.other))
    return Error{
        fmt::format("{} has no job, but {} has one; write both plans with `kerf plan -o`", request.otherFile, file)};
  return explainWholePlan(context, request);
}

} // namespace kerf
