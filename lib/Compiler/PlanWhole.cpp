// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/PlanWhole.h"
#include "kerf/Compiler/ModelLayouts.h"

namespace kerf {

/// Positions of a sequence that a rank of "context" keeps at least, where the axis is not pinned: with fewer, its hops
/// take longer than the attention that they hide behind.
static constexpr int64_t kLeastTokens = 8192;

Result<WholePlan> planWhole(mlir::MLIRContext &context, const std::string &modelPath, const Cluster &cluster,
                            const WholePlanOptions &options) {
  auto used = firstRanks(cluster, options.ranks.value_or(cluster.ranks()));
  if (!used)
    return used.error();
  if (Status status = checkOneGroup(*used, "kerf plan"); !status)
    return status.error();
  ModelLayouts layouts(context, modelPath, options.step, options.dtype, *used);
  auto job = layouts.job(std::nullopt);
  if (!job)
    return job.error();
  PlanSearchOptions search = options.search;
  auto sizes = layouts.modelSizes(used->ranks());
  if (!sizes)
    return sizes.error();
  search.modelSizes = std::move(*sizes);
  auto expertSizes = layouts.expertSizes(used->ranks());
  if (!expertSizes)
    return expertSizes.error();
  search.expertSizes = std::move(*expertSizes);
  auto contextSizes = layouts.contextSizes(used->ranks(), kLeastTokens);
  if (!contextSizes)
    return contextSizes.error();
  search.contextSizes = std::move(*contextSizes);
  auto source = [&](const LayoutKey &key) -> Result<const ModelWork *> {
    auto possible = layouts.possible(key);
    if (!possible)
      return possible.error();
    return *possible ? layouts.work(key) : Result<const ModelWork *>(nullptr);
  };
  auto found = searchPlans(*used, *job, source, search);
  if (!found)
    return found.error();
  return WholePlan{std::move(*found), layouts.warnings()};
}

} // namespace kerf
