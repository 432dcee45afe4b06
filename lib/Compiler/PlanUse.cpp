// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/PlanUse.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf {

using Json = nlohmann::ordered_json;

/// Returns the settings of the job with those of the caller in their place.
static Json mergedSettings(const Json &ofJob, const Json &given) {
  auto replaced = [&](const char *key) {
    return given.contains(key) && (!ofJob.contains(key) || ofJob[key] != given[key]);
  };
  std::vector<std::string> dropped;
  if (replaced("optimizer"))
    for (const OptimizerSetting &setting : allSettings())
      dropped.emplace_back(setting.name);
  if (replaced("dtype"))
    dropped.insert(dropped.end(), {"reduce-dtype", "loss-scale", "initial-loss-scale", "loss-scale-window"});
  Json merged = Json::object();
  for (const auto &[key, value] : ofJob.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (std::find(dropped.begin(), dropped.end(), name) == dropped.end())
      merged[key] = value;
  }
  for (const auto &[key, value] : given.items())
    merged[key] = value;
  return merged;
}

Result<ResolvedUse> resolveUse(const PlanUse &use) {
  if (auto given = readSettings(use.settings, /*strict=*/false); !given)
    return given.error();
  auto saved = readJob(use.plan, use.planFile);
  if (!saved)
    return saved.error();
  const Job job = saved->value_or(Job());
  if (!use.model && job.model.empty())
    return Error{fmt::format("{} does not name its model; give the model", use.planFile)};
  if (!use.model)
    if (Status status = checkModelExists(job, use.planFile); !status)
      return status.error();
  ModelSource model = use.model ? *use.model : ModelSource(job.model);
  Json options = mergedSettings(job.options, use.settings);
  if (model.isConfig() && use.plan.globalBatch && !options.contains("global_batch"))
    options["global_batch"] = use.plan.globalBatch;
  auto settings = readSettings(options, /*strict=*/false);
  if (!settings)
    return settings.error();
  const bool known = use.cluster || job.cluster;
  int64_t ranks = settings->search.ranks;
  if (!use.cluster && job.cluster && !ranks)
    ranks = job.ranks;
  auto all = use.cluster   ? Result<Cluster>(*use.cluster)
             : job.cluster ? Result<Cluster>(*job.cluster)
                           : thisMachine(ranks ? ranks : use.plan.mesh().ranks());
  if (all && known && ranks)
    all = firstRanks(*all, ranks);
  if (!all)
    return all.error();
  return ResolvedUse{std::move(model), std::move(*settings), std::move(options), std::move(*all), known};
}

} // namespace kerf
