// SPDX-License-Identifier: Apache-2.0
// The functions of Huawei's collective library HCCL that the device uses, with declarations of our own (CANN's "HCCL
// API (C)" documents them), and its communicators.
#pragma once

#include "../Accelerator/GroupCommunicators.h"
#include "Context.h"
#include <map>
#include <set>

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

/// HCCL's communicators of one rank.
class HcclCommunicators {
public:
  HcclCommunicators(std::shared_ptr<Context> context, const Hccl &hccl, Communicator &messages);
  ~HcclCommunicators();
  HcclCommunicators(const HcclCommunicators &) = delete;

  GroupCommunicators groups;

  /// Prepares a call on a stream, and returns the communicator. HCCL does not order the calls of a communicator on
  /// different streams, so that the stream waits for the last call on another one. Fails if the communicator cannot be
  /// made, or if another rank fails meanwhile.
  Result<HcclCommunicator> enter(const GroupCommunicators::Handle &handle, AscendStream &on);
  /// To be called after the calls on the stream.
  Status leave(HcclCommunicator communicator, AscendStream &on);
  /// Returns the first error that a communicator has met beside its calls, or a stream of its calls. The streams
  /// must exist.
  std::optional<Error> error() const;
  /// Ends the use of all communicators. HCCL cannot end one whose ranks are gone, so that they are left as they are.
  void abandon() { isAbandoned = true; }

private:
  /// The place of a communicator's last call.
  struct LastCall {
    AclEvent done = nullptr;    // recorded behind the call
    AclStream stream = nullptr; // of the call
    int64_t capture = 0;        // Context::captures at the call
  };
  std::shared_ptr<Context> context;
  const Hccl &hccl;
  Communicator &messages;
  bool isAbandoned = false;
  std::map<HcclCommunicator, LastCall> lastCalls;
  std::set<AclStream> streams; // of all calls
};

} // namespace kerf::runtime::ascend
