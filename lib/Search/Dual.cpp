// SPDX-License-Identifier: Apache-2.0
#include "Dual.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;

namespace {

// The loader selects a version before the thread sanitizer is initialized, which would crash.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define KERF_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERF_WIDE
#endif

/// Sets out[b] to the least own[a] + costs[a][b] over all a.
KERF_WIDE void minPlus(const double *__restrict own, const double *__restrict costs, double *__restrict out, int rows,
                       int columns) {
  for (int b = 0; b < columns; ++b)
    out[b] = kInfinity;
  for (int a = 0; a < rows; ++a, costs += columns) {
    double mine = own[a];
    if (mine == kInfinity)
      continue;
    for (int b = 0; b < columns; ++b) {
      double sum = mine + costs[b];
      out[b] = sum < out[b] ? sum : out[b];
    }
  }
}

double leastOf(const std::vector<double> &values) { return *std::min_element(values.begin(), values.end()); }

} // namespace

Dual::Dual(const Core &core) : core(core) {
  int count = core.size();
  roundingShift = 1.5 * 0x1p52 * core.quantum;
  messageCap.resize(count);
  for (int i = 0; i < count; ++i)
    messageCap[i] = 0x1p50 * core.quantum / static_cast<double>(core.tablesOf[i].size() + 1);
  std::vector<int> degree(count);
  std::vector<char> done(count, 0), used(core.tables.size(), 0);
  std::vector<int> ready;
  parentTable.assign(count, -1);
  for (int i = 0; i < count; ++i)
    if ((degree[i] = static_cast<int>(core.tablesOf[i].size())) <= 1)
      ready.push_back(i);
  auto addDirected = [&](int t, int from) {
    const CoreTable &table = core.tables[t];
    int to = table.u == from ? table.v : table.u;
    size_t offset = cells.size(), rows = core.costs[from].size(), columns = core.costs[to].size();
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b)
        cells.push_back(table.costs[table.u == from ? a * columns + b : b * rows + a]);
    directed.push_back({t, from, to, offset, 0, 0});
    return static_cast<int>(directed.size()) - 1;
  };
  while (!ready.empty()) {
    int leaf = ready.back();
    ready.pop_back();
    if (done[leaf])
      continue;
    done[leaf] = 1;
    treeVariables.push_back(leaf);
    for (int t : core.tablesOf[leaf]) {
      if (used[t])
        continue;
      used[t] = 1;
      parentTable[leaf] = addDirected(t, leaf);
      DirectedTable &side = directed.back();
      side.message = messages.size();
      messages.resize(messages.size() + core.costs[side.to].size(), 0.0);
      work += static_cast<int64_t>(core.tables[t].costs.size());
      if (!done[side.to] && --degree[side.to] <= 1)
        ready.push_back(side.to);
    }
  }
  before.resize(count);
  after.resize(count);
  share.assign(count, 1.0);
  for (int i = 0; i < count; ++i)
    if (!done[i])
      cycleVariables.push_back(i);
  for (size_t t = 0; t < core.tables.size(); ++t) {
    if (used[t])
      continue;
    int low = std::min(core.tables[t].u, core.tables[t].v), high = std::max(core.tables[t].u, core.tables[t].v);
    size_t toHigh = messages.size(), toLow = toHigh + core.costs[high].size();
    messages.resize(toLow + core.costs[low].size(), 0.0);
    after[low].push_back(addDirected(static_cast<int>(t), low));
    directed.back().message = toHigh, directed.back().reply = toLow;
    before[high].push_back(addDirected(static_cast<int>(t), high));
    directed.back().message = toLow, directed.back().reply = toHigh;
    startMessage(core.tables[t].u == high ? core.tables[t].messagesToU : core.tables[t].messagesToV, toHigh, high);
    startMessage(core.tables[t].u == low ? core.tables[t].messagesToU : core.tables[t].messagesToV, toLow, low);
    work += 2 * static_cast<int64_t>(core.tables[t].costs.size());
  }
  for (int i : cycleVariables)
    share[i] = 1.0 / static_cast<double>(std::max<size_t>({before[i].size(), after[i].size(), 1}));
}

void Dual::startMessage(const std::vector<double> &moved, size_t message, int to) {
  for (size_t s = 0; s < moved.size(); ++s)
    if (std::abs(moved[s]) <= messageCap[to])
      messages[message + s] = roundDown(moved[s]);
}

void Dual::priceLabels(const std::vector<double> &prices) {
  // Prices are rounded to a common power of two, so that their sums over rows are exact too.
  double total = 0;
  for (double price : prices)
    total += price;
  double step = total > 0 ? std::exp2(std::ceil(std::log2(total)) - 51) : 1;
  std::vector<double> sum(prices.size() + 1, 0.0);
  long double slackPrice = 0;
  for (size_t r = 0; r < prices.size(); ++r) {
    double price = std::floor(prices[r] / step) * step;
    sum[r + 1] = sum[r] + price;
    slackPrice += static_cast<long double>(price) * static_cast<long double>(core.slack[r]);
  }
  slackCost =
      total > 0 ? std::ceil(static_cast<double>(slackPrice * (1 + 1e-15L)) / core.quantum) * core.quantum + core.quantum
                : 0;
  priced = core.costs;
  for (int i = 0; i < core.size(); ++i) {
    for (size_t s = 0; s < priced[i].size(); ++s) {
      double extra = 0;
      for (const CoreUsage &usage : core.usages[i])
        extra += (sum[usage.endRow] - sum[usage.firstRow]) * static_cast<double>(usage.bytes[s]);
      if (extra > 0)
        priced[i][s] += std::max(0.0, roundDown(std::min(extra * (1 - 0x1p-40), 0x1p49 * core.quantum)));
    }
  }
}

double Dual::updateMessage(const DirectedTable &side, const double *own) {
  int rows = core.labels(side.from), columns = core.labels(side.to);
  double *out = messages.data() + side.message;
  minPlus(own, cells.data() + side.costs, out, rows, columns);
  double least = *std::min_element(out, out + columns);
  // Capped messages keep sums exact. The bound stays valid: the rest of the cost remains in the table.
  double most = std::floor(messageCap[side.to] / core.quantum) * core.quantum;
  for (int b = 0; b < columns; ++b)
    if (out[b] < kInfinity)
      out[b] = std::min(out[b] - least, most);
  return least;
}

double Dual::sweepTrees() {
  double bound = 0;
  for (int i : treeVariables) {
    double least = leastOf(priced[i]);
    bound += least;
    if (parentTable[i] < 0)
      continue;
    own = priced[i];
    for (double &cost : own)
      cost -= least;
    const DirectedTable &side = directed[parentTable[i]];
    bound += updateMessage(side, own.data());
    for (size_t s = 0; s < priced[side.to].size(); ++s)
      priced[side.to][s] += messages[side.message + s];
  }
  return bound;
}

void Dual::belief(int variable, std::vector<double> &sum) const {
  sum = priced[variable];
  for (const std::vector<int> *list : {&before[variable], &after[variable]})
    for (int k : *list) {
      const double *message = messages.data() + directed[k].reply;
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += message[s];
    }
}

double Dual::sweep(bool forward) {
  double bound = 0;
  std::vector<double> sum;
  for (size_t k = 0; k < cycleVariables.size(); ++k) {
    int i = cycleVariables[forward ? k : cycleVariables.size() - 1 - k];
    belief(i, sum);
    double least = leastOf(sum);
    bound += least;
    own.resize(sum.size());
    for (double &cost : sum)
      cost = roundDown(share[i] * (cost - least));
    for (int k : forward ? after[i] : before[i]) {
      const double *reply = messages.data() + directed[k].reply;
      for (size_t s = 0; s < sum.size(); ++s)
        own[s] = sum[s] == kInfinity ? kInfinity : sum[s] - reply[s];
      bound += updateMessage(directed[k], own.data());
    }
  }
  return bound;
}

double Dual::pass(const std::vector<double> &prices) {
  priceLabels(prices);
  double bound = core.constant - slackCost + sweepTrees();
  sweep(true);
  return bound + sweep(false);
}

std::vector<double> Dual::expectedBytes(double width) const {
  std::vector<double> change(core.slack.size() + 1, 0.0), sum;
  std::vector<std::vector<float>> weight(core.size());
  auto spread = [&](const std::vector<double> &costs, std::vector<float> &out, float scale) {
    double least = leastOf(costs);
    float total = 0;
    std::vector<float> mine(costs.size());
    for (size_t s = 0; s < costs.size(); ++s) {
      float away = 1.0f - static_cast<float>((costs[s] - least) / width);
      mine[s] = away > 0 ? away * away : 0.0f;
      total += mine[s];
    }
    for (size_t s = 0; s < costs.size(); ++s)
      out[s] += scale * mine[s] / total;
  };
  for (int i : cycleVariables) {
    belief(i, sum);
    weight[i].assign(sum.size(), 0.0f);
    spread(sum, weight[i], 1.0f);
  }
  for (size_t k = treeVariables.size(); k-- > 0;) {
    int i = treeVariables[k];
    weight[i].assign(core.costs[i].size(), 0.0f);
    if (parentTable[i] < 0) {
      spread(priced[i], weight[i], 1.0f);
      continue;
    }
    const DirectedTable &side = directed[parentTable[i]];
    size_t columns = core.costs[side.to].size();
    for (size_t p = 0; p < columns; ++p) {
      if (weight[side.to][p] < 1e-4f)
        continue;
      sum = priced[i];
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += cells[side.costs + s * columns + p];
      spread(sum, weight[i], weight[side.to][p]);
    }
  }
  for (int i = 0; i < core.size(); ++i)
    for (const CoreUsage &usage : core.usages[i]) {
      double bytes = 0;
      for (size_t s = 0; s < weight[i].size(); ++s)
        bytes += static_cast<double>(weight[i][s]) * static_cast<double>(usage.bytes[s]);
      change[usage.firstRow] += bytes;
      change[usage.endRow] -= bytes;
    }
  for (size_t r = 1; r < change.size(); ++r)
    change[r] += change[r - 1];
  change.pop_back();
  return change;
}

Labels Dual::round() const {
  Labels labels(core.size(), 0);
  std::vector<double> sum;
  auto best = [&] { return static_cast<int>(std::min_element(sum.begin(), sum.end()) - sum.begin()); };
  for (int i : cycleVariables) {
    sum = priced[i];
    for (int k : after[i])
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += messages[directed[k].reply + s];
    for (int k : before[i]) {
      size_t columns = core.costs[directed[k].to].size();
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += cells[directed[k].costs + s * columns + labels[directed[k].to]];
    }
    labels[i] = best();
  }
  for (size_t k = treeVariables.size(); k-- > 0;) {
    int i = treeVariables[k];
    sum = priced[i];
    if (parentTable[i] >= 0) {
      const DirectedTable &side = directed[parentTable[i]];
      size_t columns = core.costs[side.to].size();
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += cells[side.costs + s * columns + labels[side.to]];
    }
    labels[i] = best();
  }
  return labels;
}

std::vector<double> Dual::residualCosts(int variable) const {
  std::vector<double> sum(core.costs[variable].size(), 0.0);
  if (parentTable[variable] >= 0)
    return sum;
  belief(variable, sum);
  double least = leastOf(sum);
  for (double &cost : sum) {
    cost -= least;
    cost -= static_cast<double>(before[variable].size()) * std::min(cost, roundDown(share[variable] * cost));
    if (std::isnan(cost))
      cost = kInfinity;
  }
  return sum;
}

std::vector<Dual::ResidualTable> Dual::residualTables() const {
  std::vector<ResidualTable> all(core.tables.size());
  std::vector<double> sum;
  auto add = [&](const DirectedTable &side, const std::vector<double> &given, const double *reply) {
    ResidualTable &rest = all[side.table];
    rest.from = side.from, rest.to = side.to;
    size_t columns = core.costs[side.to].size();
    double least = kInfinity;
    for (size_t a = 0; a < given.size(); ++a)
      for (size_t b = 0; b < columns; ++b) {
        double cost = given[a] == kInfinity ? kInfinity
                                            : given[a] - (reply ? reply[a] : 0.0) + cells[side.costs + a * columns + b];
        cost =
            cost < kInfinity && messages[side.message + b] < kInfinity ? cost - messages[side.message + b] : kInfinity;
        rest.costs.push_back(cost);
        least = std::min(least, cost);
      }
    for (double &cost : rest.costs)
      cost -= least;
  };
  for (int i : treeVariables)
    if (parentTable[i] >= 0)
      add(directed[parentTable[i]], priced[i], nullptr);
  for (int i : cycleVariables) {
    belief(i, sum);
    double least = leastOf(sum);
    for (double &cost : sum)
      cost = roundDown(share[i] * (cost - least));
    for (int k : before[i])
      add(directed[k], sum, messages.data() + directed[k].reply);
  }
  return all;
}

std::vector<std::vector<double>> Dual::reducedCosts() const {
  std::vector<std::vector<double>> raise(core.size()), own(core.size());
  for (int i = 0; i < core.size(); ++i)
    raise[i] = own[i] = residualCosts(i);
  for (const ResidualTable &rest : residualTables()) {
    size_t columns = own[rest.to].size();
    for (size_t a = 0; a < own[rest.from].size(); ++a) {
      double least = kInfinity;
      for (size_t b = 0; b < columns; ++b)
        least = std::min(least, rest.costs[a * columns + b] + own[rest.to][b]);
      raise[rest.from][a] += least;
    }
    for (size_t b = 0; b < columns; ++b) {
      double least = kInfinity;
      for (size_t a = 0; a < own[rest.from].size(); ++a)
        least = std::min(least, rest.costs[a * columns + b] + own[rest.from][a]);
      raise[rest.to][b] += least;
    }
  }
  return raise;
}

double Dual::prunableShare(double gap) const {
  int64_t prunable = 0;
  for (const std::vector<double> &raises : reducedCosts())
    for (double raise : raises)
      prunable += raise > gap;
  return static_cast<double>(prunable) / static_cast<double>(std::max<int64_t>(core.allLabels(), 1));
}

Core Dual::prune(double gap) const {
  Core pruned = core;
  for (CoreTable &table : pruned.tables)
    table.messagesToU = table.messagesToV = {};
  for (const DirectedTable &side : directed) {
    CoreTable &table = pruned.tables[side.table];
    auto from = messages.begin() + static_cast<ptrdiff_t>(side.message);
    (table.u == side.to ? table.messagesToU : table.messagesToV).assign(from, from + core.labels(side.to));
  }
  std::vector<ResidualTable> left = residualTables();
  // [variable][label]: least residual cost of the variable and its tables, without its neighbours' own costs.
  std::vector<std::vector<double>> star(core.size());
  std::vector<std::vector<double>> leastOfRow(left.size()), leastOfColumn(left.size());
  for (int i = 0; i < core.size(); ++i)
    star[i] = residualCosts(i);
  for (size_t t = 0; t < left.size(); ++t) {
    const ResidualTable &rest = left[t];
    size_t rows = core.costs[rest.from].size(), columns = core.costs[rest.to].size();
    leastOfRow[t].assign(rows, kInfinity);
    leastOfColumn[t].assign(columns, kInfinity);
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b) {
        leastOfRow[t][a] = std::min(leastOfRow[t][a], rest.costs[a * columns + b]);
        leastOfColumn[t][b] = std::min(leastOfColumn[t][b], rest.costs[a * columns + b]);
      }
    for (size_t a = 0; a < rows; ++a)
      star[rest.from][a] += leastOfRow[t][a];
    for (size_t b = 0; b < columns; ++b)
      star[rest.to][b] += leastOfColumn[t][b];
  }
  std::vector<std::vector<double>> raise = reducedCosts();
  for (int i = 0; i < core.size(); ++i)
    for (size_t s = 0; s < raise[i].size(); ++s)
      if (!(raise[i][s] <= gap))
        pruned.costs[i][s] = kInfinity;
  for (size_t t = 0; t < left.size(); ++t) {
    const ResidualTable &rest = left[t];
    CoreTable &table = pruned.tables[t];
    size_t rows = core.costs[rest.from].size(), columns = core.costs[rest.to].size();
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b) {
        double others = star[rest.from][a] - leastOfRow[t][a] + (star[rest.to][b] - leastOfColumn[t][b]);
        if (!(rest.costs[a * columns + b] + others <= gap)) // written so that NaN (infinity - infinity) prunes too
          table.costs[table.u == rest.from ? a * columns + b : b * rows + a] = kInfinity;
      }
  }
  return pruned;
}
