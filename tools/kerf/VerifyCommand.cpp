// SPDX-License-Identifier: Apache-2.0
// kerf verify: checks the programs of a plan at full size, and compares a run at reduced size with a single rank.
#include "Options.h"

#include "kerf/Compiler/Verify.h"
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

Json toJson(const FullSizeCheck &full) {
  Json json{{"ranks", full.ranks}, {"stages", full.stages.size()}, {"microbatches", full.microbatches}};
  for (size_t stage = 0; stage < full.stages.size(); ++stage) {
    json["stage_bytes"].push_back(full.stages[stage].bytes);
    if (full.limited && full.stages[stage].bytes > full.stages[stage].limitBytes)
      json["too_much"].push_back(stage);
  }
  json["memory_rules"] = full.memoryRules;
  if (full.limited)
    json["limit_bytes"] = full.stages.front().limitBytes;
  return json;
}

Json toJson(const VerifyResult &verified) {
  return {{"full", toJson(verified.full)},
          {"shrunk", verified.small.notes},
          {"mesh", verified.small.plan.meshSizes},
          {"losses", verified.losses},
          {"losses_of_one_rank", verified.lossesOfOneRank},
          {"difference", verified.difference ? Json(*verified.difference) : Json(nullptr)}};
}

struct VerifyCommand {
  ModelFlags model;
  std::string planFile, cluster;
  bool json = false, deterministic = false;
  PlanInput planInput;

  bool configured() const { return model.model.ends_with(".json"); }

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

  void printText(const VerifyResult &verified) const {
    const FullSizeCheck &full = verified.full;
    std::vector<std::string> needs;
    for (const StageMemoryNeed &stage : full.stages)
      needs.push_back(full.limited ? fmt::format("{} of {}", bytesText(stage.bytes), bytesText(stage.limitBytes))
                                   : bytesText(stage.bytes));
    fmt::print("{} at full size: {} ranks, {} stages, {} microbatches\n"
               "  schedule and messages   free of deadlock; the ranks of a stage run one program\n"
               "  memory by stage         {}{}\n",
               planFile, full.ranks, full.stages.size(), full.microbatches, fmt::join(needs, ", "),
               full.limited ? fmt::format(", {}", full.memoryRules)
                            : fmt::format(", {}; --cluster adds the limit of the devices", full.memoryRules));
    fmt::print("run small: mesh {}, {} steps in float64 against one rank\n", meshText(verified.small.plan.mesh()),
               kVerifiedSteps);
    for (const std::string &note : verified.small.notes)
      fmt::print("  {}\n", note);
    if (!configured())
      fmt::print("  layers, sizes and batch of an export stay as they are\n");
    if (!verified.difference)
      fmt::print("losses, gradients and parameters under the plan equal those of one rank\n");
  }

  int run() {
    auto verified = verify();
    if (!verified)
      return fail(verified.error());
    if (json)
      fmt::print("{}\n", toJson(*verified).dump(2));
    else
      printText(*verified);
    if (verified->difference)
      return fail(
          {fmt::format("{}: on the shrunken mesh {}", planFile, *verified->difference), ExitStatus::InternalCheck});
    const FullSizeCheck &full = verified->full;
    for (size_t stage = 0; full.limited && stage < full.stages.size(); ++stage)
      if (const StageMemoryNeed &need = full.stages[stage]; need.bytes > need.limitBytes)
        return fail(
            {fmt::format("{}: stage {} needs {} on each rank, but the device has {} for it; plan again with more "
                         "recomputation, optimizer sharding or ranks, or with a smaller microbatch",
                         planFile, stage, bytesText(need.bytes), bytesText(need.limitBytes)),
             ExitStatus::Infeasible});
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
