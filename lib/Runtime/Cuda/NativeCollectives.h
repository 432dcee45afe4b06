// SPDX-License-Identifier: Apache-2.0
// Collectives that NCCL computes with one call, instead of sends, receives and a sum in the order of the ranks.
#pragma once

#include "../Host/Exchanges.h"
#include "Nccl.h"

namespace kerf::runtime::cuda {

/// One call of NCCL for a whole collective.
struct NativeCollective {
  enum class Kind { AllReduce, ReduceScatter, AllGather } kind = Kind::AllReduce;
  const void *from = nullptr;
  void *to = nullptr;
  size_t count = 0; // elements of the result for a reduction; elements of the operand for an all_gather
  int type = 0;     // ncclDataType_t
  int combine = 0;  // ncclRedOp_t of a reduction
};

/// Returns the call that computes the collective. Returns nothing where NCCL has no call for it, or where the result
/// would be another: a sum of floating-point numbers if it must be `ordered`, and a maximum or minimum of such numbers,
/// for which NCCL does not say what becomes of NaN.
std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, bool ordered);
/// Enqueues the call.
NcclResult enqueue(const Nccl &nccl, const NativeCollective &native, void *communicator, DriverStream stream);

} // namespace kerf::runtime::cuda
