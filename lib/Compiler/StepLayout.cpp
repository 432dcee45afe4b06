// SPDX-License-Identifier: Apache-2.0
#include "StepLayout.h"
#include "kerf/Compiler/Compiler.h"
#include "kerf/Transforms/ExpertLayout.h"

#include <fmt/format.h>

namespace kerf {

/// Returns a preference that allows the same strategies as `preference`, but prefers none of those that shard the
/// batch.
static StrategyPreference anyOf(StrategyPreference preference) {
  return [preference = std::move(preference)](auto &&...node) -> StrategyRank {
    return [rank = preference(node...)](const Strategy &strategy) {
      std::optional<int> its = rank(strategy);
      return its && *its < kUnshardedBatch ? 0 : its;
    };
  };
}

Result<StepLayout> layOutStep(mlir::ModuleOp module, const std::string &model, const LayoutKey &key,
                              const Cluster &cluster, const Plan &pins, const DecidedLayout *known) {
  if (int64_t experts = expertsOf(module); experts && experts % key.expert != 0)
    return Error{fmt::format(
        "{}: mesh.expert is {}, which does not divide the model's {} experts; change mesh.expert to a divisor", model,
        key.expert, experts)};
  ContextStyle style = key.ulysses ? ContextStyle::Ulysses : ContextStyle::Ring;
  if (Status status = checkContext(module, key.context, key.model, style, key.fusedAttention); !status)
    return Error{fmt::format("{}: {}", model, status.error().message)};
  // The placement has an axis for microbatches (for an export, whose module has the whole batch), and axes for the
  // ranks that share a microbatch.
  Mesh local;
  std::vector<std::optional<AxisRef>> axes;
  if (int64_t slices = batchOf(module) / (key.microbatch * key.expert); slices > 1) {
    local.axes.push_back({"data", slices});
    axes.push_back(std::nullopt);
  }
  if (key.expert > 1) {
    local.axes.push_back({"expert", key.expert});
    axes.push_back(AxisRef{planAxis("expert"), 1, key.expert});
  }
  if (key.context > 1) {
    local.axes.push_back({"context", key.context});
    axes.push_back(AxisRef{planAxis("context"), 1, key.context});
  }
  int64_t before = 1;
  for (int64_t part : modelSubAxisSizes(module, key.model)) {
    local.axes.push_back({modelSubAxisName(before), part});
    axes.push_back(AxisRef{planAxis("model"), before, part});
    before *= part;
  }
  Cluster enough = cluster;
  while (enough.ranks() <
         local.ranks()) { // costs are only compared with each other, so a larger cluster of the same kind serves
    enough.levels.back().size *= 2;
    enough.usedRanks *= 2;
  }
  CollectiveModel collectives(local, enough);
  StrategyPreference preference;
  DecidedStrategy followed;
  if (known)
    followed =
        strategiesOfLayout(module, *known); // fails if sizes that happen to be equal gave this step other operators
  if (!followed)
    preference = preferenceWithExperts(module, local,
                                       layoutPreference(module, local,
                                                        key.solved             ? ModelAxisLayout::Solved
                                                        : key.sequenceParallel ? ModelAxisLayout::MegatronSequence
                                                                               : ModelAxisLayout::Megatron));
  auto here = followed ? Result<Plan>(Plan()) : localPins(module, pins, local);
  if (!here)
    return here.error();
  const RuleOfOp rules = key.context > 1 ? rulesWithExpertGroups(local, contextRules(local, style)) : RuleOfOp();
  auto attempt = [&](const StrategyPreference &preferred) -> Result<StepLayout> {
    auto placement = buildProblem(module, collectives, *here, std::nullopt, preferred, rules, followed);
    if (!placement)
      return placement.error();
    auto solution = solve(placement->problem);
    if (!solution)
      return solution.error();
    if (solution->choice.empty())
      return Error{
          fmt::format("{}: no layout over {} ranks of the mesh axis \"model\" exists; give another size of mesh.model",
                      model, key.model),
          ExitStatus::Infeasible};
    return StepLayout{collectives, std::move(*placement), std::move(solution->choice), axes};
  };
  Result<StepLayout> layout = attempt(preference);
  // The preferred strategies may contradict each other, or the pins.
  if (!layout && layout.error().status == ExitStatus::Infeasible && preference)
    layout = attempt(anyOf(preference));
  return layout;
}

} // namespace kerf
