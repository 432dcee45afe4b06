// SPDX-License-Identifier: Apache-2.0
// The records of collective operators, which lib/Support/Collectives.cpp has. The package checker, the cost model and
// the compiler passes all read these records; docs/adding-a-collective.md shows how to add one.
#pragma once

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

/// Returns the record of the collective operator `name`, or null if `name` is not a collective operator.
const CollectiveOp *findCollective(std::string_view name);

/// Returns the first collective operator, in the order of the records, that has the communication pattern `pattern`, or
/// null if no operator has it.
const CollectiveOp *findCollective(Collective pattern);

/// Returns the name of the first operator with the communication pattern `collective`, for example "all_reduce";
/// returns "send" for Collective::Send, which has no operator.
std::string_view toString(Collective collective);

} // namespace kerf
