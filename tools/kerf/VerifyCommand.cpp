// SPDX-License-Identifier: Apache-2.0
// kerf verify: the plan's programs are checked at full size, and run at a small one against a single rank.
#include "Options.h"

#include "kerf/Compiler/Verify.h"
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

Json toJson(const FullCheck &full) {
  Json json{{"ranks", full.ranks}, {"stages", full.stages.size()}, {"microbatches", full.microbatches}};
  for (size_t stage = 0; stage < full.stages.size(); ++stage) {
    json["stage_bytes"].push_back(full.stages[stage].bytes);
    if (full.limited && full.stages[stage].bytes > full.stages[stage].limitBytes)
      json["too_much"].push_back(stage);
  }
  if (full.limited)
    json["limit_bytes"] = full.stages.front().limitBytes;
  return json;
}

Json toJson(const Verified &verified) {
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
  bool json = false;
  GivenPlan given;

  bool configured() const { return model.model.ends_with(".json"); }

  /// The share of the devices' memory that the plan was asked to leave free.
  std::optional<double> marginOfJob() const {
    if (given.job)
      if (auto margin = given.job->options.find("margin"); margin != given.job->options.end() && margin->is_number())
        return margin->get<double>();
    return std::nullopt;
  }

  Result<Verified> verify() const {
    const Plan &plan = *given.plan;
    auto machine = machinesOf(cluster, given.job, 0, plan.mesh().ranks());
    if (!machine)
      return machine.error();
    VerifyRequest request{model.model, model.toStepOptions(), model.dtype, plan, planFile, std::move(*machine)};
    request.limited = !cluster.empty() || (given.job && given.job->cluster);
    request.margin = marginOfJob();
    return verifyPlan(request);
  }

  void printText(const Verified &verified) const {
    const FullCheck &full = verified.full;
    std::vector<std::string> needs;
    for (const StageNeed &stage : full.stages)
      needs.push_back(full.limited ? fmt::format("{} of {}", bytesText(stage.bytes), bytesText(stage.limitBytes))
                                   : bytesText(stage.bytes));
    fmt::print(
        "{} at full size: {} ranks, {} stages, {} microbatches\n"
        "  schedule and messages   in an order in which no rank waits for ever; a stage's ranks run one program\n"
        "  memory by stage         {}{}\n",
        planFile, full.ranks, full.stages.size(), full.microbatches, fmt::join(needs, ", "),
        full.limited ? "" : ", as the CPU's kernels need it; --cluster says what devices have");
    fmt::print("run small: mesh {}, {} steps in float64 against one rank\n", meshText(verified.small.plan.mesh()),
               kVerifiedSteps);
    for (const std::string &note : verified.small.notes)
      fmt::print("  {}\n", note);
    if (!configured())
      fmt::print("  an export keeps its layers, its sizes and its batch\n");
    if (!verified.difference)
      fmt::print("the plan's losses, gradients and parameters are those of one rank\n");
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
    const FullCheck &full = verified->full;
    for (size_t stage = 0; full.limited && stage < full.stages.size(); ++stage)
      if (const StageNeed &need = full.stages[stage]; need.bytes > need.limitBytes)
        return fail(
            {fmt::format(
                 "{}: stage {} needs {} a rank, the device leaves {} for it; plan again with more recomputation, "
                 "optimizer sharding or ranks, or with a smaller microbatch",
                 planFile, stage, bytesText(need.bytes), bytesText(need.limitBytes)),
             ExitStatus::Infeasible});
    return 0;
  }
};

} // namespace

void addVerify(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<VerifyCommand>(
      app, "verify",
      "Check that a plan gives the numbers of one rank: its programs at full size, and a run of a small one here.\n"
      "Example: kerf verify config.json --plan plan.json --global-batch 512 --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  command->model.addTrainingTo(*sub);
  sub->add_option("--plan", command->planFile, "plan.json, complete or partial")->required();
  sub->add_option("--cluster", command->cluster, "cluster.json: its memory is the limit of every stage");
  sub->add_flag("--json", command->json, "what was checked, as JSON");
}

} // namespace kerf::tool
