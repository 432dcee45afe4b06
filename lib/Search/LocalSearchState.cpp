// SPDX-License-Identifier: Apache-2.0
#include "LocalSearchState.h"
#include <algorithm>

using namespace kerf;
using namespace kerf::search;

RowLoads::RowLoads(const std::vector<int64_t> &slack) : rows(static_cast<int>(slack.size())) {
  if (slack.empty())
    return;
  while (leaves < rows)
    leaves *= 2;
  pending.assign(2 * leaves, 0);
  greatest.assign(2 * leaves, std::numeric_limits<int64_t>::min() / 4);
  for (int r = 0; r < rows; ++r)
    greatest[leaves + r] = -slack[r];
  for (int k = leaves; --k > 0;)
    greatest[k] = std::max(greatest[2 * k], greatest[2 * k + 1]);
}

void RowLoads::add(int firstRow, int endRow, int64_t bytes) {
  if (firstRow < endRow && bytes != 0)
    addBelow(1, 0, leaves, firstRow, endRow, bytes);
}

void RowLoads::addBelow(int place, int low, int high, int firstRow, int endRow, int64_t bytes) {
  if (firstRow <= low && high <= endRow) {
    pending[place] += bytes;
    greatest[place] += bytes;
    return;
  }
  int half = (low + high) / 2;
  if (firstRow < half)
    addBelow(2 * place, low, half, firstRow, endRow, bytes);
  if (endRow > half)
    addBelow(2 * place + 1, half, high, firstRow, endRow, bytes);
  greatest[place] = pending[place] + std::max(greatest[2 * place], greatest[2 * place + 1]);
}

std::vector<int64_t> RowLoads::all() const {
  std::vector<int64_t> loads(rows);
  for (int r = 0; r < rows; ++r) {
    loads[r] = greatest[leaves + r];
    for (int k = (leaves + r) / 2; k > 0; k /= 2)
      loads[r] += pending[k];
  }
  return loads;
}

LocalSearchState::LocalSearchState(const Core &core, Labels start)
    : core(core), labels(std::move(start)), loads(core.slack), finite(core.costs), blocked(core.size()) {
  for (int i = 0; i < core.size(); ++i)
    blocked[i].assign(finite[i].size(), 0);
  auto count = [&](int variable, int label, double cost) {
    if (cost == kInfinity)
      ++blocked[variable][label];
    else
      finite[variable][label] += cost;
  };
  cost = core.constant;
  steps = core.allLabels() + static_cast<int64_t>(core.slack.size());
  for (const CoreTable &table : core.tables) {
    int columns = core.labels(table.v), a = labels[table.u], b = labels[table.v];
    for (int s = 0; s < core.labels(table.u); ++s)
      count(table.u, s, table.costs[s * columns + b]);
    for (int s = 0; s < columns; ++s)
      count(table.v, s, table.costs[a * columns + s]);
    double mine = table.costs[a * columns + b];
    if (mine == kInfinity)
      ++forbidden;
    else
      cost += mine;
  }
  for (int i = 0; i < core.size(); ++i) {
    cost += core.costs[i][labels[i]];
    for (const CoreUsage &usage : core.usages[i])
      loads.add(usage.firstRow, usage.endRow, usage.bytes[labels[i]]);
  }
}

void LocalSearchState::set(int variable, int label) {
  int old = labels[variable];
  if (old == label)
    return;
  cost += finite[variable][label] - finite[variable][old];
  steps += 20 * static_cast<int64_t>(core.usages[variable].size());
  forbidden += blocked[variable][label] - blocked[variable][old];
  for (const CoreUsage &usage : core.usages[variable])
    loads.add(usage.firstRow, usage.endRow, usage.bytes[label] - usage.bytes[old]);
  for (int t : core.tablesOf[variable]) {
    const CoreTable &table = core.tables[t];
    bool isU = table.u == variable;
    int partner = isU ? table.v : table.u, columns = core.labels(table.v);
    size_t step = isU ? 1 : columns, now = isU ? static_cast<size_t>(label) * columns : label,
           then = isU ? static_cast<size_t>(old) * columns : old;
    steps += core.labels(partner);
    for (int p = 0; p < core.labels(partner); ++p, now += step, then += step) {
      double added = table.costs[now], removed = table.costs[then];
      blocked[partner][p] += (added == kInfinity) - (removed == kInfinity);
      finite[partner][p] += (added == kInfinity ? 0.0 : added) - (removed == kInfinity ? 0.0 : removed);
    }
  }
  labels[variable] = label;
}
