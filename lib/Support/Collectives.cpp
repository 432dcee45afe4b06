// SPDX-License-Identifier: Apache-2.0
// The records of the collective operators.
#include "kerf/Support/Collectives.h"

#include <algorithm>
#include <iterator>

namespace kerf {

namespace {
// The first operator of each communication pattern gives the pattern its name.
constexpr CollectiveOp kOps[] = {
    {"all_reduce", Collective::AllReduce},
    {.name = "all_gather", .pricedAs = Collective::AllGather, .pricedByResult = true, .keepsShape = false},
    {.name = "reduce_scatter", .pricedAs = Collective::ReduceScatter, .keepsShape = false},
    {.name = "all_to_all", .pricedAs = Collective::AllToAll, .keepsShape = false},
    {"collective_permute", Collective::Permute},
    {"ring_shift", Collective::Permute},
    {"ring_balance", Collective::Permute},
};

/// Returns the first record for which `holds` is true, or null.
template <typename Holds> const CollectiveOp *firstOf(Holds holds) {
  auto found = std::find_if(std::begin(kOps), std::end(kOps), holds);
  return found == std::end(kOps) ? nullptr : found;
}
} // namespace

const CollectiveOp *findCollective(std::string_view name) {
  return firstOf([&](const CollectiveOp &op) { return op.name == name; });
}

const CollectiveOp *findCollective(Collective pattern) {
  return firstOf([&](const CollectiveOp &op) { return op.pricedAs == pattern; });
}

std::string_view toString(Collective collective) {
  const CollectiveOp *op = findCollective(collective);
  return op ? op->name : "send";
}

} // namespace kerf
