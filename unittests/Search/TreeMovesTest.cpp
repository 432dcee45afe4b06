// SPDX-License-Identifier: Apache-2.0
// moveTrees against the enumeration of all choices.
#include "../../lib/Search/TreeMoves.h"
#include "Choices.h"
#include <gtest/gtest.h>

using namespace kerf;
using namespace kerf::search;

namespace {

using Priced = std::vector<std::vector<double>>;

void addTable(Core &core, int u, int v, Random &random) {
  CoreTable table{u, v, {}};
  for (int k = 0; k < core.labels(u) * core.labels(v); ++k)
    table.costs.push_back(random.below(4) == 0 ? kInfinity : random.below(50));
  for (int end : {u, v})
    core.tablesOf[end].push_back(static_cast<int>(core.tables.size()));
  core.tables.push_back(table);
}

/// Returns a random tree of variables, plus `more` tables that close cycles.
Core randomCore(int more, Random &random) {
  Core core;
  int count = 2 + random.below(6);
  core.tablesOf.resize(count);
  core.usages.resize(count);
  for (int i = 0; i < count; ++i) {
    core.costs.emplace_back();
    for (int labels = 1 + random.below(4); labels > 0; --labels)
      core.costs.back().push_back(random.below(30));
  }
  for (int i = 1; i < count; ++i)
    addTable(core, i, random.below(i), random);
  for (int k = 0; k < more; ++k)
    if (int u = random.below(count), v = random.below(count); u != v)
      addTable(core, std::min(u, v), std::max(u, v), random);
  return core;
}

double valueOf(const Core &core, const Priced &priced, const Labels &labels) {
  double sum = 0;
  for (int i = 0; i < core.size(); ++i)
    sum += core.costs[i][labels[i]] + priced[i][labels[i]];
  for (const CoreTable &table : core.tables)
    sum += std::min(table.costs[labels[table.u] * core.labels(table.v) + labels[table.v]], kForbiddenCost);
  return sum;
}

double leastValue(const Core &core, const Priced &priced) {
  double least = kInfinity;
  test::forEachChoice(core, [&](const Labels &labels) { least = std::min(least, valueOf(core, priced, labels)); });
  return least;
}

Priced randomPrices(const Core &core, Random &random) {
  Priced priced = core.costs;
  for (std::vector<double> &prices : priced)
    for (double &price : prices)
      price = random.below(40);
  return priced;
}

Labels randomLabels(const Core &core, Random &random) {
  Labels labels;
  for (int i = 0; i < core.size(); ++i)
    labels.push_back(random.below(core.labels(i)));
  return labels;
}

} // namespace

TEST(TreeMoves, FindTheCheapestChoiceOfATreeFromAnyStart) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random{seed};
    Core core = randomCore(0, random);
    Priced priced = randomPrices(core, random);
    LocalSearchState state(core, randomLabels(core, random));
    moveTrees(state, priced, random);
    double least = leastValue(core, priced);
    if (least < kForbiddenCost)
      EXPECT_EQ(valueOf(core, priced, state.labels), least);
    else // every choice takes something forbidden
      EXPECT_LE(valueOf(core, priced, state.labels), least * (1 + 1e-8));
  }
}

TEST(TreeMoves, NeverMakeAChoiceOfAGraphWithCyclesDearer) {
  int cheaper = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random{seed};
    Core core = randomCore(4, random);
    Priced priced = randomPrices(core, random);
    LocalSearchState state(core, randomLabels(core, random));
    double before = valueOf(core, priced, state.labels);
    moveTrees(state, priced, random);
    double after = valueOf(core, priced, state.labels);
    EXPECT_LE(after, before);
    cheaper += after < before;
    EXPECT_GE(after, leastValue(core, priced));
  }
  EXPECT_GT(cheaper, 200);
}
