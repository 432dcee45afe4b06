// SPDX-License-Identifier: Apache-2.0
// The ranks of the stand-in of libhccl.so: threads of one process, or several processes (Wire.h). Messages between two
// ranks are matched by their order, and a send ends when its receive has taken the bytes.
#pragma once

#include "../Wire.h"
#include "State.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace kerf::standin::cann {

/// Errors of HcclResult.
constexpr int kBadArgument = 1, kTimeout = 9, kRemote = 21;

/// One message of a group, HcclSendRecvItem.
struct Item {
  int kind; // 0 sends, 1 receives
  void *data;
  uint64_t count;
  int type;
  uint32_t peer;
};

/// A collective that the ranks of a communicator are in.
struct Round {
  std::vector<const std::byte *> inputs; // by rank
  std::string what;                      // of the rank that came first
  uint32_t arrived = 0, done = 0;
};
struct Message {
  const std::byte *data = nullptr;
  size_t bytes = 0;
  bool isTaken = false;
};
/// The state that all ranks of one communicator share.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t ranks = 0, joined = 0;
  std::map<uint64_t, std::shared_ptr<Round>> rounds;                                      // by number of the collective
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::shared_ptr<Message>>> messages; // by sender and receiver

  /// Waits for a condition; returns whether it holds, and not the stream aborted.
  template <typename F> bool waitFor(std::unique_lock<std::mutex> &lock, F holds) {
    while (!changed.wait_for(lock, std::chrono::milliseconds(20), holds))
      if (isAborted())
        return false;
    return true;
  }
};
struct Communicator {
  std::shared_ptr<Group> group; // shared with no other rank if there is a wire
  std::unique_ptr<Wire> wire;   // null if all ranks are threads of this process
  uint32_t rank = 0;
  int device = 0;
  uint64_t collectives = 0; // of this rank, guarded by the group's mutex
  bool isRunning = false;   // an operation
};

/// Returns the bytes of an element of a HcclDataType; 0 for no such type.
size_t widthOf(int type);

/// Enqueues an operation of a communicator.
int enqueueOn(Communicator *self, const char *name, void *stream, std::function<int()> work);

/// Returns a rank's result from the operands of all ranks.
using Compute = std::function<std::vector<std::byte>(const std::vector<const std::byte *> &)>;
/// Runs a collective on the stream: waits for the operands of all ranks, and writes this rank's result to `to`. All
/// ranks must run the same one, which `what` tells.
int runCollective(Communicator *self, const std::string &what, const std::byte *input, size_t bytes,
                  const Compute &compute, std::byte *to);
/// Runs a group of sends and receives on the stream.
int runMessages(Communicator *self, const std::vector<Item> &items);

} // namespace kerf::standin::cann
