// SPDX-License-Identifier: Apache-2.0
#include "LayOut.h"
#include "kerf/Compiler/Compiler.h"
#include "kerf/Transforms/ExpertLayout.h"

#include <fmt/format.h>

namespace kerf {

/// The same strategies, none before another that cuts the batch as well as it does.
static StrategyRank anyOf(StrategyRank rank) {
  return [rank = std::move(rank)](auto &&...asked) -> std::optional<int> {
    std::optional<int> its = rank(asked...);
    return its && *its < kBatchWhole ? 0 : its;
  };
}

Result<LaidOut> layOut(mlir::ModuleOp module, const std::string &model, const LayoutKey &key, const Cluster &cluster,
                       const Plan &pins, const DecidedLayout *known) {
  if (int64_t experts = expertsOf(module); experts && experts % key.expert != 0)
    return Error{
        fmt::format("{}: mesh.expert is {}, which does not divide the model's {} experts", model, key.expert, experts)};
  ContextStyle style = key.ulysses ? ContextStyle::Ulysses : ContextStyle::Ring;
  if (Status status = checkContext(module, key.context, key.model, style, key.fusedAttention); !status)
    return Error{fmt::format("{}: {}", model, status.error().message)};
  // Axes of the placement: microbatches (of an export, that has its whole batch), and the ranks that share a
  // microbatch.
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
  for (int64_t part : modelParts(module, key.model)) {
    local.axes.push_back({modelPartName(before), part});
    axes.push_back(AxisRef{planAxis("model"), before, part});
    before *= part;
  }
  Cluster enough = cluster;
  while (enough.ranks() < local.ranks()) { // the placement's prices are only compared with each other
    enough.levels.back().size *= 2;
    enough.usedRanks *= 2;
  }
  CollectiveModel collectives(local, enough);
  StrategyRank rank;
  DecidedStrategy followed;
  if (known)
    followed = followLayout(module, *known); // sizes that happen to be equal can make another step of it
  if (!followed)
    rank = withExperts(module, local,
                       layoutRank(module, local,
                                  key.solved             ? OverModel::Solved
                                  : key.sequenceParallel ? OverModel::MegatronSequence
                                                         : OverModel::Megatron));
  auto here = followed ? Result<Plan>(Plan()) : localPins(module, pins, local);
  if (!here)
    return here.error();
  const RuleOfOp rules = key.context > 1 ? withExpertGroups(local, contextRules(local, style)) : RuleOfOp();
  auto placement = buildProblem(module, collectives, *here, std::nullopt, rank, rules, followed);
  if (!placement)
    return placement.error();
  auto solution = solve(placement->problem);
  if (solution && solution->choice.empty() && rank) { // pins can ask for what the best ranks have no answer to
    placement = buildProblem(module, collectives, *here, std::nullopt, anyOf(rank), rules, followed);
    if (!placement)
      return placement.error();
    solution = solve(placement->problem);
  }
  if (!solution)
    return solution.error();
  if (solution->choice.empty())
    return Error{fmt::format("{}: no layout over {} ranks of \"model\" can be carried out", model, key.model)};
  return LaidOut{std::move(collectives), std::move(*placement), std::move(solution->choice), std::move(axes)};
}

} // namespace kerf
