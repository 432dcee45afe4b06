// SPDX-License-Identifier: Apache-2.0
// A plan and its model at the smallest size that keeps every feature of the plan's structure, for a run on a few CPU
// ranks.
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"
#include <nlohmann/json.hpp>

namespace kerf {

struct Shrunk {
  Plan plan;
  nlohmann::ordered_json config; // of a config.json
  int64_t globalBatch = 0, sequence = 0;
  std::vector<std::string> notes; // what became of what: "mesh.data 64 -> 2", "intermediate_size 11008 -> 24"
};

/// Every axis of more than one rank has two, or four where `optimizer_sharding_ranks` cuts it in part; stages that have
/// meshes of their own keep two of them; a pipeline of more than two stages has three, one of several chunks two;
/// microbatches stay more than the stages where they were. `layers`: of the model, or of the export, which keeps its
/// sizes (`config` null) and its batch.
Shrunk shrink(const CompletedPlan &completed, int64_t layers, const nlohmann::ordered_json *config);

} // namespace kerf
