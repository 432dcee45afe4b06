// SPDX-License-Identifier: Apache-2.0
// The calls of a collective's plan (Host/Exchanges.h) on NPUs. A collective that HCCL computes with the same result is
// one call of HCCL.
#pragma once

#include "../Host/Exchanges.h"
#include "Hccl.h"

namespace kerf::runtime::ascend {

/// One call of HCCL for a whole collective.
struct NativeCollective {
  enum class Kind { AllReduce, ReduceScatter, AllGather } kind = Kind::AllReduce;
  void *from = nullptr, *to = nullptr;
  uint64_t count = 0; // elements of the result for a reduction; elements of the operand for an all_gather
  int type = 0;       // HcclDataType
  int combine = 0;    // HcclReduceOp of a reduction
};

/// One group of sends and receives, with the calls before and after it.
struct Round {
  std::vector<Call> before, after; // pack, and unpack or add
  std::vector<Message> sends, receives;
};

/// A collective or a bucket of collectives, ready to be bound.
struct NpuExchanges {
  std::vector<Round> rounds;
  std::vector<std::optional<NativeCollective>> native; // for each collective; enqueued in the first round
  std::vector<Members> groups;                         // for each collective
  int64_t scratchBytes = 0;
};

/// Returns the call that computes the collective. Returns nothing where HCCL has no call for it, or where the result
/// would be another: a sum of floating-point numbers if it must be `ordered`, and a maximum or minimum of such numbers,
/// for which HCCL does not say what becomes of NaN.
std::optional<NativeCollective> nativeCollective(const CheckedCollective &collective, bool ordered);

/// Plans a collective or a bucket for this rank. The addresses of the request may be null where only the scratch memory
/// is of interest. Fails as the host's plan does, and where CANN does not add a type.
Result<NpuExchanges> npuExchanges(const CollectiveRequest &request, const CollectiveOptions &options);

} // namespace kerf::runtime::ascend
