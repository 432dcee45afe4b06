// SPDX-License-Identifier: Apache-2.0
#include "WholePlan.h"
#include "ReportFile.h"
#include "StartMessages.h"

#include "kerf/Compiler/PlanJob.h"
#include "kerf/PlanSearch/Explain.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/StepText.h"
#include "kerf/Support/Signals.h"
#include <fmt/core.h>

namespace kerf::tool {

int searchWholePlan(const CLI::App &command, const PlanRequest &request, const PlanFlags &plan,
                    const WholePlanFlags &flags) {
  const Cluster &cluster = request.cluster;
  auto whole = plan.cluster.empty() ? Result<Cluster>(cluster) : readCluster(plan.cluster);
  if (!whole)
    return fail(whole.error());
  auto context = createContext();
  WholePlanCalls calls{plan.top, flags.pareto};
  calls.risk = flags.risk;
  calls.progress = [](double best, double bound) {
    fmt::print(stderr, "{}, bound {:.4g} s\n", best > 0 ? fmt::format("best {:.4g} s", best) : "no plan yet", bound);
  };
  calls.onSearchBegin = [](const std::string &what) { fmt::print(stderr, "searching: {}\n", what); };
  auto plans = searchWholePlans(*context, request, calls);
  if (!plans)
    return fail(withRemedies(plans.error(), request, *whole));
  auto described = describeJob(command, *whole, cluster.ranks(), plans->job.search.constraints);
  if (!described)
    return fail(described.error());
  printWarnings(plans->job.warnings());
  if (receivedSignal())
    fmt::print(stderr, "interrupted: this is the best plan found so far\n");
  for (const std::string &note : plans->notes)
    fmt::print(stderr, "note: {}\n", settingsAsOptions(note));

  Plan best = plans->best(std::move(*described), cluster);
  std::string text = toJson(best), told = toText(plans->found, request.model.name, cluster);
  if (const auto &start = plans->job.search.startingPlan) {
    told += fmt::format("changed from {}\n", plan.from);
    auto changes = differences(*start, best);
    for (const PlanDifference &change : changes)
      told += fmt::format("  {:<20} {} -> {}\n", change.key, change.one, change.other);
    if (changes.empty())
      told += "  nothing\n";
  }
  if (flags.pareto)
    told += toText(plans->pareto, cluster.pricePerHour);
  if (!flags.output.empty())
    if (Status status = writeFile(flags.output, text); !status)
      return fail(status.error());
  if (!flags.report.empty()) {
    auto report = reportOn(*context, request, *plans, best);
    if (!report)
      return fail(report.error());
    if (Status status = writeReport(spelled(std::move(*report)), flags.report); !status)
      return fail(status.error());
  }
  if (!flags.json)
    fmt::print("{}", told);
  else if (flags.pareto)
    fmt::print("{}\n", toJson(plans->pareto, cluster.pricePerHour).dump(2));
  else
    fmt::print("{}", text);
  return 0;
}

} // namespace kerf::tool
