// SPDX-License-Identifier: Apache-2.0
// The collectives, one record each: what the package checks, the cost model prices and the passes read of them.
// docs/adding-a-collective.md adds one.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace kerf {

/// Ways in which ranks exchange data, each with a price of its own (kerf/CostModel/Collectives.h).
enum class Collective { AllReduce, AllGather, ReduceScatter, AllToAll, Permute, Send };

/// An operator that one group of ranks runs together. It takes one tensor and gives one of the same element type.
struct CollectiveOp {
  std::string_view name;
  Collective price;            // of what it is priced
  bool pricedByResult = false; // by the bytes of its result; false: of its operand
  bool keepsShape = true;      // the result has the operand's shape
};

inline constexpr CollectiveOp kCollectiveOps[] = {
    {"all_reduce", Collective::AllReduce},
    {.name = "all_gather", .price = Collective::AllGather, .pricedByResult = true, .keepsShape = false},
    {.name = "reduce_scatter", .price = Collective::ReduceScatter, .keepsShape = false},
    {.name = "all_to_all", .price = Collective::AllToAll, .keepsShape = false},
    {"collective_permute", Collective::Permute},
    {"ring_shift", Collective::Permute},
    {"ring_balance", Collective::Permute},
};

/// Returns the record of an operator, or null where it is no collective.
constexpr const CollectiveOp *findCollective(std::string_view name) {
  auto found = std::find_if(std::begin(kCollectiveOps), std::end(kCollectiveOps),
                            [&](const CollectiveOp &op) { return op.name == name; });
  return found == std::end(kCollectiveOps) ? nullptr : found;
}

/// Returns the first record that is priced so, or null.
constexpr const CollectiveOp *findCollective(Collective price) {
  auto found = std::find_if(std::begin(kCollectiveOps), std::end(kCollectiveOps),
                            [&](const CollectiveOp &op) { return op.price == price; });
  return found == std::end(kCollectiveOps) ? nullptr : found;
}

/// The name of the first operator that is priced so; "send" for messages between stages.
constexpr std::string_view toString(Collective collective) {
  const CollectiveOp *op = findCollective(collective);
  return op ? op->name : "send";
}

} // namespace kerf
