// SPDX-License-Identifier: Apache-2.0
// The functions of Huawei's collective library HCCL that the device uses, with declarations of our own (CANN's "HCCL
// API (C)" documents them), and its communicators.
#pragma once

#include "Context.h"
#include "kerf/Runtime/Communicator.h"
#include <future>
#include <map>

namespace kerf::runtime::ascend {

using HcclResult = int; // 0 is success
using HcclCommunicator = void *;
/// The bytes that the ranks of a communicator share.
struct HcclRootInfo {
  char bytes[4108];
};
/// One message of a group, HcclSendRecvItem.
struct HcclItem {
  int kind; // kSendItem or kReceiveItem
  void *data;
  uint64_t count;
  int type;
  uint32_t peer;
};
/// The value of a setting, HcclConfigValue.
struct HcclValue {
  int32_t value;
};

// Numbers of HCCL's enumerations that the device uses.
inline constexpr int kHcclBytes = 0; // HCCL_DATA_TYPE_INT8
inline constexpr int kSendItem = 0, kReceiveItem = 1;
inline constexpr int kHcclDeterministic = 0; // HcclConfig

#define KERF_HCCL_FUNCTIONS(KERF_HCCL)                                                                                 \
  KERF_HCCL(getRootInfo, "HcclGetRootInfo", HcclRootInfo *)                                                            \
  KERF_HCCL(commInitRootInfo, "HcclCommInitRootInfo", uint32_t, const HcclRootInfo *, uint32_t, HcclCommunicator *)    \
  KERF_HCCL(commDestroy, "HcclCommDestroy", HcclCommunicator)                                                          \
  KERF_HCCL(getCommAsyncError, "HcclGetCommAsyncError", HcclCommunicator, HcclResult *)                                \
  KERF_HCCL(setConfig, "HcclSetConfig", int, HcclValue)                                                                \
  KERF_HCCL(allReduce, "HcclAllReduce", void *, void *, uint64_t, int, int, HcclCommunicator, AclStream)               \
  KERF_HCCL(allGather, "HcclAllGather", void *, void *, uint64_t, int, HcclCommunicator, AclStream)                    \
  KERF_HCCL(reduceScatter, "HcclReduceScatter", void *, void *, uint64_t, int, int, HcclCommunicator, AclStream)       \
  KERF_HCCL(send, "HcclSend", void *, uint64_t, int, uint32_t, HcclCommunicator, AclStream)                            \
  KERF_HCCL(recv, "HcclRecv", void *, uint64_t, int, uint32_t, HcclCommunicator, AclStream)                            \
  KERF_HCCL(batchSendRecv, "HcclBatchSendRecv", HcclItem *, uint32_t, HcclCommunicator, AclStream)

/// The table of HCCL's functions.
struct Hccl {
#define KERF_MEMBER(name, exported, ...) HcclResult (*name)(__VA_ARGS__) = nullptr;
  KERF_HCCL_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  const char *(*getErrorString)(HcclResult) = nullptr;
};

/// Loads HCCL on the first call. Fails where the library or one of the functions is missing.
Result<const Hccl *> loadHccl();

/// Returns the error for a call of HCCL that failed; `what` says what the NPU could not do.
Error hcclError(const Hccl &hccl, const Context &context, HcclResult result, std::string_view what);

/// HCCL's communicators of one rank. Making one waits for all of its ranks, so a thread makes it, and the first launch
/// waits for the thread.
class HcclCommunicators {
public:
  HcclCommunicators(std::shared_ptr<Context> context, const Hccl &hccl, Communicator &messages)
      : context(std::move(context)), hccl(hccl), messages(messages) {}
  ~HcclCommunicators();
  HcclCommunicators(const HcclCommunicators &) = delete;

  using Handle = std::shared_future<Result<HcclCommunicator>>;
  /// A communicator, and the place of its last call.
  struct Member {
    Handle handle;
    AclEvent done = nullptr;    // recorded behind the last call; null before the first one
    AclStream stream = nullptr; // of the last call
    int64_t capture = 0;        // Context::captures at the last call
  };
  using MemberOf = std::shared_ptr<Member>;
  /// Returns the communicator of a process group's ranks, in their order. All of them must ask for it, first with the
  /// same `tag`, under which no other host message is sent.
  Result<MemberOf> ofGroup(const std::vector<int64_t> &members, int64_t tag);
  /// Returns the communicator for the messages of one tag from rank `from`, its rank 0, to rank `to`; this rank is one
  /// of them. HCCL matches messages by their order alone, so each tag has a communicator of its own.
  Result<MemberOf> ofMessage(int64_t from, int64_t to, int64_t tag);
  /// Prepares a call on a stream, and returns the communicator. HCCL does not order the calls of a communicator on
  /// different streams, so that the stream waits for the last call on another one. Fails if the communicator cannot be
  /// made, or if another rank fails meanwhile.
  Result<HcclCommunicator> enter(Member &member, AscendStream &on) const;
  /// To be called after the calls on the stream.
  Status leave(Member &member, AscendStream &on) const;
  /// Returns the first error that a communicator has met beside its calls.
  std::optional<Error> error();
  /// Ends the use of all communicators. HCCL cannot end one whose ranks are gone, so that they are left as they are.
  void abandon() { isAbandoned = true; }

private:
  /// Waits until the communicator of a handle is made.
  Status waitFor(const Handle &handle) const;
  /// Calls visit(communicator) for each communicator that is made.
  template <typename F> void each(F visit);
  /// The rank that makes a communicator's root information, and the tag under which it sends it.
  struct From {
    int64_t rank, tag;
  };
  Result<std::shared_ptr<HcclRootInfo>> newRoot() const;
  Status sendRoot(const std::shared_ptr<HcclRootInfo> &root, int64_t to, int64_t tag);
  /// Starts the thread that makes a communicator. Without a root information, the thread receives it first, when
  /// `after` is ready. The thread that binds must not wait for another rank: that rank may have failed meanwhile, and
  /// the ranks agree on that after all of them have bound their programs.
  MemberOf start(std::shared_ptr<HcclRootInfo> root, From from, uint32_t ranks, uint32_t rank,
                 std::shared_future<void> after = {});
  /// A communicator that a thread makes. The thread uses `messages` until it has the root information.
  struct Making {
    std::shared_future<void> hasRoot;
    MemberOf member;
  };
  std::shared_ptr<Context> context;
  const Hccl &hccl;
  Communicator &messages;
  bool isAbandoned = false;
  std::map<std::vector<int64_t>, MemberOf> groups;
  std::shared_future<void> lastGroupHasRoot; // groups of a bucket have one tag: their root information comes in order
  std::map<std::tuple<int64_t, int64_t, int64_t>, MemberOf> pairs; // by sender, receiver and tag
  std::vector<Making> makings;                                     // all communicators
  std::vector<std::shared_ptr<HcclRootInfo>> sentRoots;            // whose messages may still be on their way
};

} // namespace kerf::runtime::ascend
