// SPDX-License-Identifier: Apache-2.0
#include "SimulatedReport.h"
#include "Command.h"
#include "kerf/PlanSearch/StepOfPlan.h"

namespace kerf::tool {

Result<StepReport> stepReport(const std::string &model, const Cluster &cluster, const SimulatedPlan &simulated) {
  auto pipeline = pipelineOf(simulated.plan, simulated.cluster);
  if (!pipeline)
    return pipeline.error();
  StepReport report =
      kerf::stepReport(model, cluster, simulated.plan, simulated.work, simulated.step, *pipeline, simulated.simulation);
  for (const std::string &warning : simulated.warnings)
    report.warnings.push_back(settingsAsOptions(warning));
  return report;
}

} // namespace kerf::tool
