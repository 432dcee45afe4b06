// SPDX-License-Identifier: Apache-2.0
// The calls of a collective's plan (Host/Exchanges.h) on NPUs. A collective that HCCL computes with the same result is
// one call of HCCL.
#pragma once

#include "../Host/NativeCollective.h"
#include "Hccl.h"

namespace kerf::runtime::ascend {

/// The element types that HCCL adds on all NPUs, with their numbers in HcclDataType.
inline constexpr LibraryNumbers::Type kHcclTypes[] = {
    {DType::I8, 0, false}, {DType::I32, 2, false}, {DType::F16, 3, true},
    {DType::F32, 4, true}, {DType::I64, 5, false}, {DType::BF16, 11, true},
};
/// The ways to combine elements, with their numbers in HcclReduceOp.
inline constexpr LibraryNumbers::Combine kHcclCombines[] = {{"sum", 0}, {"max", 2}, {"min", 3}};

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

/// Plans a collective or a bucket for this rank. The addresses of the request may be null where only the scratch memory
/// is of interest. Fails as the host's plan does, and where CANN does not add a type.
Result<NpuExchanges> npuExchanges(const CollectiveRequest &request, const CollectiveOptions &options);

} // namespace kerf::runtime::ascend
