// SPDX-License-Identifier: Apache-2.0
#include "Dual.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;

namespace {

// The thread sanitizer is not there yet when the loader asks which version to take.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define KERF_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KERF_WIDE
#endif

/// out[b] = min_a own[a] + costs[a][b].
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
  magic = 1.5 * 0x1p52 * core.quantum;
  cap.resize(count);
  for (int i = 0; i < count; ++i)
    cap[i] = 0x1p50 * core.quantum / static_cast<double>(core.tablesOf[i].size() + 1);
  std::vector<int> degree(count);
  std::vector<char> done(count, 0), used(core.tables.size(), 0);
  std::vector<int> ready;
  upSide.assign(count, -1);
  for (int i = 0; i < count; ++i)
    if ((degree[i] = static_cast<int>(core.tablesOf[i].size())) <= 1)
      ready.push_back(i);
  auto addSide = [&](int t, int from) {
    const CoreTable &table = core.tables[t];
    int to = table.u == from ? table.v : table.u;
    size_t offset = cells.size(), rows = core.costs[from].size(), columns = core.costs[to].size();
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b)
        cells.push_back(table.costs[table.u == from ? a * columns + b : b * rows + a]);
    sides.push_back({t, from, to, offset, 0, 0});
    return static_cast<int>(sides.size()) - 1;
  };
  while (!ready.empty()) {
    int leaf = ready.back();
    ready.pop_back();
    if (done[leaf])
      continue;
    done[leaf] = 1;
    hanging.push_back(leaf);
    for (int t : core.tablesOf[leaf]) {
      if (used[t])
        continue;
      used[t] = 1;
      upSide[leaf] = addSide(t, leaf);
      Side &side = sides.back();
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
      middle.push_back(i);
  for (size_t t = 0; t < core.tables.size(); ++t) {
    if (used[t])
      continue;
    int low = std::min(core.tables[t].u, core.tables[t].v), high = std::max(core.tables[t].u, core.tables[t].v);
    size_t toHigh = messages.size(), toLow = toHigh + core.costs[high].size();
    messages.resize(toLow + core.costs[low].size(), 0.0);
    after[low].push_back(addSide(static_cast<int>(t), low));
    sides.back().message = toHigh, sides.back().reply = toLow;
    before[high].push_back(addSide(static_cast<int>(t), high));
    sides.back().message = toLow, sides.back().reply = toHigh;
    start(core.tables[t].u == high ? core.tables[t].toU : core.tables[t].toV, toHigh, high);
    start(core.tables[t].u == low ? core.tables[t].toU : core.tables[t].toV, toLow, low);
    work += 2 * static_cast<int64_t>(core.tables[t].costs.size());
  }
  for (int i : middle)
    share[i] = 1.0 / static_cast<double>(std::max<size_t>({before[i].size(), after[i].size(), 1}));
}

/// Messages from an earlier dual, where they are on the grid and within the cap.
void Dual::start(const std::vector<double> &moved, size_t message, int to) {
  for (size_t s = 0; s < moved.size(); ++s)
    if (std::abs(moved[s]) <= cap[to])
      messages[message + s] = down(moved[s]);
}

void Dual::priceLabels(const std::vector<double> &prices) {
  // Prices on a grid of their own, so that their sums over rows are exact too.
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
  priceOfSlack =
      total > 0 ? std::ceil(static_cast<double>(slackPrice * (1 + 1e-15L)) / core.quantum) * core.quantum + core.quantum
                : 0;
  priced = core.costs;
  for (int i = 0; i < core.size(); ++i) {
    for (size_t s = 0; s < priced[i].size(); ++s) {
      double extra = 0;
      for (const CoreUsage &usage : core.usages[i])
        extra += (sum[usage.endRow] - sum[usage.firstRow]) * static_cast<double>(usage.bytes[s]);
      if (extra > 0)
        priced[i][s] += std::max(0.0, down(std::min(extra * (1 - 0x1p-40), 0x1p49 * core.quantum)));
    }
  }
}

/// Replaces the message of `side`; returns what was taken out of it.
double Dual::send(const Side &side, const double *own) {
  int rows = core.labels(side.from), columns = core.labels(side.to);
  double *out = messages.data() + side.message;
  minPlus(own, cells.data() + side.costs, out, rows, columns);
  double least = *std::min_element(out, out + columns);
  // A smaller message is as valid; what it leaves out stays in the table. Sums of messages stay exact that way.
  double most = std::floor(cap[side.to] / core.quantum) * core.quantum;
  for (int b = 0; b < columns; ++b)
    if (out[b] < kInfinity)
      out[b] = std::min(out[b] - least, most);
  return least;
}

double Dual::sendUp() {
  double bound = 0;
  for (int i : hanging) {
    double least = leastOf(priced[i]);
    bound += least;
    if (upSide[i] < 0)
      continue;
    own = priced[i];
    for (double &cost : own)
      cost -= least;
    const Side &side = sides[upSide[i]];
    bound += send(side, own.data());
    for (size_t s = 0; s < priced[side.to].size(); ++s)
      priced[side.to][s] += messages[side.message + s];
  }
  return bound;
}

void Dual::belief(int variable, std::vector<double> &sum) const {
  sum = priced[variable];
  for (const std::vector<int> *list : {&before[variable], &after[variable]})
    for (int k : *list) {
      const double *message = messages.data() + sides[k].reply;
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += message[s];
    }
}

double Dual::sweep(bool forward) {
  double bound = 0;
  std::vector<double> sum;
  for (size_t k = 0; k < middle.size(); ++k) {
    int i = middle[forward ? k : middle.size() - 1 - k];
    belief(i, sum);
    double least = leastOf(sum);
    bound += least;
    own.resize(sum.size());
    for (double &cost : sum)
      cost = down(share[i] * (cost - least));
    for (int k : forward ? after[i] : before[i]) {
      const double *reply = messages.data() + sides[k].reply;
      for (size_t s = 0; s < sum.size(); ++s)
        own[s] = sum[s] == kInfinity ? kInfinity : sum[s] - reply[s];
      bound += send(sides[k], own.data());
    }
  }
  return bound;
}

double Dual::pass(const std::vector<double> &prices) {
  priceLabels(prices);
  double bound = core.constant - priceOfSlack + sendUp();
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
  for (int i : middle) {
    belief(i, sum);
    weight[i].assign(sum.size(), 0.0f);
    spread(sum, weight[i], 1.0f);
  }
  for (size_t k = hanging.size(); k-- > 0;) {
    int i = hanging[k];
    weight[i].assign(core.costs[i].size(), 0.0f);
    if (upSide[i] < 0) {
      spread(priced[i], weight[i], 1.0f);
      continue;
    }
    const Side &side = sides[upSide[i]];
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
  for (int i : middle) {
    sum = priced[i];
    for (int k : after[i])
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += messages[sides[k].reply + s];
    for (int k : before[i]) {
      size_t columns = core.costs[sides[k].to].size();
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += cells[sides[k].costs + s * columns + labels[sides[k].to]];
    }
    labels[i] = best();
  }
  for (size_t k = hanging.size(); k-- > 0;) {
    int i = hanging[k];
    sum = priced[i];
    if (upSide[i] >= 0) {
      const Side &side = sides[upSide[i]];
      size_t columns = core.costs[side.to].size();
      for (size_t s = 0; s < sum.size(); ++s)
        sum[s] += cells[side.costs + s * columns + labels[side.to]];
    }
    labels[i] = best();
  }
  return labels;
}

/// What the last pass left of a variable's own costs.
std::vector<double> Dual::restOf(int variable) const {
  std::vector<double> sum(core.costs[variable].size(), 0.0);
  if (upSide[variable] >= 0)
    return sum;
  belief(variable, sum);
  double least = leastOf(sum);
  for (double &cost : sum) {
    cost -= least;
    cost -= static_cast<double>(before[variable].size()) * std::min(cost, down(share[variable] * cost));
    if (std::isnan(cost))
      cost = kInfinity;
  }
  return sum;
}

std::vector<Dual::Rest> Dual::rests() const {
  std::vector<Rest> all(core.tables.size());
  std::vector<double> sum;
  auto add = [&](const Side &side, const std::vector<double> &given, const double *reply) {
    Rest &rest = all[side.table];
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
  for (int i : hanging)
    if (upSide[i] >= 0)
      add(sides[upSide[i]], priced[i], nullptr);
  for (int i : middle) {
    belief(i, sum);
    double least = leastOf(sum);
    for (double &cost : sum)
      cost = down(share[i] * (cost - least));
    for (int k : before[i])
      add(sides[k], sum, messages.data() + sides[k].reply);
  }
  return all;
}

std::vector<std::vector<double>> Dual::reducedCosts() const {
  std::vector<std::vector<double>> raise(core.size()), own(core.size());
  for (int i = 0; i < core.size(); ++i)
    raise[i] = own[i] = restOf(i);
  for (const Rest &rest : rests()) {
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

double Dual::hopelessShare(double gap) const {
  int64_t hopeless = 0;
  for (const std::vector<double> &raises : reducedCosts())
    for (double raise : raises)
      hopeless += raise > gap;
  return static_cast<double>(hopeless) / static_cast<double>(std::max<int64_t>(core.allLabels(), 1));
}

Core Dual::prune(double gap) const {
  Core pruned = core;
  for (CoreTable &table : pruned.tables)
    table.toU = table.toV = {};
  for (const Side &side : sides) {
    CoreTable &table = pruned.tables[side.table];
    auto from = messages.begin() + static_cast<ptrdiff_t>(side.message);
    (table.u == side.to ? table.toU : table.toV).assign(from, from + core.labels(side.to));
  }
  std::vector<Rest> left = rests();
  // Per label, without the neighbours' own: what the variable and all of its tables cost at least.
  std::vector<std::vector<double>> star(core.size());
  std::vector<std::vector<double>> leastOfRow(left.size()), leastOfColumn(left.size());
  for (int i = 0; i < core.size(); ++i)
    star[i] = restOf(i);
  for (size_t t = 0; t < left.size(); ++t) {
    const Rest &rest = left[t];
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
    const Rest &rest = left[t];
    CoreTable &table = pruned.tables[t];
    size_t rows = core.costs[rest.from].size(), columns = core.costs[rest.to].size();
    for (size_t a = 0; a < rows; ++a)
      for (size_t b = 0; b < columns; ++b) {
        double others = star[rest.from][a] - leastOfRow[t][a] + (star[rest.to][b] - leastOfColumn[t][b]);
        if (!(rest.costs[a * columns + b] + others <= gap)) // also where a label is infinite
          table.costs[table.u == rest.from ? a * columns + b : b * rows + a] = kInfinity;
      }
  }
  return pruned;
}
