// SPDX-License-Identifier: Apache-2.0
// A shortest-path search from one sharding to another. A node is a layout: the sub-axes (SubAxes.h) that cut each
// dimension, in order, the chunks, and the sub-axes over which the value is partial. An edge is a step. Layouts are
// small values so that thousands of searches are fast.
#include "kerf/Sharding/Reshard.h"
#include "ReshardLayout.h"
#include "ReshardSteps.h"
#include "SubAxes.h"
#include "kerf/Sharding/ReshardPrice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

namespace kerf {

namespace {

using namespace reshard;

constexpr int kMaxSettledLayouts = 500; // a longer search ends, and the reshard uses gatherThenSlice
// If at most this many sub-axes move, a dimension may gain any of them. If more move (parts of three axes), a dimension
// gains only those that cut it in `to`.
constexpr int kMaxFreeSubAxes = 3;
// With more sub-axes than this, reshardPrice does not estimate the remaining price: it would price too many groups.
constexpr size_t kMaxEstimatedSubAxes = 5;
constexpr double kLessRounding = 1 - 1e-9; // keeps the rounding of sums from making an estimate too high

/// A step of the search. `axes` are sub-axes; for a permute they are empty and follow from the two layouts.
struct Move {
  ReshardStepKind kind = ReshardStepKind::LocalSlice;
  Digits axes;
  int8_t d = -1, other = -1; // indices into Planner::cutDims; -1: none
};

struct Node {
  Layout layout;
  double total = 0;
  double remaining = 0; // least price of a path from here to the goal; 0 where it is not estimated
  int steps = 0, parent = -1;
  bool settled = false;
  Move move{};
};

/// The memory of a search, which the next search on the same thread uses again.
struct Scratch {
  using Open =
      std::tuple<double, double, int, int>; // total and remaining price, remaining price, number of steps, node
  std::vector<Node> nodes;
  std::vector<int> slots; // a hash table with open addressing: index of a node, or -1
  std::vector<Open> open; // a heap with the cheapest entry on top
};
constexpr size_t kFirstSlots = 256; // a power of two

class Planner {
public:
  Planner(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
          const StepPrice &price, Scratch &scratch)
      : mesh(mesh), shape(shape), elementBytes(elementBytes), from(from), to(to), price(price), nodes(scratch.nodes),
        slots(scratch.slots), open(scratch.open) {}

  std::vector<ReshardStep> plan();
  /// Returns the total price of the steps that `plan` returns.
  double priceOfPlan(LeastStepPrices &known);

private:
  bool buildLayouts();
  bool toDigits(const std::vector<AxisRef> &refs, Digits &digits);
  void limitMoves();
  bool planDirectly(std::vector<ReshardStep> &steps);
  std::vector<ReshardStep> search(std::vector<ReshardStep> fallback);
  /// Settles nodes until the goal is settled, and returns its node; -1: the search ended without it. No path costs more
  /// than `most`.
  int settleGoal(double most);
  void estimateRemaining(LeastStepPrices &known);
  double remainingFrom(const Layout &layout) const;

  void expand(int node);
  void expandReductions(int node);
  void expandGathers(int node);
  void expandSlices(int node);
  void expandPermutes(int node, size_t d, Layout &next, uint32_t taken);
  void relax(int node, const Layout &next, const Move &move);
  /// Returns the slot of a layout; -1 is in it as long as no node has the layout.
  int &slotOf(const Layout &layout);
  void addSlots();

  int64_t shardCountOf(const Digits &digits, size_t first = 0) const;
  uint32_t used(const Layout &layout) const;
  bool clashes(uint32_t added, uint32_t present) const;
  int64_t chunkAfterGain(const Layout &layout, size_t d, int64_t n) const;
  Layout gain(const Layout &layout, size_t d, const Digits &added, int64_t chunk) const;
  Layout lose(const Layout &layout, size_t d, size_t keep) const;
  /// Calls `visit` with every ordered choice of sub-axes from `candidates`, appended to `prefix`, that can
  /// cut one dimension.
  template <typename Visit> void forEachSequence(uint32_t candidates, const Digits &prefix, Visit visit) const;

  int64_t bytesOf(const Layout &layout) const;
  Sharding shardingOf(const Layout &layout) const;
  std::vector<AxisRef> refsOf(const Digits &digits) const;
  Digits permuted(const Layout &before, const Layout &after) const;
  /// Fills in all fields of a step except `after`, which is expensive to compute and which no price reads.
  void writeStep(ReshardStep &step, const Layout &before, const Layout &after, const Move &move) const;
  ReshardStep makeStep(const Layout &before, const Layout &after, const Move &move) const;
  double totalPrice(const std::vector<ReshardStep> &steps) const;

  const Mesh &mesh;
  const Shape &shape;
  const int64_t elementBytes;
  const Sharding &from, &to;
  const StepPrice &price;

  std::vector<AxisRef> subAxes;
  std::vector<uint8_t> inOrder;   // indices of the sub-axes in sorted order
  std::vector<uint32_t> overlaps; // by sub-axis: bits of the sub-axes that share digits with it
  bool anyOverlap = false;
  std::vector<size_t> cutDims; // tensor dimensions that `from` or `to` cuts; layouts have entries for these only
  int64_t uncutElements = 1;
  Layout start, goal;
  std::array<size_t, kMaxCutDims> frozen{};    // by dimension: number of most significant sub-axes that never move
  std::array<uint32_t, kMaxCutDims> mayGain{}; // by dimension: bits of the sub-axes that may come to cut it

  std::vector<Node> &nodes;
  std::vector<int> &slots;
  std::vector<Scratch::Open> &open;
  double bound = 0;
  bool estimates = false;                                    // whether remainingFrom knows more than 0
  std::array<double, kMaxSubAxes> moved{}, gone{}, summed{}; // by sub-axis: as LeastStepPrices::Entry
  double anyStep = 0;
  std::array<uint32_t, kMaxCutDims> goalBits{}; // by dimension: bits of the sub-axes that cut it in `goal`
  uint32_t goalCuts = 0;                        // bits of the sub-axes that cut any dimension in `goal`
  ReshardStep priced;                           // reused argument of `price`, to avoid allocations
};

int64_t Planner::shardCountOf(const Digits &digits, size_t first) const {
  int64_t product = 1;
  for (size_t i = first; i < digits.count(); ++i)
    product *= subAxes[digits[i]].size;
  return product;
}

bool Planner::toDigits(const std::vector<AxisRef> &refs, Digits &digits) {
  for (const AxisRef &ref : refs) {
    const size_t id = std::find(subAxes.begin(), subAxes.end(), ref) - subAxes.begin();
    if (id == subAxes.size())
      subAxes.push_back(ref);
    if (id >= kMaxSubAxes)
      return false;
    digits.append(static_cast<uint8_t>(id));
  }
  return true;
}

bool Planner::buildLayouts() {
  const CommonBoundaries boundaries = commonBoundaries(mesh, from, to);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (from.dims[d].axes.empty() && to.dims[d].axes.empty()) {
      uncutElements *= shape[d];
      continue;
    }
    const size_t slot = cutDims.size();
    if (slot == kMaxCutDims || !toDigits(split(from.dims[d].axes, boundaries.source), start.dims[slot]) ||
        !toDigits(split(to.dims[d].axes, boundaries.target), goal.dims[slot]))
      return false;
    start.chunk[slot] = from.dims[d].chunk;
    goal.chunk[slot] = to.dims[d].chunk;
    cutDims.push_back(d);
  }
  Digits fromPartial, toPartial;
  if (!toDigits(split(from.partial, boundaries.source), fromPartial) ||
      !toDigits(split(to.partial, boundaries.target), toPartial))
    return false;
  start.partial = fromPartial.mask();
  goal.partial = toPartial.mask();
  inOrder.resize(subAxes.size());
  std::iota(inOrder.begin(), inOrder.end(), 0);
  std::sort(inOrder.begin(), inOrder.end(), [&](uint8_t a, uint8_t b) { return subAxes[a] < subAxes[b]; });
  overlaps.assign(subAxes.size(), 0);
  for (size_t i = 0; i < subAxes.size(); ++i)
    for (size_t j = 0; j < subAxes.size(); ++j)
      if (i != j && overlap(subAxes[i], subAxes[j]))
        overlaps[i] |= 1u << j, anyOverlap = true;
  return true;
}

/// Freezes the most significant sub-axes of each dimension that `from` and `to` have in common with the same
/// chunk. They are not frozen if the remaining chunk is larger than the dimension, because gathering them too
/// would then be cheaper.
void Planner::limitMoves() {
  for (size_t d = 0; d < cutDims.size(); ++d) {
    const Digits &have = start.dims[d], &want = goal.dims[d];
    for (size_t i = 1; i <= std::min(have.count(), want.count()) && have[i - 1] == want[i - 1]; ++i) {
      const int64_t chunk = start.chunk[d] * shardCountOf(have, i);
      if (chunk == goal.chunk[d] * shardCountOf(want, i) && chunk <= shape[cutDims[d]])
        frozen[d] = i;
    }
  }
  uint32_t moving = (1u << subAxes.size()) - 1;
  for (size_t d = 0; d < cutDims.size(); ++d)
    moving &= ~start.dims[d].part(0, frozen[d]).mask();
  moving &= ~(start.partial & goal.partial);
  for (size_t d = 0; d < cutDims.size(); ++d)
    mayGain[d] = std::popcount(moving) <= kMaxFreeSubAxes ? moving : goal.dims[d].mask() & moving;
}

uint32_t Planner::used(const Layout &layout) const {
  uint32_t bits = layout.partial;
  for (size_t d = 0; d < cutDims.size(); ++d)
    bits |= layout.dims[d].mask();
  return bits;
}

bool Planner::clashes(uint32_t added, uint32_t present) const {
  if (added & present)
    return true;
  for (uint32_t rest = added; rest; rest &= rest - 1)
    if (overlaps[std::countr_zero(rest)] & (present | added))
      return true;
  return false;
}

int64_t Planner::chunkAfterGain(const Layout &layout, size_t d, int64_t n) const {
  if (layout.dims[d].count() > 0)
    return layout.chunk[d] % n == 0 ? layout.chunk[d] / n : 0;
  const int64_t span = goal.chunk[d] * shardCountOf(goal.dims[d]), size = shape[cutDims[d]];
  if (span % n == 0 && span > 0)
    return span / n; // a chunk that can be cut into chunks of the goal
  return std::max<int64_t>(1, size / n + (size % n != 0));
}

Layout Planner::gain(const Layout &layout, size_t d, const Digits &added, int64_t chunk) const {
  Layout next = layout;
  next.dims[d] = layout.dims[d].plus(added);
  next.chunk[d] = chunk;
  return next;
}

Layout Planner::lose(const Layout &layout, size_t d, size_t keep) const {
  Layout next = layout;
  next.chunk[d] = keep == 0 ? 0 : layout.chunk[d] * shardCountOf(layout.dims[d], keep);
  next.dims[d] = layout.dims[d].part(0, keep);
  return next;
}

template <typename Visit> void Planner::forEachSequence(uint32_t candidates, const Digits &prefix, Visit visit) const {
  for (uint32_t rest = candidates; rest; rest &= rest - 1) {
    const uint32_t bit = rest & -rest;
    if (clashes(bit, prefix.mask()))
      continue;
    Digits sequence = prefix;
    sequence.append(static_cast<uint8_t>(std::countr_zero(bit)));
    visit(sequence);
    forEachSequence(candidates & ~bit, sequence, visit);
  }
}

int64_t Planner::bytesOf(const Layout &layout) const {
  int64_t elements = uncutElements;
  for (size_t d = 0; d < cutDims.size(); ++d)
    elements *= layout.dims[d].count() ? layout.chunk[d] : shape[cutDims[d]];
  return elements * elementBytes;
}

std::vector<AxisRef> Planner::refsOf(const Digits &digits) const {
  std::vector<AxisRef> refs;
  for (size_t i = 0; i < digits.count(); ++i)
    refs.push_back(subAxes[digits[i]]);
  return mergeParts(refs);
}

Sharding Planner::shardingOf(const Layout &layout) const {
  if (layout == goal)
    return to;
  Sharding sharding = Sharding::replicated(shape.size());
  for (size_t d = 0; d < cutDims.size(); ++d)
    sharding.dims[cutDims[d]] = {refsOf(layout.dims[d]), layout.chunk[d]};
  if (layout.partial == 0)
    return sharding;
  for (size_t a = 0; a < subAxes.size(); ++a)
    if (layout.partial >> a & 1)
      sharding.partial.push_back(subAxes[a]);
  std::sort(sharding.partial.begin(), sharding.partial.end());
  sharding.partial = mergeParts(sharding.partial);
  sharding.partialKind = from.partialKind;
  return sharding;
}

/// Returns the sub-axes that cut another dimension or position in `after` than in `before`. Equals permuteAxes() as
/// long as no sub-axes overlap.
Digits Planner::permuted(const Layout &before, const Layout &after) const {
  // The dimension + 1, and the distance in positions of that dimension between neighbours along the sub-axis.
  using Place = std::pair<size_t, int64_t>;
  std::array<Place, kMaxSubAxes> held{}, needed{};
  auto note = [&](const Layout &layout, std::array<Place, kMaxSubAxes> &places) {
    for (size_t d = 0; d < cutDims.size(); ++d) {
      int64_t worth = 1;
      for (size_t i = layout.dims[d].count(); i-- > 0; worth *= subAxes[layout.dims[d][i]].size)
        places[layout.dims[d][i]] = {d + 1, worth};
    }
  };
  note(before, held);
  note(after, needed);
  Digits moved;
  for (uint8_t a : inOrder)
    if (held[a] != needed[a])
      moved.append(a);
  return moved;
}

void Planner::writeStep(ReshardStep &step, const Layout &before, const Layout &after, const Move &move) const {
  step.kind = move.kind;
  step.dim = move.d < 0 ? -1 : static_cast<int>(cutDims[move.d]);
  step.otherDim = move.other < 0 ? -1 : static_cast<int>(cutDims[move.other]);
  if (move.kind == ReshardStepKind::CollectivePermute && anyOverlap) {
    step.axes = permuteAxes(mesh, shardingOf(before), shardingOf(after));
    return;
  }
  const Digits axes = move.kind == ReshardStepKind::CollectivePermute ? permuted(before, after) : move.axes;
  step.axes.clear();
  for (size_t i = 0; i < axes.count(); ++i)
    appendMerged(step.axes, subAxes[axes[i]]);
}

ReshardStep Planner::makeStep(const Layout &before, const Layout &after, const Move &move) const {
  ReshardStep step;
  writeStep(step, before, after, move);
  step.after = shardingOf(after);
  return step;
}

int &Planner::slotOf(const Layout &layout) {
  size_t at = LayoutHash()(layout) & (slots.size() - 1);
  while (slots[at] >= 0 && nodes[slots[at]].layout != layout)
    at = (at + 1) & (slots.size() - 1);
  return slots[at];
}

void Planner::addSlots() {
  slots.assign(2 * slots.size(), -1);
  for (size_t n = 0; n < nodes.size(); ++n)
    slotOf(nodes[n].layout) = static_cast<int>(n);
}

void Planner::relax(int node, const Layout &next, const Move &move) {
  int &slot = slotOf(next);
  const int known = slot;
  // Prices are not negative: a node that was reached at no more than this node's total cannot be reached
  // cheaper from here.
  if (known >= 0 &&
      std::pair(nodes[known].total, nodes[known].steps) <= std::pair(nodes[node].total, nodes[node].steps + 1))
    return;
  const double remaining = known >= 0 ? nodes[known].remaining : remainingFrom(next);
  if (nodes[node].total + remaining > bound)
    return;
  writeStep(priced, nodes[node].layout, next, move);
  const double total = nodes[node].total + price(priced, bytesOf(nodes[node].layout), bytesOf(next));
  const int steps = nodes[node].steps + 1;
  if (!(total + remaining <= bound)) // also rejects a price that is not a number
    return;
  const int index = known >= 0 ? known : static_cast<int>(nodes.size());
  if (known < 0) {
    slot = index;
    nodes.emplace_back();
  } else if (std::pair(total, steps) >= std::pair(nodes[index].total, nodes[index].steps)) {
    return;
  }
  nodes[index] = {next, total, remaining, steps, node, false, move};
  open.push_back({total + remaining, remaining, steps, index});
  std::push_heap(open.begin(), open.end(), std::greater<>());
  if (2 * nodes.size() > slots.size())
    addSlots();
  if (next == goal) // no path of a higher price is of use any more
    bound = total;
}

/// Adds all-reduces over any axes that `to` does not leave partial, and reduce-scatters of these axes into a dimension
/// that may gain them.
void Planner::expandReductions(int node) {
  const Layout layout = nodes[node].layout;
  const uint32_t extra = layout.partial & ~goal.partial;
  for (uint32_t some = extra; some; some = (some - 1) & extra) {
    Layout next = layout;
    next.partial &= ~some;
    Digits axes;
    for (uint8_t a : inOrder)
      if (some >> a & 1)
        axes.append(a);
    relax(node, next, {ReshardStepKind::AllReduce, axes});
  }
  for (size_t d = 0; d < cutDims.size(); ++d)
    forEachSequence(extra & mayGain[d], {}, [&](const Digits &added) {
      const int64_t chunk = chunkAfterGain(layout, d, shardCountOf(added));
      if (chunk == 0)
        return;
      Layout next = gain(layout, d, added, chunk);
      next.partial &= ~added.mask();
      relax(node, next, {ReshardStepKind::ReduceScatter, added, static_cast<int8_t>(d)});
    });
}

/// Adds all-gathers of the minor axes of a dimension, and all-to-alls of these axes into a dimension that
/// may gain them.
void Planner::expandGathers(int node) {
  const Layout layout = nodes[node].layout;
  for (size_t d = 0; d < cutDims.size(); ++d)
    for (size_t keep = frozen[d]; keep < layout.dims[d].count(); ++keep) {
      const Digits moved = layout.dims[d].part(keep, layout.dims[d].count());
      const Layout without = lose(layout, d, keep);
      relax(node, without, {ReshardStepKind::AllGather, moved, static_cast<int8_t>(d)});
      for (size_t other = 0; other < cutDims.size(); ++other) {
        const int64_t chunk =
            other == d || (moved.mask() & ~mayGain[other]) ? 0 : chunkAfterGain(layout, other, shardCountOf(moved));
        if (chunk != 0)
          relax(node, gain(without, other, moved, chunk),
                {ReshardStepKind::AllToAll, moved, static_cast<int8_t>(d), static_cast<int8_t>(other)});
      }
    }
}

void Planner::expandSlices(int node) {
  const Layout layout = nodes[node].layout;
  const uint32_t present = used(layout);
  for (size_t d = 0; d < cutDims.size(); ++d) {
    forEachSequence(mayGain[d] & ~present, {}, [&](const Digits &added) {
      const int64_t chunk = clashes(added.mask(), present) ? 0 : chunkAfterGain(layout, d, shardCountOf(added));
      if (chunk != 0)
        relax(node, gain(layout, d, added, chunk), {ReshardStepKind::LocalSlice, added, static_cast<int8_t>(d)});
    });
  }
}

/// Tries, for dimension d and all later ones, other sub-axes with the same shard count. `taken` are the sub-axes that
/// are no longer available. Sub-axes that overlap others are never exchanged, because an exchange would not map digits
/// to digits; they are gathered instead.
void Planner::expandPermutes(int node, size_t d, Layout &next, uint32_t taken) {
  const Layout &layout = nodes[node].layout;
  if (d == cutDims.size()) {
    if (next != layout)
      relax(node, next, {ReshardStepKind::CollectivePermute, {}});
    return;
  }
  const Digits now = layout.dims[d]; // a copy, because relax() may move the nodes
  if (now.count() <= frozen[d]) {
    expandPermutes(node, d + 1, next, taken);
    return;
  }
  uint32_t candidates = (mayGain[d] | now.mask(frozen[d])) & ~taken;
  for (size_t a = 0; a < subAxes.size(); ++a)
    if (overlaps[a])
      candidates &= ~(1u << a);
  const Digits kept = now.part(0, frozen[d]), old = now.part(frozen[d], now.count());
  const int64_t n = shardCountOf(old);
  auto choose = [&](const Digits &sequence) {
    next.dims[d] = kept.plus(sequence);
    expandPermutes(node, d + 1, next, taken | sequence.mask());
    next.dims[d] = now;
  };
  forEachSequence(candidates, {}, [&](const Digits &sequence) {
    if (shardCountOf(sequence) == n)
      choose(sequence);
  });
  // Sub-axes that overlap others may still stay in place.
  if ((old.mask() & ~candidates) && !(old.mask() & taken))
    choose(old);
}

void Planner::expand(int node) {
  expandReductions(node);
  expandGathers(node);
  expandSlices(node);
  uint32_t taken = nodes[node].layout.partial;
  for (size_t d = 0; d < cutDims.size(); ++d)
    taken |= nodes[node].layout.dims[d].part(0, std::min<size_t>(frozen[d], nodes[node].layout.dims[d].count())).mask();
  Layout next = nodes[node].layout;
  expandPermutes(node, 0, next, taken);
}

/// Finds reshards for which no alternative is cheaper: local slices only, or one all-gather or all-reduce over one
/// axis. Returns false if the reshard is not of this kind.
bool Planner::planDirectly(std::vector<ReshardStep> &steps) {
  Layout now = start;
  auto isExtension = [&](const Layout &shorter, const Layout &longer, size_t d) {
    const Digits &few = shorter.dims[d], &many = longer.dims[d];
    if (few.count() > many.count() || many.part(0, few.count()) != few)
      return false;
    return few.count() == 0 || shorter.chunk[d] == longer.chunk[d] * shardCountOf(many, few.count());
  };
  auto add = [&](const Layout &next, ReshardStepKind kind, const Digits &axes, int d) {
    steps.push_back(makeStep(now, next, {kind, axes, static_cast<int8_t>(d)}));
    now = next;
  };
  std::vector<size_t> differing;
  for (size_t d = 0; d < cutDims.size(); ++d)
    if (start.dims[d] != goal.dims[d] || start.chunk[d] != goal.chunk[d])
      differing.push_back(d);

  if (start.partial != goal.partial) {
    Digits reduced;
    for (uint32_t rest = start.partial & ~goal.partial; rest; rest &= rest - 1)
      reduced.append(static_cast<uint8_t>(std::countr_zero(rest)));
    if (!differing.empty() || reduced.count() != 1)
      return false;
    add(goal, ReshardStepKind::AllReduce, reduced, -1);
    return true;
  }
  if (std::all_of(differing.begin(), differing.end(), [&](size_t d) { return isExtension(start, goal, d); })) {
    for (size_t d : differing) {
      const Digits added = goal.dims[d].part(start.dims[d].count(), goal.dims[d].count());
      add(gain(now, d, added, goal.chunk[d]), ReshardStepKind::LocalSlice, added, static_cast<int>(d));
    }
    return true;
  }
  const size_t d = differing.front();
  if (differing.size() != 1 || start.dims[d].count() != goal.dims[d].count() + 1 || !isExtension(goal, start, d) ||
      goal.chunk[d] > shape[cutDims[d]]) // otherwise gathering the complete dimension and slicing moves less
    return false;
  add(goal, ReshardStepKind::AllGather, start.dims[d].part(goal.dims[d].count(), start.dims[d].count()),
      static_cast<int>(d));
  return true;
}

double Planner::totalPrice(const std::vector<ReshardStep> &steps) const {
  auto bytes = [&](const Sharding &sharding) {
    int64_t elements = elementBytes;
    for (size_t d = 0; d < shape.size(); ++d)
      elements *= localExtent(shape[d], sharding.dims[d]);
    return elements;
  };
  double total = 0;
  int64_t bytesIn = bytes(from);
  for (const ReshardStep &step : steps) {
    const int64_t bytesOut = bytes(step.after);
    total += price(step, bytesIn, bytesOut);
    bytesIn = bytesOut;
  }
  return total;
}

int Planner::settleGoal(double most) {
  bound = most;
  nodes.assign(1, {start});
  slots.assign(kFirstSlots, -1);
  slotOf(start) = 0;
  open.assign(1, {0.0, 0.0, 0, 0});
  for (int settled = 0; !open.empty() && settled < kMaxSettledLayouts;) {
    const auto [estimate, remaining, steps, node] = open.front();
    std::pop_heap(open.begin(), open.end(), std::greater<>());
    open.pop_back();
    if (nodes[node].settled ||
        (node > 0 &&
         std::pair(estimate, steps) != std::pair(nodes[node].total + nodes[node].remaining, nodes[node].steps)))
      continue;
    if (nodes[node].layout == goal)
      return node;
    nodes[node].settled = true;
    ++settled;
    expand(node);
  }
  return -1;
}

std::vector<ReshardStep> Planner::search(std::vector<ReshardStep> fallback) {
  const int end = settleGoal(totalPrice(fallback));
  if (end < 0)
    return fallback;
  std::vector<ReshardStep> path;
  for (int n = end; nodes[n].parent >= 0; n = nodes[n].parent)
    path.push_back(makeStep(nodes[nodes[n].parent].layout, nodes[n].layout, nodes[n].move));
  std::reverse(path.begin(), path.end());
  return path;
}

/// Looks up the least prices of the steps that the search may still need. A rank holds at least the tensor's bytes
/// divided by the sizes of all sub-axes that can cut it.
void Planner::estimateRemaining(LeastStepPrices &known) {
  const size_t count = subAxes.size();
  if (anyOverlap || count > kMaxEstimatedSubAxes)
    return;
  int64_t all = elementBytes, ofGoal = 1, ofAxes = 1;
  for (int64_t size : shape)
    all *= size;
  for (size_t d = 0; d < cutDims.size(); ++d) {
    goalBits[d] = goal.dims[d].mask();
    goalCuts |= goalBits[d];
    ofGoal *= shardCountOf(goal.dims[d]);
  }
  std::vector<AxisRef> sorted;
  for (uint8_t a : inOrder) {
    sorted.push_back(subAxes[a]);
    ofAxes *= subAxes[a].size;
  }
  const LeastStepPrices::Entry &entry = known.of(sorted, all, ofAxes, ofGoal, price);
  for (size_t i = 0; i < count; ++i) {
    moved[inOrder[i]] = entry.axes[i].moved * kLessRounding;
    gone[inOrder[i]] = entry.axes[i].gone * kLessRounding;
    summed[inOrder[i]] = entry.axes[i].summed * kLessRounding;
  }
  anyStep = entry.anyStep * kLessRounding;
  estimates = true;
}

/// A sub-axis that cuts a dimension which it does not cut in the goal has to take part in some step that communicates,
/// and so has a sub-axis over which the value is partial and the goal is not.
double Planner::remainingFrom(const Layout &layout) const {
  if (!estimates)
    return 0;
  uint32_t leaving = 0;
  for (size_t d = 0; d < cutDims.size(); ++d)
    leaving |= layout.dims[d].mask() & ~goalBits[d];
  uint32_t partial = layout.partial & ~goal.partial;
  double most = leaving | partial ? anyStep : 0;
  for (; leaving; leaving &= leaving - 1) {
    const int a = std::countr_zero(leaving);
    most = std::max(most, goalCuts >> a & 1 ? moved[a] : gone[a]);
  }
  for (; partial; partial &= partial - 1)
    most = std::max(most, summed[std::countr_zero(partial)]);
  return most;
}

double Planner::priceOfPlan(LeastStepPrices &known) {
  if (!buildLayouts())
    return totalPrice(gatherThenSlice(mesh, from, to));
  limitMoves();
  std::vector<ReshardStep> steps;
  if (planDirectly(steps))
    return totalPrice(steps);
  estimateRemaining(known);
  const double most = totalPrice(gatherThenSlice(mesh, from, to));
  const int end = settleGoal(most);
  return end < 0 ? most : nodes[end].total;
}

std::vector<ReshardStep> Planner::plan() {
  std::vector<ReshardStep> steps;
  if (!buildLayouts())
    return gatherThenSlice(mesh, from, to);
  limitMoves();
  if (planDirectly(steps))
    return steps;
  return search(gatherThenSlice(mesh, from, to));
}

} // namespace

const LeastStepPrices::Entry &LeastStepPrices::of(const std::vector<AxisRef> &axes, int64_t bytes, int64_t shardsOfAxes,
                                                  int64_t shardsOfGoal, const StepPrice &price) {
  std::vector<int64_t> key = {bytes, shardsOfGoal};
  for (const AxisRef &axis : axes)
    key.insert(key.end(), {axis.axis, axis.before, axis.size});
  auto [found, isNew] = known.try_emplace(std::move(key));
  Entry &entry = found->second;
  if (!isNew)
    return entry;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  entry.axes.assign(axes.size(), {kInfinity, kInfinity, kInfinity});
  entry.anyStep = kInfinity;
  for (uint32_t some = 1; some < 1u << axes.size(); ++some) {
    ReshardStep step;
    int64_t ranks = 1;
    for (size_t a = 0; a < axes.size(); ++a)
      if (some >> a & 1) {
        appendMerged(step.axes, axes[a]);
        ranks *= axes[a].size;
      }
    auto least = [&](ReshardStepKind kind, int64_t bytesIn, int64_t bytesOut) {
      step.kind = kind;
      return price(step, bytesIn, bytesOut);
    };
    const int64_t cut = bytes / shardsOfAxes, whole = bytes / (shardsOfAxes / ranks), goal = bytes / shardsOfGoal;
    const double gather = least(ReshardStepKind::AllGather, cut, whole),
                 exchange = std::min({gather, least(ReshardStepKind::AllToAll, cut, cut),
                                      least(ReshardStepKind::CollectivePermute, cut, cut)}),
                 sum = std::min(least(ReshardStepKind::ReduceScatter, whole, cut),
                                least(ReshardStepKind::AllReduce, whole, whole));
    for (size_t a = 0; a < axes.size(); ++a)
      if (some >> a & 1) {
        Axis &its = entry.axes[a];
        const int64_t without = bytes / (shardsOfAxes / axes[a].size);
        its.moved = std::min(its.moved, exchange);
        its.gone = std::min({its.gone, gather, least(ReshardStepKind::CollectivePermute, without, without)});
        its.summed = std::min(its.summed, sum);
      }
    entry.anyStep = std::min(
        {entry.anyStep, least(ReshardStepKind::AllGather, goal / ranks, goal),
         least(ReshardStepKind::AllToAll, goal, goal), least(ReshardStepKind::CollectivePermute, goal, goal),
         least(ReshardStepKind::ReduceScatter, goal, goal / ranks), least(ReshardStepKind::AllReduce, goal, goal)});
  }
  return entry;
}

/// Fails with the reason where no reshard exists.
static Status checkReshard(const Mesh &mesh, const Shape &shape, const Sharding &from, const Sharding &to) {
  if (Status status = checkSharding(mesh, shape, from); !status)
    return Error{"reshard from: " + status.error().message, status.error().status};
  if (Status status = checkSharding(mesh, shape, to); !status)
    return Error{"reshard to: " + status.error().message, status.error().status};
  if (!canReshard(from, to))
    return Error{fmt::format("cannot reshard {} to {}: a value that is not partial does not become partial; choose a "
                             "target that is not partial",
                             toString(mesh, shape, from), toString(mesh, shape, to))};
  return ok();
}

/// The memory of a thread's searches.
static Scratch &scratchOfThread() {
  thread_local Scratch scratch;
  return scratch;
}

Result<std::vector<ReshardStep>> planReshard(const Mesh &mesh, const Shape &shape, int64_t elementBytes,
                                             const Sharding &from, const Sharding &to, const StepPrice &price) {
  if (Status status = checkReshard(mesh, shape, from, to); !status)
    return status.error();
  const Sharding canonicalFrom = canonical(from), canonicalTo = canonical(to);
  if (canonicalFrom == canonicalTo)
    return std::vector<ReshardStep>{};
  std::vector<ReshardStep> steps =
      Planner(mesh, shape, elementBytes, canonicalFrom, canonicalTo, price, scratchOfThread()).plan();
  if (!steps.empty())
    steps.back().after = to;
  return steps;
}

Result<double> reshardPrice(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from,
                            const Sharding &to, const StepPrice &price, LeastStepPrices &known) {
  if (Status status = checkReshard(mesh, shape, from, to); !status)
    return status.error();
  const Sharding canonicalFrom = canonical(from), canonicalTo = canonical(to);
  if (canonicalFrom == canonicalTo)
    return 0.0;
  return Planner(mesh, shape, elementBytes, canonicalFrom, canonicalTo, price, scratchOfThread()).priceOfPlan(known);
}

} // namespace kerf
