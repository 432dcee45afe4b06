// SPDX-License-Identifier: Apache-2.0
// The table of collective operators. The package checker, the cost model and the compiler passes all read these
// records; docs/adding-a-collective.md shows how to add one.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace kerf {

/// Communication patterns between ranks. The cost model has one formula for each (kerf/CostModel/Collectives.h). `Send`
/// is the point-to-point message between two pipeline stages; no collective operator has this pattern.
enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Permute, Send };

/// Record of one collective operator. All ranks of a group run the operator together; it takes one tensor and returns
/// one tensor of the same element type.
struct CollectiveOp {
  std::string_view name;       // name of the operator without its dialect, for example "all_reduce"
  Collective pricedAs;         // communication pattern whose cost formula applies to the operator
  bool pricedByResult = false; // whether the cost formula takes the bytes of the result; false: bytes of the operand
  bool keepsShape = true;      // whether the result has the same shape as the operand
};

/// All collective operators. The first operator of each communication pattern gives the pattern its name.
inline constexpr CollectiveOp kCollectiveOps[] = {
    {"all_reduce", Collective::AllReduce},
    {.name = "all_gather", .pricedAs = Collective::AllGather, .pricedByResult = true, .keepsShape = false},
    {.name = "reduce_scatter", .pricedAs = Collective::ReduceScatter, .keepsShape = false},
    {.name = "all_to_all", .pricedAs = Collective::AllToAll, .keepsShape = false},
    {"collective_permute", Collective::Permute},
    {"ring_shift", Collective::Permute},
    {"ring_balance", Collective::Permute},
};

/// Returns the record of the collective operator `name`, or null if `name` is not a collective operator.
constexpr const CollectiveOp *findCollective(std::string_view name) {
  auto found = std::find_if(std::begin(kCollectiveOps), std::end(kCollectiveOps),
                            [&](const CollectiveOp &op) { return op.name == name; });
  return found == std::end(kCollectiveOps) ? nullptr : found;
}

/// Returns the first collective operator that has the communication pattern `pattern`, or null if no operator has it.
constexpr const CollectiveOp *findCollective(Collective pattern) {
  auto found = std::find_if(std::begin(kCollectiveOps), std::end(kCollectiveOps),
                            [&](const CollectiveOp &op) { return op.pricedAs == pattern; });
  return found == std::end(kCollectiveOps) ? nullptr : found;
}

/// Returns the name of the first operator with the communication pattern `collective`, for example "all_reduce";
/// returns "send" for Collective::Send, which has no operator.
constexpr std::string_view toString(Collective collective) {
  const CollectiveOp *op = findCollective(collective);
  return op ? op->name : "send";
}

} // namespace kerf
