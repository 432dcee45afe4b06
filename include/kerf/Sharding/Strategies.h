// SPDX-License-Identifier: Apache-2.0
// The strategies of many ops on one mesh, with the shardings that they give (Rule.h).
#pragma once

#include "kerf/Sharding/Rule.h"
#include <map>

namespace kerf {

/// A list of strategies of one rule on one mesh. The shardings of a strategy are computed when they are asked for the
/// first time, because a layout rules out most strategies before anyone needs their shardings.
class RuleStrategies {
public:
  /// `mesh` must outlive the object.
  RuleStrategies(Rule rule, const Mesh &mesh, std::vector<Strategy> strategies);
  size_t size() const { return strategies.size(); }
  const Strategy &operator[](size_t i) const { return strategies[i]; }
  /// Returns what `project` gives for strategy i; null: nothing, since the strategy is impossible.
  const OpSharding *sharding(size_t i);

private:
  Rule rule;
  const Mesh &mesh;
  std::vector<Strategy> strategies;
  std::vector<std::optional<std::optional<OpSharding>>> shardings; // of each strategy that was asked for
};

/// The strategies of rules on one mesh. They are computed once for all ops whose rules differ at most in names.
class StrategiesOnMesh {
public:
  /// `mesh` must outlive the object.
  explicit StrategiesOnMesh(const Mesh &mesh) : mesh(mesh) {}
  /// Returns the strategies of enumerateStrategies(rule, mesh), in the same order, with impossible ones among them. The
  /// reference stays valid as long as the object.
  RuleStrategies &of(const Rule &rule);

private:
  const Mesh &mesh;
  std::map<std::vector<int64_t>, RuleStrategies> known; // by the numbers of the rule
};

} // namespace kerf
