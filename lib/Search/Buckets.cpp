// SPDX-License-Identifier: Apache-2.0
#include "Buckets.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Variables without memory go first while that is this cheap: a search with memory rows then ends above them.
constexpr double kCheapMessageCells = 4096;

/// Least value (plus shift): four at a time, which compilers turn into vector instructions.
double leastOf(const double *values, const double *shift, int count) {
  double lane[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
  int s = 0;
  for (; s + 4 <= count; s += 4)
    for (int l = 0; l < 4; ++l) {
      double value = values[s + l] + (shift ? shift[s + l] : 0.0);
      lane[l] = value < lane[l] ? value : lane[l];
    }
  for (; s < count; ++s)
    lane[0] = std::min(lane[0], values[s] + (shift ? shift[s] : 0.0));
  return std::min(std::min(lane[0], lane[1]), std::min(lane[2], lane[3]));
}

/// Greedy order: the variable whose message is the smallest goes next (ties: the lowest variable).
class OrderQueue {
public:
  OrderQueue(const Network &network, std::vector<std::set<int>> &neighbours)
      : network(network), neighbours(neighbours) {
    keys.resize(network.size());
    for (int i = 0; i < network.size(); ++i)
      queue.insert({keys[i] = key(i), i});
  }
  int pop() {
    int variable = queue.begin()->second;
    queue.erase(queue.begin());
    return variable;
  }
  void update(int variable) {
    queue.erase({keys[variable], variable});
    queue.insert({keys[variable] = key(variable), variable});
  }

private:
  struct Key {
    int late;
    double cells;
    auto operator<=>(const Key &) const = default;
  };
  Key key(int variable) const {
    double cells = 1;
    for (int other : neighbours[variable])
      cells *= network.labels(other);
    return {!network.memoryFree(variable) || cells > kCheapMessageCells, cells};
  }
  const Network &network;
  std::vector<std::set<int>> &neighbours;
  std::vector<Key> keys;
  std::set<std::pair<Key, int>> queue;
};

} // namespace

Buckets::Buckets(const Network &network, int64_t cellLimit) : network(network) { planOrder(cellLimit); }

int Buckets::addTable(std::vector<int> scope, int pair) {
  Table table;
  table.scope = std::move(scope);
  table.pair = pair;
  for (int variable : table.scope)
    table.size *= network.labels(variable);
  cells += table.size;
  tables.push_back(std::move(table));
  return static_cast<int>(tables.size()) - 1;
}

void Buckets::planOrder(int64_t cellLimit) {
  int n = network.size();
  std::vector<std::set<int>> neighbours(n), tablesOf(n);
  positionOf.assign(n, -1);
  buckets.resize(n);
  firstSplit = n;
  for (int i = 0; i < n; ++i)
    unaryTable.push_back(addTable({i}, -1));
  for (size_t p = 0; p < network.pairs.size(); ++p) {
    int u = network.pairs[p].u, v = network.pairs[p].v, table = addTable({u, v}, static_cast<int>(p));
    tablesOf[u].insert(table), tablesOf[v].insert(table);
    neighbours[u].insert(v), neighbours[v].insert(u);
  }
  OrderQueue queue(network, neighbours);
  for (int k = 0; k < n; ++k) {
    int variable = queue.pop();
    positionOf[variable] = k;
    sequence.push_back(variable);
    // Split the bucket: largest tables first, each into the part that it enlarges the least.
    std::vector<int> members(tablesOf[variable].begin(), tablesOf[variable].end());
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return tables[a].size > tables[b].size; });
    std::vector<std::set<int>> scopes;
    std::vector<Part> &parts = buckets[k].parts;
    for (int member : members) {
      size_t best = parts.size();
      double bestGrowth = kInfinity;
      for (size_t p = 0; p < parts.size(); ++p) {
        double size = 1, before = 1;
        for (int other : scopes[p])
          before *= network.labels(other);
        size = before;
        for (int other : tables[member].scope)
          if (other != variable && !scopes[p].count(other))
            size *= network.labels(other);
        if (size <= static_cast<double>(cellLimit) && size / before < bestGrowth)
          best = p, bestGrowth = size / before;
      }
      if (best == parts.size())
        parts.emplace_back(), scopes.emplace_back();
      parts[best].tables.push_back(member);
      for (int other : tables[member].scope)
        if (other != variable)
          scopes[best].insert(other);
    }
    if (parts.empty())
      parts.emplace_back(), scopes.emplace_back();
    parts.front().tables.push_back(unaryTable[variable]);
    if (parts.size() > 1)
      firstSplit = std::min(firstSplit, k);
    for (int member : members)
      for (int other : tables[member].scope)
        tablesOf[other].erase(member);
    for (int other : neighbours[variable])
      neighbours[other].erase(variable);
    for (size_t p = 0; p < parts.size(); ++p) {
      int64_t size = network.labels(variable);
      for (int other : scopes[p])
        size *= network.labels(other);
      work += size * static_cast<int64_t>(parts[p].tables.size() + 1) * (parts.size() > 1 ? 2 : 1);
      if (scopes[p].empty())
        continue;
      int message = addTable(std::vector<int>(scopes[p].begin(), scopes[p].end()), -1);
      parts[p].message = message;
      for (int a : scopes[p]) {
        tablesOf[a].insert(message);
        for (int b : scopes[p])
          if (a != b)
            neighbours[a].insert(b);
      }
    }
    for (int other : neighbours[variable])
      queue.update(other);
  }
  for (Table &table : tables) {
    std::sort(table.scope.begin(), table.scope.end(), [&](int a, int b) { return positionOf[a] > positionOf[b]; });
    table.stride.assign(table.scope.size(), 1);
    for (size_t d = table.scope.size(); d-- > 1;)
      table.stride[d - 1] = table.stride[d] * network.labels(table.scope[d]);
  }
  for (Bucket &bucket : buckets)
    for (Part &part : bucket.parts)
      if (part.message >= 0)
        part.scope = tables[part.message].scope;
}

void Buckets::fillPair(Table &table, PairSeconds pairSeconds) const {
  const PairTable &pair = network.pairs[table.pair];
  bool straight = table.scope.front() == pair.u;
  int rows = network.labels(pair.u), columns = network.labels(pair.v);
  for (int a = 0; a < rows; ++a)
    for (int b = 0; b < columns; ++b) {
      double seconds = pair.seconds[a * columns + b];
      if (pairSeconds == PairSeconds::ForbiddenOnly && !std::isinf(seconds))
        seconds = 0;
      table.cells[straight ? a * columns + b : b * rows + a] = seconds;
    }
}

/// visit(cell of the message, seconds[label of variable]): the sum of the part's tables, for every cell in order.
template <typename Visit> void Buckets::forEachCell(int variable, const Part &part, Visit visit) const {
  int labels = network.labels(variable), dims = static_cast<int>(part.scope.size());
  size_t count = part.tables.size();
  std::vector<int64_t> strides(count * dims, 0), offsets(count, 0);
  for (size_t t = 0; t < count; ++t) {
    const Table &table = tables[part.tables[t]];
    for (size_t d = 0; d + 1 < table.scope.size(); ++d)
      for (int m = 0; m < dims; ++m)
        if (part.scope[m] == table.scope[d])
          strides[t * dims + m] = table.stride[d];
  }
  std::vector<int> digit(dims, 0);
  std::vector<double> sum(labels);
  for (int64_t cell = 0;; ++cell) {
    const double *first = tables[part.tables[0]].cells.data() + offsets[0];
    std::copy(first, first + labels, sum.begin());
    for (size_t t = 1; t < count; ++t) {
      const double *values = tables[part.tables[t]].cells.data() + offsets[t];
      for (int s = 0; s < labels; ++s)
        sum[s] += values[s];
    }
    visit(cell, sum);
    int m = dims - 1;
    for (; m >= 0; --m) {
      int size = network.labels(part.scope[m]);
      for (size_t t = 0; t < count; ++t)
        offsets[t] += strides[t * dims + m];
      if (++digit[m] < size)
        break;
      digit[m] = 0;
      for (size_t t = 0; t < count; ++t)
        offsets[t] -= strides[t * dims + m] * size;
    }
    if (m < 0)
      return;
  }
}

double Buckets::runBucket(int k) {
  Bucket &bucket = buckets[k];
  int variable = sequence[k], labels = network.labels(variable);
  size_t count = bucket.parts.size();
  std::vector<std::vector<double>> shift(count, std::vector<double>(labels, 0.0));
  if (count > 1) {
    for (size_t p = 0; p < count; ++p) {
      std::fill(shift[p].begin(), shift[p].end(), kInfinity);
      forEachCell(variable, bucket.parts[p], [&](int64_t, const std::vector<double> &sum) {
        for (int s = 0; s < labels; ++s)
          shift[p][s] = std::min(shift[p][s], sum[s]);
      });
    }
    for (int s = 0; s < labels; ++s) {
      double total = 0;
      for (size_t p = 0; p < count; ++p)
        total += shift[p][s];
      // A label that some part forbids is forbidden in all.
      for (size_t p = 0; p < count; ++p)
        shift[p][s] = std::isinf(total) ? kInfinity : total / static_cast<double>(count) - shift[p][s];
    }
  }
  double constant = 0;
  for (size_t p = 0; p < count; ++p) {
    Part &part = bucket.parts[p];
    part.constant = 0;
    Table *message = part.message >= 0 ? &tables[part.message] : nullptr;
    forEachCell(variable, part, [&](int64_t cell, const std::vector<double> &sum) {
      double least = count == 1 ? leastOf(sum.data(), nullptr, labels) : leastOf(sum.data(), shift[p].data(), labels);
      if (message)
        message->cells[cell] = least;
      else
        part.constant = least;
    });
    constant += part.constant;
  }
  return constant;
}

double Buckets::run(const std::vector<std::vector<double>> &unary, PairSeconds pairSeconds) {
  for (Table &table : tables) {
    table.cells.resize(table.size);
    if (table.pair >= 0)
      fillPair(table, pairSeconds);
  }
  for (int i = 0; i < network.size(); ++i)
    tables[unaryTable[i]].cells = unary[i];
  double bound = 0;
  for (int k = 0; k < network.size(); ++k)
    bound += runBucket(k);
  return bound;
}

int64_t Buckets::offset(const Table &table, const Labels &labels) const {
  int64_t at = 0;
  for (size_t d = 0; d < table.scope.size(); ++d)
    at += table.stride[d] * labels[table.scope[d]];
  return at;
}

void Buckets::raiseOf(int k, const Labels &labels, std::vector<double> &raise) const {
  int count = network.labels(sequence[k]);
  double sent = 0;
  for (const Part &part : buckets[k].parts) {
    sent += part.message >= 0 ? tables[part.message].cells[offset(tables[part.message], labels)] : part.constant;
    for (int t : part.tables) {
      const Table &table = tables[t];
      int64_t at = 0;
      for (size_t d = 0; d + 1 < table.scope.size(); ++d)
        at += table.stride[d] * labels[table.scope[d]];
      for (int s = 0; s < count; ++s)
        raise[s] += table.cells[at + s];
    }
  }
  for (double &seconds : raise)
    seconds -= sent;
}

int64_t Buckets::raiseWork(int k) const {
  int64_t sum = 1;
  for (const Part &part : buckets[k].parts)
    sum += static_cast<int64_t>(part.tables.size() + 1) * network.labels(sequence[k]);
  return sum;
}

void Buckets::decode(int count, Labels &labels) const {
  std::vector<double> raise;
  for (int k = count; k-- > 0;) {
    raise.assign(network.labels(sequence[k]), 0.0);
    raiseOf(k, labels, raise);
    labels[sequence[k]] = static_cast<int>(std::min_element(raise.begin(), raise.end()) - raise.begin());
  }
}
