// SPDX-License-Identifier: Apache-2.0
// A shortest-path search from one sharding to another. A node is a layout: the sub-axes (SubAxes.h) that cut each
// dimension, in order, the chunks, and the sub-axes over which the value is partial. An edge is a step. Layouts are
// small values so that thousands of searches are fast.
#include "kerf/Sharding/Reshard.h"
#include "LayoutSpace.h"
#include "RemainingPrice.h"
#include "ReshardSteps.h"
#include "SubAxes.h"
#include "kerf/Sharding/ReshardPrice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <functional>
#include <tuple>

namespace kerf {

namespace {

using namespace reshard;

constexpr int kMaxSettledLayouts = 500; // a longer search ends, and the reshard uses gatherThenSlice
// If at most this many sub-axes move, a dimension may gain any of them. If more move (parts of three axes), a dimension
// gains only those that cut it in `to`.
constexpr int kMaxFreeSubAxes = 3;

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

class Planner : LayoutSpace {
public:
  Planner(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
          const StepPrice &price, Scratch &scratch)
      : LayoutSpace(mesh, shape, elementBytes, from, to), price(price), nodes(scratch.nodes), slots(scratch.slots),
        open(scratch.open) {}

  std::vector<ReshardStep> plan();
  /// Returns the total price of the steps that `plan` returns.
  double priceOfPlan(LeastStepPrices &known);

private:
  void limitMoves();
  bool planDirectly(std::vector<ReshardStep> &steps);
  std::vector<ReshardStep> search(std::vector<ReshardStep> fallback);
  /// Settles nodes until the goal is settled, and returns its node; -1: the search ended without it. No path costs more
  /// than `most`.
  int settleGoal(double most);

  void expand(int node);
  void expandReductions(int node);
  void expandGathers(int node);
  void expandSlices(int node);
  void expandPermutes(int node, size_t d, Layout &next, uint32_t taken);
  void relax(int node, const Layout &next, const Move &move);
  /// Returns the slot of a layout; -1 is in it as long as no node has the layout.
  int &slotOf(const Layout &layout);
  void addSlots();

  double totalPrice(const std::vector<ReshardStep> &steps) const;

  const StepPrice &price;
  std::array<size_t, kMaxCutDims> frozen{};    // by dimension: number of most significant sub-axes that never move
  std::array<uint32_t, kMaxCutDims> mayGain{}; // by dimension: bits of the sub-axes that may come to cut it

  std::vector<Node> &nodes;
  std::vector<int> &slots;
  std::vector<Scratch::Open> &open;
  double bound = 0;
  RemainingPrice remaining;
  ReshardStep priced; // reused argument of `price`, to avoid allocations
};

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
  const double rest = known >= 0 ? nodes[known].remaining : remaining.from(next);
  if (nodes[node].total + rest > bound)
    return;
  writeStep(priced, nodes[node].layout, next, move);
  const double total = nodes[node].total + price(priced, bytesOf(nodes[node].layout), bytesOf(next));
  const int steps = nodes[node].steps + 1;
  if (!(total + rest <= bound)) // also rejects a price that is not a number
    return;
  const int index = known >= 0 ? known : static_cast<int>(nodes.size());
  if (known < 0) {
    slot = index;
    nodes.emplace_back();
  } else if (std::pair(total, steps) >= std::pair(nodes[index].total, nodes[index].steps)) {
    return;
  }
  nodes[index] = {next, total, rest, steps, node, false, move};
  open.push_back({total + rest, rest, steps, index});
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

double Planner::priceOfPlan(LeastStepPrices &known) {
  if (!build())
    return totalPrice(gatherThenSlice(mesh, from, to));
  limitMoves();
  std::vector<ReshardStep> steps;
  if (planDirectly(steps))
    return totalPrice(steps);
  remaining = RemainingPrice(*this, known, price);
  const double most = totalPrice(gatherThenSlice(mesh, from, to));
  const int end = settleGoal(most);
  return end < 0 ? most : nodes[end].total;
}

std::vector<ReshardStep> Planner::plan() {
  std::vector<ReshardStep> steps;
  if (!build())
    return gatherThenSlice(mesh, from, to);
  limitMoves();
  if (planDirectly(steps))
    return steps;
  return search(gatherThenSlice(mesh, from, to));
}

} // namespace

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
