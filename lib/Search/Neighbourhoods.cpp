// SPDX-License-Identifier: Apache-2.0
#include "Neighbourhoods.h"
#include "Prices.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr int kFirstGroup = 12;          // variables freed at first; the size follows what the budget of a group proves
constexpr int64_t kGroupCells = 1 << 14; // table limit inside a group
constexpr int64_t kGroupSteps = 1 << 21; // budget of a group
constexpr double kNarrowCells = 1 << 12; // messages of the groups that are almost everything
constexpr int kPatience = 80;            // groups without improvement before it ends

/// Steele, Lea & Flood's SplitMix64: a small generator whose sequence is the same everywhere.
struct Random {
  uint64_t state = 1;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int bound) { return static_cast<int>(next() % static_cast<uint64_t>(bound)); }
};

/// Variables joined by a table or by two far ends of one memory row: a breadth-first ball, now and then a jump.
std::vector<char> chooseGroup(const Network &network, int size, Random &random) {
  std::vector<char> in(network.size(), 0);
  std::vector<int> queue;
  size_t head = 0;
  int chosen = 0;
  while (chosen < size) {
    if (head == queue.size() || (!network.rows.empty() && random.below(8) == 0))
      queue.push_back(random.below(network.size()));
    size_t at = head + static_cast<size_t>(random.below(static_cast<int>(queue.size() - head)));
    std::swap(queue[head], queue[at]);
    int variable = queue[head++];
    if (in[variable])
      continue;
    in[variable] = 1, ++chosen;
    for (int p : network.pairsOf[variable]) {
      const PairTable &pair = network.pairs[p];
      int other = pair.u == variable ? pair.v : pair.u;
      if (!in[other])
        queue.push_back(other);
    }
  }
  return in;
}

/// Almost everything: variables are eliminated in greedy order, and where a message would exceed `cellLimit` a random
/// neighbour is held instead. What is left free is answered exactly by elimination.
std::vector<char> chooseNarrow(const Network &network, double cellLimit, Random &random) {
  std::vector<std::set<int>> neighbours(network.size());
  for (const PairTable &pair : network.pairs)
    neighbours[pair.u].insert(pair.v), neighbours[pair.v].insert(pair.u);
  std::vector<char> in(network.size(), 1);
  std::set<std::pair<double, int>> queue;
  std::vector<double> keys(network.size());
  auto place = [&](int variable) {
    queue.erase({keys[variable], variable});
    double cells = 1;
    for (int other : neighbours[variable])
      cells *= network.labels(other);
    queue.insert({keys[variable] = cells, variable});
  };
  auto takeOut = [&](int variable) {
    queue.erase({keys[variable], variable});
    for (int other : neighbours[variable])
      neighbours[other].erase(variable), place(other);
  };
  for (int i = 0; i < network.size(); ++i)
    place(i);
  while (!queue.empty()) {
    auto [cells, variable] = *queue.begin();
    if (cells > cellLimit) {
      auto held = std::next(neighbours[variable].begin(), random.below(static_cast<int>(neighbours[variable].size())));
      int other = *held;
      in[other] = 0;
      takeOut(other);
      continue;
    }
    std::vector<int> scope(neighbours[variable].begin(), neighbours[variable].end());
    takeOut(variable);
    for (int a : scope)
      neighbours[a].insert(scope.begin(), scope.end()), neighbours[a].erase(a);
    for (int a : scope)
      place(a);
  }
  return in;
}

} // namespace

void kerf::search::improveByGroups(const Network &network, const std::vector<double> &secondsPerByte, double bound,
                                   Incumbent &incumbent, int64_t &steps) {
  Random random;
  int size = std::min(kFirstGroup, network.size());
  for (int idle = 0; idle < kPatience && steps > 0 && network.size() > 0; ++idle) {
    if (incumbent.seconds - bound <= 1e-9 * std::abs(bound))
      return;
    // Rows tie everything to everything: with them, small groups only.
    bool narrow = network.rows.empty() && idle % 2 == 0;
    std::vector<char> group = narrow ? chooseNarrow(network, kNarrowCells, random) : chooseGroup(network, size, random);
    KeepMask keep;
    for (int i = 0; i < network.size(); ++i) {
      keep.emplace_back(network.labels(i), group[i]);
      keep.back()[incumbent.labels[i]] = 1;
    }
    Network part = restrictTo(network, keep);
    steps -= network.size() + 2 * static_cast<int64_t>(network.pairs.size());
    for (const Row &row : network.rows)
      steps -= static_cast<int64_t>(row.terms.size());
    if (part.contradictory || part.size() == 0)
      continue;
    Buckets buckets(part, kGroupCells);
    std::vector<double> price;
    for (const Row &row : part.rows)
      price.push_back(secondsPerByte[row.parentRow]);
    steps -= buckets.workPerRun();
    int64_t budget = std::min(steps, kGroupSteps), before = budget;
    double root = buckets.run(pricedUnary(part, price), Buckets::PairSeconds::Counted) + part.constantSeconds +
                  priceOfSlack(part, price);
    Incumbent best;
    best.seconds = incumbent.seconds;
    bool complete = depthFirst(part, buckets, root, Goal::Seconds, best, budget);
    steps -= before - budget;
    if (!best.labels.empty() && best.seconds < incumbent.seconds) {
      incumbent = {expand(part, best.labels), best.seconds, incumbent.peakBytes};
      idle = -1;
    }
    if (narrow)
      continue;
    size = complete ? std::min(size + 1 + size / 8, network.size()) : std::max(size * 3 / 4, 4);
    if (complete && size == network.size())
      return; // the group was (almost) everything
  }
}
