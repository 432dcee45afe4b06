// SPDX-License-Identifier: Apache-2.0
// The placement of process groups in the units of a hierarchical network (devices, nodes, racks).
#pragma once

#include "kerf/Sharding/Sharding.h"

#include <optional>

namespace kerf::cost {

/// The ranks of a group that differ in one digit of their number: `size` ranks, `distance` apart.
struct RankDigit {
  int64_t distance = 1, size = 1;
  bool operator==(const RankDigit &) const = default;
};

/// Returns the digits of the process groups along `axes`, in ascending order of their distances. Adjacent digits are
/// merged: 2 ranks 4 apart and 4 ranks 1 apart are 8 ranks 1 apart.
std::vector<RankDigit> digitsOf(const Mesh &mesh, std::span<const AxisRef> axes);

/// A level of the network, which connects units of `below` devices to units of `within` devices.
struct LevelUnits {
  int64_t node = 1;              // devices of a node, a divisor of `below` or a multiple
  int64_t below = 1, within = 1; // `within` is a multiple of `below`
};

/// The members of a group in one unit of `below` devices, and all ranks that share the links out of this unit.
struct UnitMembers {
  int64_t members = 0;
  int64_t nodes = 0;         // nodes of the unit that contain members
  int64_t parts = 0;         // units that contain members of the group, inside of the same unit of `within` devices
  int64_t membersWithin = 0; // members of the group in the unit of `within` devices
  int64_t groupsLeaving = 0; // groups with members in the unit and in other units of the same `within` devices
  int64_t ranksLeaving = 0;  // members of these groups in the unit
  bool operator==(const UnitMembers &) const = default;
};

/// Returns the members of each group in each unit that has any, and in a placement that repeats only those of one
/// repetition. The groups are those of ranks 0 to `ranks` - 1; `ranks` is a multiple of the largest digit's distance
/// times its size.
std::vector<UnitMembers> unitsOfGroups(std::span<const RankDigit> digits, int64_t ranks, const LevelUnits &level);

/// Computes unitsOfGroups from the digits alone, where all groups are placed alike: no boundary of units cuts a digit
/// at a fraction of its distance. Returns nothing otherwise.
std::optional<UnitMembers> unitOfAlikeGroups(std::span<const RankDigit> digits, int64_t ranks, const LevelUnits &level);
/// Computes unitsOfGroups by enumeration of the groups of ranks 0 to `ranks` - 1.
std::vector<UnitMembers> enumeratedUnits(std::span<const RankDigit> digits, int64_t ranks, const LevelUnits &level);

} // namespace kerf::cost
