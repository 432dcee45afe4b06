// SPDX-License-Identifier: Apache-2.0
#include "DepthFirst.h"
#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::search;

namespace {

// Bounds are sums of some thousand doubles: a difference below this share of the cost is rounding.
constexpr double kRounding = 1e-11;

class Explorer {
public:
  Explorer(const Network &network, const Buckets &buckets, Goal goal, Incumbent &incumbent, int64_t &steps)
      : network(network), buckets(buckets), goal(goal), incumbent(incumbent), steps(steps), current(network.size(), 0),
        used(network.rows.size(), 0), frames(network.size()) {
    while (freeBelow < network.size() && buckets.exactBelow(freeBelow + 1) &&
           (!watchesRows() || network.memoryFree(buckets.order()[freeBelow])))
      ++freeBelow;
  }

  bool explore(double rootBound) {
    int top = network.size();
    if (!withinRows() || pruned(rootBound))
      return true;
    if (top == freeBelow) {
      finish(top);
      return true;
    }
    int k = top - 1;
    enter(k, rootBound);
    while (k < top) {
      if (steps <= 0)
        return false;
      if (goal == Goal::PeakBytes && incumbent.peakBytes <= network.limitBytes)
        return true;
      Frame &frame = frames[k];
      if (frame.taken >= 0)
        account(k, frame.taken, -1), frame.taken = -1;
      if (frame.next == frame.candidates.size() || pruned(frame.candidates[frame.next].bound)) {
        ++k;
        continue;
      }
      Candidate candidate = frame.candidates[frame.next++];
      if (!rowsAllow(k, candidate.label))
        continue;
      current[buckets.order()[k]] = candidate.label;
      frame.taken = candidate.label;
      account(k, candidate.label, +1);
      if (k == freeBelow)
        finish(k);
      else
        enter(--k, candidate.bound);
    }
    return true;
  }

private:
  struct Candidate {
    double bound;
    int label;
    auto operator<=>(const Candidate &) const = default;
  };
  struct Frame {
    std::vector<Candidate> candidates;
    size_t next = 0;
    int taken = -1;
  };

  bool watchesRows() const { return goal != Goal::SecondsNoRows; }
  int64_t slack(int row) const {
    int64_t most = goal == Goal::PeakBytes ? incumbent.peakBytes - 1 : network.limitBytes;
    return most - network.rows[row].floorBytes;
  }
  bool withinRows() const {
    for (size_t r = 0; watchesRows() && r < used.size(); ++r)
      if (used[r] > slack(static_cast<int>(r)))
        return false;
    return true;
  }
  bool pruned(double bound) const {
    if (std::isinf(bound) || std::isnan(bound))
      return true;
    if (goal == Goal::PeakBytes) { // whole bytes: only a peak of one less is an improvement
      double best = static_cast<double>(incumbent.peakBytes);
      return bound > best - 1 + best * kRounding;
    }
    return bound >= incumbent.seconds - std::abs(incumbent.seconds) * kRounding;
  }
  bool rowsAllow(int k, int label) const {
    if (!watchesRows())
      return true;
    for (const RowPlace &place : network.rowsOf[buckets.order()[k]])
      if (used[place.row] + network.rows[place.row].terms[place.term].extraBytes[label] > slack(place.row))
        return false;
    return true;
  }
  void account(int k, int label, int sign) {
    const std::vector<RowPlace> &places = network.rowsOf[buckets.order()[k]];
    steps -= static_cast<int64_t>(places.size());
    for (const RowPlace &place : places)
      used[place.row] += sign * network.rows[place.row].terms[place.term].extraBytes[label];
  }
  void enter(int k, double bound) {
    steps -= buckets.raiseWork(k);
    raise.assign(network.labels(buckets.order()[k]), 0.0);
    buckets.raiseOf(k, current, raise);
    Frame &frame = frames[k];
    frame.candidates.clear();
    frame.next = 0;
    frame.taken = -1;
    for (size_t s = 0; s < raise.size(); ++s)
      if (!pruned(bound + raise[s]))
        frame.candidates.push_back({bound + raise[s], static_cast<int>(s)});
    std::sort(frame.candidates.begin(), frame.candidates.end());
  }
  /// All variables from k up have labels, those below need no search.
  void finish(int k) {
    buckets.decode(k, current);
    steps -= network.size() + static_cast<int64_t>(network.pairs.size());
    double seconds = secondsOf(network, current);
    if (std::isinf(seconds))
      return;
    if (goal == Goal::PeakBytes) {
      int64_t peak = peakBytesOf(network, current);
      if (peak < incumbent.peakBytes)
        incumbent = {current, seconds, peak};
      return;
    }
    if (seconds < incumbent.seconds)
      incumbent = {current, seconds, incumbent.peakBytes};
  }

  const Network &network;
  const Buckets &buckets;
  Goal goal;
  Incumbent &incumbent;
  int64_t &steps;
  Labels current;
  std::vector<int64_t> used; // extra bytes of the labels taken so far
  std::vector<Frame> frames;
  std::vector<double> raise;
  int freeBelow = 0; // order()[0 .. freeBelow-1]: exact and without memory, one look decides
};

} // namespace

bool kerf::search::depthFirst(const Network &network, const Buckets &buckets, double rootBound, Goal goal,
                              Incumbent &incumbent, int64_t &steps) {
  return Explorer(network, buckets, goal, incumbent, steps).explore(rootBound);
}
