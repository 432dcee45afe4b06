// SPDX-License-Identifier: Apache-2.0
// The result of verifying a plan as JSON, as text and as a verdict.
#include "kerf/Compiler/Verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

using Json = nlohmann::ordered_json;

static Json toJson(const FullSizeCheck &full) {
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

std::string toText(const VerifyResult &verified, const std::string &planFile, bool configured) {
  const FullSizeCheck &full = verified.full;
  std::vector<std::string> needs;
  for (const StageMemoryNeed &stage : full.stages)
    needs.push_back(full.limited ? fmt::format("{} of {}", bytesText(stage.bytes), bytesText(stage.limitBytes))
                                 : bytesText(stage.bytes));
  std::string text = fmt::format("{} at full size: {} ranks, {} stages, {} microbatches\n"
                                 "  schedule and messages   free of deadlock; the ranks of a stage run one program\n"
                                 "  memory by stage         {}, {}{}\n",
                                 planFile, full.ranks, full.stages.size(), full.microbatches, fmt::join(needs, ", "),
                                 full.memoryRules, full.limited ? "" : "; <cluster> adds the limit of the devices");
  text += fmt::format("run small: mesh {}, {} steps in float64 against one rank\n",
                      meshText(verified.small.plan.mesh()), kVerifiedSteps);
  for (const std::string &note : verified.small.notes)
    text += fmt::format("  {}\n", note);
  if (!configured)
    text += "  layers, sizes and batch of an export stay as they are\n";
  if (!verified.difference)
    text += "losses, gradients and parameters under the plan equal those of one rank\n";
  return text;
}

Status verdict(const VerifyResult &verified, const std::string &planFile) {
  if (verified.difference)
    return Error{fmt::format("{}: on the shrunken mesh {}", planFile, *verified.difference), ExitStatus::InternalCheck};
  const FullSizeCheck &full = verified.full;
  for (size_t stage = 0; full.limited && stage < full.stages.size(); ++stage)
    if (const StageMemoryNeed &need = full.stages[stage]; need.bytes > need.limitBytes)
      return Error{fmt::format("{}: stage {} needs {} on each rank, but the device has {} for it; plan again with more "
                               "recomputation, optimizer sharding or ranks, or with a smaller microbatch",
                               planFile, stage, bytesText(need.bytes), bytesText(need.limitBytes)),
                   ExitStatus::Infeasible};
  return ok();
}

} // namespace kerf
