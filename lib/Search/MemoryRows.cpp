// SPDX-License-Identifier: Apache-2.0
#include "MemoryRows.h"
#include <algorithm>
#include <iterator>
#include <map>

using namespace kerf;
using namespace kerf::search;

namespace {

// Above this many comparisons of live sets only neighbours in time are compared: more rows than needed, the same
// answer.
constexpr size_t kMaxComparisons = 20'000'000;

bool contains(const LiveSet &big, const LiveSet &small) {
  if (small.size() > big.size())
    return false;
  size_t at = 0;
  for (const auto &[usage, count] : small) {
    while (at < big.size() && big[at].first < usage)
      ++at;
    if (at == big.size() || big[at].first != usage || big[at].second < count)
      return false;
  }
  return true;
}

/// The live sets just before something ends that were not seen to end before: the only ones that can be maximal.
std::vector<LiveSet> setsBeforeEnds(const std::vector<MemoryUsage> &usages) {
  struct Change {
    int64_t moment;
    int delta; // ends (-1) sort before begins (+1)
    int usage;
    auto operator<=>(const Change &) const = default;
  };
  std::vector<Change> changes;
  for (size_t u = 0; u < usages.size(); ++u)
    for (const LiveInterval &live : usages[u].live)
      if (live.begin < live.end) {
        changes.push_back({live.begin, +1, static_cast<int>(u)});
        changes.push_back({live.end, -1, static_cast<int>(u)});
      }
  std::sort(changes.begin(), changes.end());
  std::map<int, int64_t> live;
  std::vector<LiveSet> sets;
  bool grown = false;
  for (const Change &change : changes) {
    if (change.delta < 0 && grown) {
      sets.emplace_back(live.begin(), live.end());
      grown = false;
    }
    if (change.delta > 0)
      grown = true;
    int64_t &count = live[change.usage];
    count += change.delta;
    if (count == 0)
      live.erase(change.usage);
  }
  return sets;
}

/// Takes out of every set what all of them hold alike (parameters and states: most of a set), and returns it: sets compare the same without.
LiveSet takeCommon(std::vector<LiveSet> &sets) {
  std::map<std::pair<int, int64_t>, size_t> holders;
  for (const LiveSet &set : sets)
    for (const auto &entry : set)
      ++holders[{entry.first, entry.second}];
  auto isCommon = [&](const auto &entry) { return holders[{entry.first, entry.second}] == sets.size(); };
  LiveSet common;
  for (const auto &entry : sets.empty() ? LiveSet() : sets.front())
    if (isCommon(entry))
      common.push_back(entry);
  for (LiveSet &set : sets)
    std::erase_if(set, isCommon);
  return common;
}

} // namespace

std::vector<LiveSet> kerf::search::maximalLiveSets(const std::vector<MemoryUsage> &usages) {
  std::vector<LiveSet> sets = setsBeforeEnds(usages);
  LiveSet common = takeCommon(sets);
  bool compareAll = sets.size() * sets.size() <= kMaxComparisons;
  // Larger sets first (stable: then by time), so that a set can only lie in one before it.
  if (compareAll)
    std::stable_sort(sets.begin(), sets.end(), [](const LiveSet &a, const LiveSet &b) { return a.size() > b.size(); });
  std::vector<LiveSet> kept;
  for (LiveSet &set : sets) {
    size_t first = compareAll || kept.empty() ? 0 : kept.size() - 1;
    bool covered = false;
    for (size_t k = first; k < kept.size() && !covered; ++k)
      covered = contains(kept[k], set);
    if (covered)
      continue;
    // A set of as many usages with larger counts may come after a smaller one.
    for (size_t k = first; k < kept.size();)
      if (contains(set, kept[k]))
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(k));
      else
        ++k;
    kept.push_back(std::move(set));
  }
  for (LiveSet &set : kept) {
    LiveSet whole;
    std::merge(set.begin(), set.end(), common.begin(), common.end(), std::back_inserter(whole));
    set = std::move(whole);
  }
  return kept;
}
