// SPDX-License-Identifier: Apache-2.0
// kerf verify: checks the programs of a plan at full size, and compares a run at reduced size with a single rank.
#include "Options.h"

#include "kerf/Compiler/Verify.h"
#include <fmt/core.h>

namespace kerf::tool {

namespace {

struct VerifyCommand {
  ModelFlags model;
  std::string planFile, cluster;
  bool json = false, deterministic = false;
  PlanInput planInput;

  /// Returns the fraction of device memory that the plan's job leaves free, or nothing when the job does not say.
  std::optional<double> marginOfJob() const {
    if (planInput.job)
      if (auto margin = planInput.job->options.find("margin");
          margin != planInput.job->options.end() && margin->is_number())
        return margin->get<double>();
    return std::nullopt;
  }

  Result<VerifyResult> verify() const {
    const Plan &plan = *planInput.plan;
    auto machine = chooseCluster(cluster, planInput.job, 0, plan.mesh().ranks());
    if (!machine)
      return machine.error();
    machine->device.memoryDeterministic = deterministic;
    VerifyRequest request{model.model, model.toStepOptions(), model.dtype, plan, planFile, std::move(*machine)};
    request.limited = !cluster.empty() || (planInput.job && planInput.job->cluster);
    request.margin = marginOfJob();
    return verifyPlan(request);
  }

  int run() {
    auto verified = verify();
    if (!verified)
      return fail(verified.error());
    if (json)
      fmt::print("{}\n", toJson(*verified).dump(2));
    else
      fmt::print("{}", settingsAsOptions(toText(*verified, planFile, model.model.ends_with(".json"))));
    if (Status status = verdict(*verified, planFile); !status)
      return fail(status.error());
    return 0;
  }
};

} // namespace

void addVerifyCommand(CLI::App &app, int &status) {
  auto [sub, command] =
      addCommand<VerifyCommand>(app, "verify",
                                "Check that training under a plan gives the same results as training on one rank: the "
                                "programs are checked at full "
                                "size, and a run at reduced size on this machine is compared with a single rank.\n"
                                "Example: kerf verify config.json --plan plan.json --global-batch 512 --sequence 2048",
                                status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  command->model.addTrainingTo(*sub);
  sub->add_option("--plan", command->planFile, "plan.json to check, with or without gaps")->required();
  sub->add_option("--cluster", command->cluster,
                  "cluster.json whose device memory limits every stage (default: the cluster of the plan's job)");
  sub->add_flag("--deterministic", command->deterministic, kPlannedDeterministicHelp);
  sub->add_flag("--json", command->json, "print the results of the checks as JSON");
}

} // namespace kerf::tool
