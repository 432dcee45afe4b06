// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's collective library NCCL that the device uses, with declarations of our own (NCCL's user
// guide documents them), and its communicators.
#pragma once

#include "Context.h"
#include "kerf/Runtime/Communicator.h"
#include <future>
#include <map>

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

/// NCCL's communicators of one rank. Making one waits for all of its ranks, so a thread makes it, and the first launch
/// waits for the thread.
class NcclCommunicators {
public:
  NcclCommunicators(std::shared_ptr<Context> context, const Nccl &nccl, Communicator &messages)
      : context(std::move(context)), nccl(nccl), messages(messages) {}
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators &) = delete;

  using Handle = std::shared_future<Result<void *>>;
  /// Returns the communicator of a process group's ranks, in their order. All of them must ask for it, first with the
  /// same `tag`, under which no other host message is sent.
  Result<Handle> ofGroup(const std::vector<int64_t> &members, int64_t tag);
  /// Returns the communicator for the messages of one tag from rank `from`, its rank 0, to rank `to`; this rank is one
  /// of them. NCCL matches messages by their order alone, so each tag has a communicator of its own.
  Result<Handle> ofMessage(int64_t from, int64_t to, int64_t tag);
  /// Waits until the communicator of a handle is made. Fails if it cannot be made, or if another rank fails meanwhile.
  Status waitFor(const Handle &handle) const;
  /// Returns the first error that a communicator has met beside its calls, for example because a rank's process ended.
  std::optional<Error> error();
  /// Ends all communication, also that which waits for other ranks. Afterwards no communicator may be used.
  void abort();

private:
  /// Calls visit(communicator) for each communicator that is made.
  template <typename F> void each(F visit);
  /// The rank that makes a communicator's number, and the tag under which it sends the number.
  struct From {
    int64_t rank, tag;
  };
  Result<NcclId> newId() const;
  Status sendId(const NcclId &id, int64_t to, int64_t tag);
  /// Starts the thread that makes a communicator. Without an id, the thread receives it first, when `after` is ready.
  /// The thread that binds must not wait for another rank: that rank may have failed meanwhile, and the ranks agree on
  /// that after all of them have bound their programs.
  Handle start(std::optional<NcclId> id, From from, int ranks, int rank, std::shared_future<void> after = {});
  /// A communicator that a thread makes. The thread uses `messages` until it has the communicator's number.
  struct Making {
    std::shared_future<void> hasNumber;
    Handle handle;
  };
  std::shared_ptr<Context> context;
  const Nccl &nccl;
  Communicator &messages;
  bool aborted = false;
  std::map<std::vector<int64_t>, Handle> groups;
  std::shared_future<void> lastGroupHasNumber; // groups of a bucket have one tag: their numbers come in order
  std::map<std::tuple<int64_t, int64_t, int64_t>, Handle> pairs; // by sender, receiver and tag
  std::vector<Making> makings;                                   // all communicators
  std::vector<std::shared_ptr<NcclId>> sentIds;                  // numbers whose messages may still be on their way
};

} // namespace kerf::runtime::cuda
