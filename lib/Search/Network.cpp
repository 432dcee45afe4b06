// SPDX-License-Identifier: Apache-2.0
#include "Network.h"
#include "MemoryRows.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

using namespace kerf;
using namespace kerf::search;

namespace {

/// Variable of each node: the tie groups, numbered by their first node.
std::vector<int> mergeTies(const Problem &problem) {
  std::vector<int> root(problem.nodes.size());
  std::iota(root.begin(), root.end(), 0);
  auto find = [&](int node) {
    while (root[node] != node)
      node = root[node] = root[root[node]];
    return node;
  };
  for (const std::vector<int> &tie : problem.ties)
    for (int node : tie) {
      int a = find(tie.front()), b = find(node);
      root[std::max(a, b)] = std::min(a, b);
    }
  std::vector<int> variableOf(problem.nodes.size());
  int variables = 0;
  for (size_t i = 0; i < root.size(); ++i) {
    int r = find(static_cast<int>(i));
    variableOf[i] = r == static_cast<int>(i) ? variables++ : variableOf[r];
  }
  return variableOf;
}

/// A cost as this solver's arithmetic has it.
double toDouble(Cost cost) {
  return cost == kForbidden ? std::numeric_limits<double>::infinity() : static_cast<double>(cost);
}

void addNodesAndEdges(const Problem &problem, const std::vector<int> &variableOf, Network &network) {
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const std::vector<Cost> &costs = problem.nodes[i].costs;
    size_t variable = variableOf[i];
    if (variable == network.unary.size())
      network.unary.emplace_back(costs.size(), 0.0);
    for (size_t s = 0; s < costs.size(); ++s)
      network.unary[variable][s] += toDouble(costs[s]);
  }
  std::map<std::pair<int, int>, std::vector<double>> tables; // ordered: the order of pairs is part of the answer
  for (const ProblemEdge &edge : problem.edges) {
    int u = variableOf[edge.u], v = variableOf[edge.v];
    size_t rows = problem.nodes[edge.u].costs.size(), columns = problem.nodes[edge.v].costs.size();
    const std::vector<Cost> &costs = problem.tables[edge.table];
    if (u == v) {
      for (size_t s = 0; s < rows; ++s)
        network.unary[u][s] += toDouble(costs[s * columns + s]);
      continue;
    }
    std::vector<double> &table = tables[std::minmax(u, v)];
    table.resize(rows * columns, 0.0);
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b)
        table[u < v ? a * columns + b : b * rows + a] += toDouble(costs[a * columns + b]);
  }
  for (auto &[ends, table] : tables)
    network.pairs.push_back({ends.first, ends.second, std::move(table)});
}

void addRows(const Problem &problem, const std::vector<int> &variableOf, Network &network) {
  if (!problem.memoryLimitBytes)
    return;
  network.limitBytes = *problem.memoryLimitBytes;
  std::vector<LiveSet> sets = maximalLiveSets(problem.usages);
  if (sets.empty())
    sets.emplace_back(); // nothing is live, but constantBytes may exceed the limit
  for (const LiveSet &set : sets) {
    std::map<int, std::vector<int64_t>> bytesOf;
    for (const auto &[usage, count] : set) {
      const MemoryUsage &use = problem.usages[usage];
      std::vector<int64_t> &bytes = bytesOf[variableOf[use.node]];
      bytes.resize(use.bytes.size(), 0);
      for (size_t s = 0; s < bytes.size(); ++s)
        bytes[s] += count * use.bytes[s];
    }
    Row row{problem.constantBytes, {}, -1};
    for (auto &[variable, bytes] : bytesOf)
      row.terms.push_back({variable, std::move(bytes)});
    network.rows.push_back(std::move(row));
  }
}

void indexNetwork(Network &network) {
  network.pairsOf.assign(network.size(), {});
  network.rowsOf.assign(network.size(), {});
  for (size_t p = 0; p < network.pairs.size(); ++p) {
    network.pairsOf[network.pairs[p].u].push_back(static_cast<int>(p));
    network.pairsOf[network.pairs[p].v].push_back(static_cast<int>(p));
  }
  for (size_t r = 0; r < network.rows.size(); ++r)
    for (size_t t = 0; t < network.rows[r].terms.size(); ++t)
      network.rowsOf[network.rows[r].terms[t].variable].push_back({static_cast<int>(r), static_cast<int>(t)});
}

/// A row of the labels that are left: smaller labels' bytes move to the floor.
Row restrictRow(const Row &row, const std::vector<std::vector<int>> &kept, const std::vector<int> &childOf) {
  Row result{row.floorBytes, {}, -1};
  for (const RowTerm &term : row.terms) {
    std::vector<int64_t> bytes;
    for (int label : kept[term.variable])
      bytes.push_back(term.extraBytes[label]);
    auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    int64_t floor = *least;
    bool varies = *least != *most;
    result.floorBytes += floor;
    if (!varies)
      continue;
    for (int64_t &b : bytes)
      b -= floor;
    result.terms.push_back({childOf[term.variable], std::move(bytes)});
  }
  return result;
}

int64_t largestBytes(const Row &row) {
  int64_t bytes = row.floorBytes;
  for (const RowTerm &term : row.terms)
    bytes += *std::max_element(term.extraBytes.begin(), term.extraBytes.end());
  return bytes;
}

void restrictPairs(const Network &parent, const std::vector<std::vector<int>> &kept, const std::vector<int> &childOf,
                   Network &child) {
  for (const PairTable &pair : parent.pairs) {
    int u = childOf[pair.u], v = childOf[pair.v];
    size_t columns = parent.labels(pair.v);
    std::vector<double> cells;
    for (int a : kept[pair.u])
      for (int b : kept[pair.v])
        cells.push_back(pair.seconds[a * columns + b]);
    if (u < 0 && v < 0) {
      child.constantSeconds += cells.front();
      continue;
    }
    if (u >= 0 && v >= 0) {
      child.pairs.push_back({u, v, std::move(cells)});
      continue;
    }
    std::vector<double> &unary = child.unary[u < 0 ? v : u];
    for (size_t s = 0; s < unary.size(); ++s)
      unary[s] += cells[s];
  }
}

/// The state of removeDominated.
struct Pruner {
  const Network &network;
  KeepMask keep;
  int64_t &steps;

  /// What u's label a costs more than b at most, whatever the neighbour takes; +inf when a is forbidden where b isn't.
  double largestDifference(const PairTable &pair, bool first, int a, int b) const {
    int other = first ? pair.v : pair.u, columns = network.labels(pair.v);
    double worst = -std::numeric_limits<double>::infinity();
    for (int t = 0; t < network.labels(other); ++t) {
      if (!keep[other][t])
        continue;
      double ca = first ? pair.seconds[a * columns + t] : pair.seconds[t * columns + a];
      double cb = first ? pair.seconds[b * columns + t] : pair.seconds[t * columns + b];
      if (std::isinf(cb))
        continue;
      worst = std::max(worst, ca - cb);
    }
    return worst;
  }

  bool beats(int variable, int a, int b) const {
    for (const RowPlace &place : network.rowsOf[variable]) {
      const RowTerm &term = network.rows[place.row].terms[place.term];
      if (term.extraBytes[a] > term.extraBytes[b])
        return false;
    }
    double difference = network.unary[variable][a] - network.unary[variable][b];
    for (int p : network.pairsOf[variable]) {
      const PairTable &pair = network.pairs[p];
      bool first = pair.u == variable;
      steps -= network.labels(first ? pair.v : pair.u);
      difference += largestDifference(pair, first, a, b);
      if (difference == std::numeric_limits<double>::infinity())
        return false;
    }
    return difference <= 0;
  }

  bool supported(int variable, int label) const {
    for (int p : network.pairsOf[variable]) {
      const PairTable &pair = network.pairs[p];
      bool first = pair.u == variable, found = false;
      int other = first ? pair.v : pair.u, columns = network.labels(pair.v);
      for (int t = 0; t < network.labels(other) && !found; ++t)
        found = keep[other][t] &&
                !std::isinf(first ? pair.seconds[label * columns + t] : pair.seconds[t * columns + label]);
      if (!found)
        return false;
    }
    return true;
  }

  bool prune(int variable) {
    bool changed = false;
    for (int b = network.labels(variable) - 1; b >= 0; --b) { // of equal labels the lowest stays
      if (!keep[variable][b])
        continue;
      bool remove = !supported(variable, b);
      for (int a = 0; a < network.labels(variable) && !remove && steps > 0; ++a)
        remove = a != b && keep[variable][a] && beats(variable, a, b);
      if (remove)
        keep[variable][b] = 0, changed = true;
    }
    return changed;
  }
};

} // namespace

Network kerf::search::buildNetwork(const Problem &problem, std::vector<int> &variableOf) {
  variableOf = mergeTies(problem);
  Network all;
  addNodesAndEdges(problem, variableOf, all);
  addRows(problem, variableOf, all);
  indexNetwork(all);
  KeepMask keep;
  for (const std::vector<double> &unary : all.unary) {
    keep.emplace_back(unary.size());
    for (size_t s = 0; s < unary.size(); ++s)
      keep.back()[s] = !std::isinf(unary[s]);
  }
  for (const Pin &pin : problem.pins) {
    std::vector<char> &labels = keep[variableOf[pin.node]];
    for (size_t s = 0; s < labels.size(); ++s)
      if (static_cast<int>(s) != pin.strategy)
        labels[s] = 0;
  }
  return restrictTo(all, keep);
}

Network kerf::search::restrictTo(const Network &parent, const KeepMask &keep) {
  Network child;
  child.constantSeconds = parent.constantSeconds;
  child.limitBytes = parent.limitBytes;
  child.fixedLabel.assign(parent.size(), -1);
  std::vector<std::vector<int>> kept(parent.size());
  std::vector<int> childOf(parent.size(), -1);
  for (int i = 0; i < parent.size(); ++i) {
    for (int s = 0; s < parent.labels(i); ++s)
      if (keep[i][s])
        kept[i].push_back(s);
    if (kept[i].empty()) {
      child.contradictory = true;
      return child;
    }
    if (kept[i].size() == 1) {
      child.fixedLabel[i] = kept[i].front();
      child.constantSeconds += parent.unary[i][kept[i].front()];
      continue;
    }
    childOf[i] = child.size();
    child.parentVariable.push_back(i);
    child.parentLabel.push_back(kept[i]);
    child.unary.emplace_back();
    for (int s : kept[i])
      child.unary.back().push_back(parent.unary[i][s]);
  }
  restrictPairs(parent, kept, childOf, child);
  for (size_t r = 0; r < parent.rows.size(); ++r) {
    Row restricted = restrictRow(parent.rows[r], kept, childOf);
    restricted.parentRow = static_cast<int>(r);
    if (largestBytes(restricted) > child.limitBytes)
      child.rows.push_back(std::move(restricted));
  }
  indexNetwork(child);
  child.contradictory = std::isinf(child.constantSeconds);
  // Folding a neighbour in may have forbidden labels: take them out, so that `unary` stays finite.
  KeepMask finite;
  bool allFinite = true;
  for (const std::vector<double> &unary : child.unary) {
    finite.emplace_back();
    for (double seconds : unary)
      finite.back().push_back(!std::isinf(seconds)), allFinite &= !std::isinf(seconds);
  }
  if (child.contradictory || allFinite)
    return child;
  KeepMask both = keep;
  for (int i = 0; i < child.size(); ++i)
    for (int s = 0; s < child.labels(i); ++s)
      if (!finite[i][s])
        both[child.parentVariable[i]][child.parentLabel[i][s]] = 0;
  return restrictTo(parent, both);
}

Labels kerf::search::expand(const Network &network, const Labels &labels) {
  Labels parent = network.fixedLabel;
  for (int i = 0; i < network.size(); ++i)
    parent[network.parentVariable[i]] = network.parentLabel[i][labels[i]];
  return parent;
}

Network kerf::search::removeDominated(const Network &network, int64_t &steps) {
  constexpr int kRounds = 4; // later rounds find next to nothing
  KeepMask keep;
  for (int i = 0; i < network.size(); ++i)
    keep.emplace_back(network.labels(i), 1);
  Pruner pruner{network, std::move(keep), steps};
  for (int round = 0; round < kRounds && steps > 0; ++round) {
    bool changed = false;
    for (int i = 0; i < network.size() && steps > 0; ++i)
      changed |= pruner.prune(i);
    if (!changed)
      break;
  }
  return restrictTo(network, pruner.keep);
}

double kerf::search::secondsOf(const Network &network, const Labels &labels) {
  double seconds = network.constantSeconds;
  for (int i = 0; i < network.size(); ++i)
    seconds += network.unary[i][labels[i]];
  for (const PairTable &pair : network.pairs)
    seconds += pair.seconds[labels[pair.u] * network.labels(pair.v) + labels[pair.v]];
  return seconds;
}

std::vector<int64_t> kerf::search::extraBytesOf(const Network &network, const Labels &labels) {
  std::vector<int64_t> extra;
  for (const Row &row : network.rows) {
    int64_t bytes = 0;
    for (const RowTerm &term : row.terms)
      bytes += term.extraBytes[labels[term.variable]];
    extra.push_back(bytes);
  }
  return extra;
}

bool kerf::search::fits(const Network &network, const Labels &labels) {
  return peakBytesOf(network, labels) <= network.limitBytes;
}

int64_t kerf::search::peakBytesOf(const Network &network, const Labels &labels) {
  int64_t peak = 0;
  std::vector<int64_t> extra = extraBytesOf(network, labels);
  for (size_t r = 0; r < extra.size(); ++r)
    peak = std::max(peak, network.rows[r].floorBytes + extra[r]);
  return peak;
}
