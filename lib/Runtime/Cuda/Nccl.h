// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's collective library NCCL that the device uses, with declarations of our own (NCCL's user
// guide documents them), and its communicators.
#pragma once

#include "../Accelerator/GroupCommunicators.h"
#include "Context.h"

namespace kerf::runtime::cuda {

using NcclResult = int; // ncclResult_t; 0 is success
/// The number that the ranks of a communicator share.
struct NcclId {
  char bytes[128];
};

// Numbers of ncclDataType_t and of the version that the device asks for.
inline constexpr int kNcclBytes = 0;      // ncclInt8
inline constexpr int kNcclInProgress = 7; // ncclResult_t of a call that goes on
inline constexpr int kLowestNccl = 21800; // 10000 * major + 100 * minor + patch

#define KERF_NCCL_FUNCTIONS(KERF_NCCL)                                                                                 \
  KERF_NCCL(getVersion, "ncclGetVersion", int *)                                                                       \
  KERF_NCCL(getUniqueId, "ncclGetUniqueId", NcclId *)                                                                  \
  KERF_NCCL(commInitRank, "ncclCommInitRank", void **, int, NcclId, int)                                               \
  KERF_NCCL(commDestroy, "ncclCommDestroy", void *)                                                                    \
  KERF_NCCL(commAbort, "ncclCommAbort", void *)                                                                        \
  KERF_NCCL(commGetAsyncError, "ncclCommGetAsyncError", void *, NcclResult *)                                          \
  KERF_NCCL(send, "ncclSend", const void *, size_t, int, int, void *, DriverStream)                                    \
  KERF_NCCL(recv, "ncclRecv", void *, size_t, int, int, void *, DriverStream)                                          \
  KERF_NCCL(allReduce, "ncclAllReduce", const void *, void *, size_t, int, int, void *, DriverStream)                  \
  KERF_NCCL(reduceScatter, "ncclReduceScatter", const void *, void *, size_t, int, int, void *, DriverStream)          \
  KERF_NCCL(allGather, "ncclAllGather", const void *, void *, size_t, int, void *, DriverStream)                       \
  KERF_NCCL(groupStart, "ncclGroupStart")                                                                              \
  KERF_NCCL(groupEnd, "ncclGroupEnd")

/// The table of NCCL's functions.
struct Nccl {
#define KERF_MEMBER(name, exported, ...) NcclResult (*name)(__VA_ARGS__) = nullptr;
  KERF_NCCL_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  const char *(*getErrorString)(NcclResult) = nullptr;
  int version = 0; // 10000 * major + 100 * minor + patch
};

/// Loads NCCL on the first call. Fails where it is missing or too old.
Result<const Nccl *> loadNccl();

/// Returns the error for a call of NCCL that failed; `what` says what GPU `device` could not do.
Error ncclError(const Nccl &nccl, NcclResult result, int device, std::string_view what);

/// NCCL's communicators of one rank.
class NcclCommunicators {
public:
  NcclCommunicators(std::shared_ptr<Context> context, const Nccl &nccl, Communicator &messages);
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators &) = delete;

  GroupCommunicators groups;

  /// Returns the first error that a communicator has met beside its calls, for example because a rank's process ended.
  std::optional<Error> error() const;
  /// Ends all communication, also that which waits for other ranks. Afterwards no communicator may be used.
  void abort();

private:
  std::shared_ptr<Context> context;
  const Nccl &nccl;
  bool aborted = false;
};

} // namespace kerf::runtime::cuda
