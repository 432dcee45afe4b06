// SPDX-License-Identifier: Apache-2.0
// The strategies of many ops on one mesh, with the shardings that they give (Rule.h).
#pragma once

#include "kerf/Sharding/Rule.h"
#include <map>

namespace kerf {

/// A strategy with the shardings that `project` gives for it.
struct ProjectedStrategy {
  Strategy strategy;
  OpSharding sharding;
};
/// Returns the strategies of `enumerateStrategies`, in the same order, with their shardings.
std::vector<ProjectedStrategy> projectedStrategies(const Rule &rule, const Mesh &mesh);

/// The strategies of rules on one mesh. They are computed once for all ops whose rules differ at most in names.
class StrategiesOnMesh {
public:
  /// `mesh` must outlive the object.
  explicit StrategiesOnMesh(const Mesh &mesh) : mesh(mesh) {}
  /// Returns projectedStrategies(rule, mesh). The reference stays valid as long as the object.
  const std::vector<ProjectedStrategy> &of(const Rule &rule);

private:
  const Mesh &mesh;
  std::map<std::vector<int64_t>, std::vector<ProjectedStrategy>> known; // by the numbers of the rule
};

} // namespace kerf
