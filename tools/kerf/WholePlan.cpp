// SPDX-License-Identifier: Apache-2.0
#include "WholePlan.h"
#include "Remedies.h"
#include "SimulatedReport.h"
#include "StartMessages.h"

#include "kerf/Compiler/LoweredFigures.h"
#include "kerf/Compiler/Simulate.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Signals.h"
#include "kerf/Support/Suggest.h"
#include <charconv>
#include <cmath>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

void tell(const std::string &what) { fmt::print(stderr, "searching: {}\n", what); }

} // namespace

int searchWholePlan(const CLI::App &command, const PlanRequest &request, const PlanFlags &plan,
                    const WholePlanFlags &flags) {
  const Cluster &cluster = request.cluster;
  auto whole = plan.cluster.empty() ? Result<Cluster>(cluster) : readCluster(plan.cluster);
  if (!whole)
    return fail(whole.error());
  auto context = createContext();
  auto job = makeWholePlanJob(*context, request);
  if (!job)
    return fail(job.error());
  auto described = describeJob(command, *whole, cluster.ranks(), job->search.constraints);
  if (!described)
    return fail(described.error());
  job->search.top = static_cast<int>(plan.top + 1);
  job->search.progress = [](double best, double bound) {
    fmt::print(stderr, "{}, bound {:.4g} s\n", best > 0 ? fmt::format("best {:.4g} s", best) : "no plan yet", bound);
  };
  auto found = searchPlans(job->cluster, job->job, job->layouts, job->search);
  if (!found)
    return fail(withRemedies(found.error(), request, plan));
  printWarnings(job->warnings());
  if (receivedSignal())
    fmt::print(stderr, "interrupted: this is the best plan found so far\n");
  for (const std::string &note : rankCountNotes(*job, found->plans.front()))
    fmt::print(stderr, "note: {}\n", settingsAsOptions(note));
  std::vector<ParetoPlan> pareto;
  if (flags.pareto)
    pareto = paretoPlans(job->cluster, job->job, job->layouts, job->search, found->plans.front(), tell);

  Plan best = found->plans.front().plan;
  best.clusterHash = sha256(toJson(cluster));
  best.keptKeys["job"] = std::move(*described);
  best.keptKeys["job"]["outside"] = found->outsideSpace;
  std::string text = toJson(best), told = toText(*found, request.model.name, cluster);
  if (job->search.startingPlan) {
    told += fmt::format("changed from {}\n", plan.from);
    auto changes = differences(*job->search.startingPlan, best);
    for (const PlanDifference &change : changes)
      told += fmt::format("  {:<20} {} -> {}\n", change.key, change.one, change.other);
    if (changes.empty())
      told += "  nothing\n";
  }
  if (flags.pareto)
    told += toText(pareto, cluster.pricePerHour);
  if (!flags.output.empty())
    if (Status status = writeFile(flags.output, text); !status)
      return fail(status.error());
  if (!flags.report.empty()) {
    SimulateOptions again{request.step, request.dtype, job->job.trainer, std::nullopt, Trace::Yes};
    again.step.precision.reset(); // types are `dtype`'s
    auto simulated = simulatePlan(*context, request.model, best, "the plan found", job->cluster, again);
    if (!simulated)
      return fail(simulated.error());
    auto full = stepReport(request.model.name, job->cluster, *simulated);
    if (!full)
      return fail(full.error());
    if (found->lowerBoundSeconds > 0) // for compiled CPU programs no lower bound is known
      full->lowerBoundSeconds = found->lowerBoundSeconds;
    full->outside = found->outsideSpace;
    full->statistics = found->statistics;
    full->others.assign(found->plans.begin() + 1, found->plans.end());
    full->pareto = pareto;
    if (Status status = writeReport(*full, flags.report); !status)
      return fail(status.error());
  }
  if (!flags.json)
    fmt::print("{}", told);
  else if (flags.pareto)
    fmt::print("{}\n", toJson(pareto, cluster.pricePerHour).dump(2));
  else
    fmt::print("{}", text);
  return 0;
}

bool isWholePlan(const Plan &plan) { return plan.keptKeys.contains("job") && !plan.keptKeys.contains("report"); }

namespace {

/// Applies one --what-if, such as "infiniband.bandwidth*2", "ranks*2" or "global_batch/2", to the job. Fails when the
/// text has another form or names an unknown quantity.
Status change(const std::string &whatIf, Cluster &cluster, ModelFlags &model, PlanFlags &flags, Plan &constraints) {
  size_t at = whatIf.find_last_of("*/");
  std::string name = whatIf.substr(0, at == std::string::npos ? 0 : at);
  double factor = 0;
  const char *end = whatIf.data() + whatIf.size();
  auto read = at == std::string::npos ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                      : std::from_chars(whatIf.data() + at + 1, end, factor);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(factor) || factor <= 0)
    return Error{fmt::format("--what-if '{}' has to be a quantity, '*' or '/' and a number above 0, as in "
                             "\"infiniband.bandwidth*2\"",
                             whatIf)};
  if (whatIf[at] == '/')
    factor = 1 / factor;
  if (name.starts_with("level."))
    name = name.substr(6);
  auto whole = [&](int64_t value) -> Result<int64_t> {
    double scaled = static_cast<double>(value) * factor;
    if (scaled < 1 || scaled != std::floor(scaled) || scaled > 1e15)
      return Error{
          fmt::format("--what-if {}: {} x {} is not a whole number; give another factor", whatIf, value, factor)};
    return static_cast<int64_t>(scaled);
  };
  if (name == "global_batch") {
    int64_t now = model.globalBatch ? model.globalBatch : constraints.globalBatch;
    if (now == 0)
      return Error{fmt::format(
          "--what-if {}: the batch of an export is fixed; only a config.json's model can have another", whatIf)};
    auto batch = whole(now);
    if (!batch)
      return batch.error();
    model.globalBatch = *batch;
    constraints.globalBatch = 0;
    return ok();
  }
  if (name == "ranks") {
    auto ranks = whole(flags.ranks ? flags.ranks : cluster.ranks());
    if (!ranks)
      return ranks.error();
    if (cluster.mixed() && *ranks > cluster.ranks())
      return Error{
          fmt::format("--what-if {}: '{}' has {} ranks in {} groups, and it is unclear which group would grow; give "
                      "at most that many ranks",
                      whatIf, cluster.name, cluster.ranks(), cluster.groups.size())};
    flags.ranks = *ranks;
    if (cluster.mixed())
      return ok();
    Level &outermost = cluster.levels.back(); // the outermost level gets more units when the cluster is too small
    int64_t each = cluster.devicesPerUnit(cluster.levels.size() - 1) / outermost.size;
    outermost.size = std::max(outermost.size, (*ranks + each - 1) / each);
    cluster.usedRanks = each * outermost.size;
    return ok();
  }
  if (name == "device.memory") {
    if (factor > 1e6 || factor < 1e-6)
      return Error{fmt::format("--what-if {}: the factor of a device's memory is {}; give a factor from 1e-6 to 1e6",
                               whatIf, factor)};
    flags.memory =
        std::llround(static_cast<double>(flags.memory) * factor); // 0 stands for the memory of the device and stays 0
  }
  if (scaleQuantity(cluster, name, factor))
    return ok();
  std::vector<std::string> known = scalableQuantities(cluster);
  known.insert(known.end(), {"device.memory", "ranks", "global_batch"});
  return Error{fmt::format("--what-if {}: '{}' is not a known quantity; {}", whatIf, name, suggestion(name, known))};
}

/// Rebuilds the search job stored in `plan`, with `changes` applied. Fails when the plan stores no job or the model
/// file is missing.
Result<WholePlanJob> savedJob(mlir::MLIRContext &context, const std::string &file, const Plan &plan,
                              const JobChanges &changes = {}) {
  auto saved = readJob(plan, file);
  if (!saved)
    return saved.error();
  if (!*saved || !(*saved)->cluster || (*saved)->model.empty())
    return Error{fmt::format(
        "{}: its \"job\" lacks the \"model\" or the \"cluster\"; give a plan that `kerf plan -o` wrote", file)};
  const Job &job = **saved;
  if (Status status = checkModelExists(job, file); !status)
    return status.error();
  CLI::App command("", "explain");
  ModelFlags model;
  PlanFlags flags;
  model.addTo(command, {"f32", "f64", "bf16", "f16", "f8"});
  flags.addTo(command);
  addTrainer(command, flags.trainer);
  PrecisionFlags precision;
  precision.addTo(command);
  if (Status status = applyJobOptions(command, job, file, JobPart::All); !status)
    return status.error();
  model.model = job.model;
  flags.ranks = job.ranks;
  Cluster cluster = *job.cluster;
  Plan constraints = job.constraints.value_or(Plan());
  if (!changes.trainer.empty())
    flags.trainer = changes.trainer;
  for (const std::string &one : changes.whatIf)
    if (Status status = change(one, cluster, model, flags, constraints); !status)
      return status.error();
  auto used = firstRanks(cluster, flags.mode == "stand-alone" ? 1 : flags.ranks ? flags.ranks : cluster.ranks());
  if (!used)
    return used.error();
  auto request = makePlanRequest(model, precision, flags, *used);
  if (!request)
    return request.error();
  request->options.constraints = std::move(constraints);
  return makeWholePlanJob(context, *request);
}

int answerWhatIf(const std::string &file, const Plan &plan, WholePlanJob job, const std::vector<std::string> &whatIf,
                 bool json) {
  auto there = simulatePlan(plan, job.cluster, job.job, job.layouts);
  job.search.startingPlan = plan;
  auto found = searchPlans(job.cluster, job.job, job.layouts, job.search);
  if (!found)
    return fail(found.error());
  const FoundPlan &best = found->plans.front();
  if (json) {
    Json root = {{"what_if", whatIf},
                 {"this_plan_seconds", there ? Json(there->simulation.stepSeconds) : Json()},
                 {"step_seconds", best.simulation.stepSeconds},
                 {"lower_bound_seconds", found->lowerBoundSeconds},
                 {"outside", found->outsideSpace},
                 {"plan", Json::parse(toJson(best.plan))}};
    if (there)
      root["difference"] = differenceJson(*there, best);
    fmt::print("{}\n", root.dump(2));
    return 0;
  }
  fmt::print("with {}\n", fmt::join(whatIf, ", "));
  if (plan.predicted)
    fmt::print("  {:<12} {:.4g} s as it was planned\n", file, plan.predicted->stepSeconds);
  if (!there)
    fmt::print("  {:<12} cannot run: {}\n", file, there.error().message);
  else
    fmt::print("  {:<12} {:.4g} s{}\n", file, there->simulation.stepSeconds,
               there->simulation.fits ? "" : ", and does not fit");
  fmt::print("  best         {:.4g} s: {}\n", best.simulation.stepSeconds, planText(best.plan));
  if (found->lowerBoundSeconds > 0)
    fmt::print("  bound        {:.4g} s\n", found->lowerBoundSeconds);
  if (there)
    fmt::print("{}", differenceText(*there, best));
  return 0;
}

} // namespace

int explainWholePlan(const std::string &file, const Plan &plan, const std::string &otherFile,
                     const std::optional<Plan> &other, const JobChanges &changes, bool json) {
  if (other && !changes.whatIf.empty())
    return fail({"--what-if applies to one plan, but two plans are given; leave one of them out"});
  auto context = createContext();
  auto job = savedJob(*context, file, plan, changes);
  if (!job)
    return fail(job.error());
  if (!changes.whatIf.empty())
    return answerWhatIf(file, plan, std::move(*job), changes.whatIf, json);
  auto simulated = simulatePlan(plan, job->cluster, job->job, job->layouts);
  if (!simulated)
    return fail(simulated.error());
  if (other) {
    auto second = savedJob(*context, otherFile, *other, changes);
    if (!second)
      return fail(second.error());
    auto there = simulatePlan(*other, second->cluster, second->job, second->layouts);
    if (!there)
      return fail(there.error());
    if (json)
      fmt::print("{}\n", differenceJson(*simulated, *there).dump(2));
    else
      fmt::print("{} -> {}\n{}", file, otherFile, differenceText(*simulated, *there));
    return 0;
  }
  std::vector<Report::StageSteps> steps;
  if (job->lowered)
    steps = job->lowered->lastSteps();
  auto explanation = explainPlan(job->cluster, job->job, job->layouts, job->search, *simulated, tell);
  if (!explanation)
    return fail(explanation.error());
  if (json) {
    nlohmann::ordered_json all = toJson(*explanation, *simulated);
    if (!steps.empty())
      all["steps"] = toJson(steps);
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{}{}", toText(*explanation, *simulated), toText(steps));
  }
  return 0;
}

} // namespace kerf::tool
