// SPDX-License-Identifier: Apache-2.0
#include "GroupPlacement.h"
#include <algorithm>
#include <numeric>

namespace kerf::cost {

std::vector<RankDigit> digitsOf(const Mesh &mesh, std::span<const AxisRef> axes) {
  std::vector<RankDigit> digits;
  for (const AxisRef &ref : axes) {
    int64_t distance = mesh.axes[ref.axis].size / (ref.before * ref.size);
    for (size_t inner = ref.axis + 1; inner < mesh.axes.size(); ++inner)
      distance *= mesh.axes[inner].size;
    if (ref.size > 1)
      digits.push_back({distance, ref.size});
  }
  std::ranges::sort(digits, {}, &RankDigit::distance);
  std::vector<RankDigit> merged;
  for (const RankDigit &digit : digits)
    if (!merged.empty() && merged.back().distance * merged.back().size == digit.distance)
      merged.back().size *= digit.size;
    else
      merged.push_back(digit);
  return merged;
}

/// Returns the members of a group in a unit of `devices`, where they are as many in every unit that has any.
static std::optional<int64_t> membersIn(std::span<const RankDigit> digits, int64_t ranks, int64_t devices) {
  int64_t members = 1;
  for (const auto &[distance, size] : digits)
    if (devices >= ranks || devices % (distance * size) == 0) // all members of the digit are in one unit
      members *= size;
    else if (distance * size % devices == 0 && devices % distance == 0) // some are
      members *= devices / distance;
    else if (distance % devices != 0) // neither these nor one each
      return std::nullopt;
  return members;
}

std::optional<UnitMembers> unitOfAlikeGroups(std::span<const RankDigit> digits, int64_t ranks,
                                             const LevelUnits &level) {
  auto inUnit = membersIn(digits, ranks, level.below), within = membersIn(digits, ranks, level.within),
       inNode = membersIn(digits, ranks, std::min(level.node, level.below));
  if (!inUnit || !within || !inNode)
    return std::nullopt;
  UnitMembers unit{*inUnit, *inUnit / *inNode, *within / *inUnit, *within, 0, 0};
  if (unit.parts > 1) {
    unit.ranksLeaving = level.below;
    unit.groupsLeaving = level.below / *inUnit;
  }
  return unit;
}

std::vector<UnitMembers> enumeratedUnits(std::span<const RankDigit> digits, int64_t ranks, const LevelUnits &level) {
  std::vector<int64_t> offsets = {0}; // of the members from the first one, ascending
  for (const auto &[distance, size] : digits) {
    const size_t before = offsets.size();
    for (int64_t i = 1; i < size; ++i)
      for (size_t each = 0; each < before; ++each)
        offsets.push_back(offsets[each] + i * distance);
  }
  const int64_t nodeDevices = std::min(level.node, level.below);
  std::vector<UnitMembers> found;
  std::vector<int64_t> unitOf; // of each entry of `found`
  std::vector<int64_t> groupsLeaving(ranks / level.below + 1, 0), ranksLeaving = groupsLeaving;
  for (int64_t first = 0; first < ranks; ++first) {
    if (std::ranges::any_of(digits, [&](const RankDigit &digit) { return first / digit.distance % digit.size != 0; }))
      continue; // not the first member of its group
    const size_t begin = found.size();
    int64_t lastNode = -1;
    for (int64_t offset : offsets) {
      const int64_t rank = first + offset, unit = rank / level.below;
      if (found.size() == begin || unitOf.back() != unit) {
        found.emplace_back();
        unitOf.push_back(unit);
      }
      ++found.back().members;
      found.back().nodes += rank / nodeDevices != lastNode;
      lastNode = rank / nodeDevices;
    }
    for (size_t from = begin, to; from < found.size(); from = to) {
      auto larger = [&](size_t i) { return unitOf[i] * level.below / level.within; };
      int64_t members = 0;
      for (to = from; to < found.size() && larger(to) == larger(from); ++to)
        members += found[to].members;
      for (size_t i = from; i < to; ++i) {
        found[i].parts = static_cast<int64_t>(to - from);
        found[i].membersWithin = members;
        if (to - from > 1)
          ++groupsLeaving[unitOf[i]], ranksLeaving[unitOf[i]] += found[i].members;
      }
    }
  }
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i].parts > 1) {
      found[i].groupsLeaving = groupsLeaving[unitOf[i]];
      found[i].ranksLeaving = ranksLeaving[unitOf[i]];
    }
  return found;
}

std::vector<UnitMembers> unitsOfGroups(std::span<const RankDigit> digits, int64_t ranks, const LevelUnits &level) {
  if (auto alike = unitOfAlikeGroups(digits, ranks, level))
    return {*alike};
  // The placement repeats after this number of ranks. The ranks that are left at the end lie like the first ones, with
  // fewer groups beside them.
  int64_t period = std::lcm(digits.back().distance * digits.back().size, level.below);
  if (level.within < ranks)
    period = std::lcm(period, level.within);
  // As many ranks in a row lie in the same units, each in a group of its own, so that one of them stands for all.
  int64_t row = std::gcd(std::gcd(level.below, level.within), std::min(level.node, level.below));
  for (const RankDigit &digit : digits)
    row = std::gcd(row, digit.distance);
  std::vector<RankDigit> ofRows(digits.begin(), digits.end());
  for (RankDigit &digit : ofRows)
    digit.distance /= row;
  const LevelUnits rows{std::min(level.node, level.below) / row, level.below / row, level.within / row};
  std::vector<UnitMembers> units = enumeratedUnits(ofRows, std::min(ranks, period) / row, rows);
  for (UnitMembers &unit : units) {
    unit.groupsLeaving *= row;
    unit.ranksLeaving *= row;
  }
  return units;
}

} // namespace kerf::cost
