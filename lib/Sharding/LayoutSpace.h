// SPDX-License-Identifier: Apache-2.0
// The layouts of one reshard: packed from shardings and unpacked again, changed by steps, and measured in bytes.
#pragma once

#include "ReshardLayout.h"
#include "kerf/Sharding/Reshard.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace kerf::reshard {

/// A step of the search. `axes` are sub-axes; for a permute they are empty and follow from the two layouts.
struct Move {
  ReshardStepKind kind = ReshardStepKind::LocalSlice;
  Digits axes;
  int8_t d = -1, other = -1; // indices into LayoutSpace::cutDims; -1: none
};

/// The layouts between `from` and `to`, which must be canonical and outlive the object.
class LayoutSpace {
public:
  LayoutSpace(const Mesh &mesh, const Shape &shape, int64_t elementBytes, const Sharding &from, const Sharding &to)
      : mesh(mesh), shape(shape), elementBytes(elementBytes), from(from), to(to) {}

  /// Packs `from` and `to` as `start` and `goal`. Returns false where they are beyond the limits of ReshardLayout.h.
  bool build();

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
  /// Fills in all fields of a step except `after`, which is expensive to compute and which no price reads.
  void writeStep(ReshardStep &step, const Layout &before, const Layout &after, const Move &move) const;
  ReshardStep makeStep(const Layout &before, const Layout &after, const Move &move) const;

  const Mesh &mesh;
  const Shape &shape;
  const int64_t elementBytes;
  const Sharding &from, &to;

  std::vector<AxisRef> subAxes;
  std::vector<uint8_t> inOrder;   // indices of the sub-axes in sorted order
  std::vector<uint32_t> overlaps; // by sub-axis: bits of the sub-axes that share digits with it
  bool anyOverlap = false;
  std::vector<size_t> cutDims; // tensor dimensions that `from` or `to` cuts; layouts have entries for these only
  int64_t uncutElements = 1;
  Layout start, goal;

private:
  bool toDigits(const std::vector<AxisRef> &refs, Digits &digits);
  std::vector<AxisRef> refsOf(const Digits &digits) const;
  Digits permuted(const Layout &before, const Layout &after) const;
};

inline int64_t LayoutSpace::shardCountOf(const Digits &digits, size_t first) const {
  int64_t product = 1;
  for (size_t i = first; i < digits.count(); ++i)
    product *= subAxes[digits[i]].size;
  return product;
}

inline uint32_t LayoutSpace::used(const Layout &layout) const {
  uint32_t bits = layout.partial;
  for (size_t d = 0; d < cutDims.size(); ++d)
    bits |= layout.dims[d].mask();
  return bits;
}

inline bool LayoutSpace::clashes(uint32_t added, uint32_t present) const {
  if (added & present)
    return true;
  for (uint32_t rest = added; rest; rest &= rest - 1)
    if (overlaps[std::countr_zero(rest)] & (present | added))
      return true;
  return false;
}

inline int64_t LayoutSpace::chunkAfterGain(const Layout &layout, size_t d, int64_t n) const {
  if (layout.dims[d].count() > 0)
    return layout.chunk[d] % n == 0 ? layout.chunk[d] / n : 0;
  const int64_t span = goal.chunk[d] * shardCountOf(goal.dims[d]), size = shape[cutDims[d]];
  if (span % n == 0 && span > 0)
    return span / n; // a chunk that can be cut into chunks of the goal
  return std::max<int64_t>(1, size / n + (size % n != 0));
}

inline Layout LayoutSpace::gain(const Layout &layout, size_t d, const Digits &added, int64_t chunk) const {
  Layout next = layout;
  next.dims[d] = layout.dims[d].plus(added);
  next.chunk[d] = chunk;
  return next;
}

inline Layout LayoutSpace::lose(const Layout &layout, size_t d, size_t keep) const {
  Layout next = layout;
  next.chunk[d] = keep == 0 ? 0 : layout.chunk[d] * shardCountOf(layout.dims[d], keep);
  next.dims[d] = layout.dims[d].part(0, keep);
  return next;
}

template <typename Visit>
void LayoutSpace::forEachSequence(uint32_t candidates, const Digits &prefix, Visit visit) const {
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

inline int64_t LayoutSpace::bytesOf(const Layout &layout) const {
  int64_t elements = uncutElements;
  for (size_t d = 0; d < cutDims.size(); ++d)
    elements *= layout.dims[d].count() ? layout.chunk[d] : shape[cutDims[d]];
  return elements * elementBytes;
}

} // namespace kerf::reshard
