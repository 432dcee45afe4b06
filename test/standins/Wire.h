// SPDX-License-Identifier: Apache-2.0
// The connections of one rank of a communicator whose ranks are in several processes of one machine, for the stand-ins
// of NCCL and HCCL. Every pair of ranks has a Unix socket, whose name in the abstract namespace comes from the
// communicator's unique id. The bytes are copied from the memory of one process to that of the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf::standin {

/// The kind of call that a message belongs to: a send with its receive, or a collective. Each kind has an order of
/// messages of its own.
enum class Channel : uint32_t { Message, Collective };

/// Ends this process as `kill -9` does at the call of this function whose number (from 1) the variable holds.
void killAtCall(const char *variable);

class Wire {
public:
  /// Connects to all other ranks. Returns null if the ranks turn out to be threads of this process (`areAllHere` waits
  /// for the given time and says whether they are), or if they have not come by the deadline.
  static std::unique_ptr<Wire> join(const std::string &name, int ranks, int rank,
                                    const std::function<bool(std::chrono::milliseconds)> &areAllHere,
                                    std::chrono::steady_clock::time_point deadline);
  ~Wire();
  Wire(const Wire &) = delete;

  // These functions are called by one thread at a time. Those that wait return false or nothing once the communicator
  // is aborted. Where a peer has ended, they keep waiting for that, as NCCL does, and `hasLostPeer` tells of it.

  /// Queues bytes for a peer. They must stay until waitUntilWritten. `what` tells apart different calls.
  void send(Channel channel, int peer, uint64_t what, const void *bytes, size_t size);
  /// Waits for the next message of a peer. One of another call or size is a bug of the caller, which NCCL answers with
  /// a hang or with damage: it ends the test.
  std::optional<std::vector<std::byte>> receive(Channel channel, int peer, uint64_t what, size_t size);
  /// Waits until all bytes are on their way, so that the memory of the messages may change.
  bool waitUntilWritten();
  /// Waits until the peers have taken all messages. Each rank calls it behind its last receive, too, so that the
  /// senders learn that their messages were taken.
  bool waitUntilTaken();

  /// Ends all waiting, here and on the peers. Any thread may call it.
  void abort();
  /// Returns whether a peer has ended whose messages are waited for. Any thread may call it.
  bool hasLostPeer() const { return isBroken; }
  /// Asked while these functions wait: true ends the waiting, as `abort` does.
  std::function<bool()> stops = nullptr;

private:
  struct Header {
    uint32_t isTaken = 0; // 1: the receiver has taken a message, and no bytes follow
    Channel channel = Channel::Message;
    uint64_t what = 0, size = 0;
  };
  struct Outgoing {
    Header header;
    const std::byte *bytes = nullptr;
    size_t done = 0; // bytes that were written, header included
  };
  struct Arrived {
    Header header;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    int socket = -1;
    bool ended = false;
    std::deque<Outgoing> outgoing;
    int64_t untaken = 0;            // messages that the peer has not taken
    Arrived arriving;               // the message that is being read
    size_t done = 0;                // bytes of it that were read, header included
    std::deque<Arrived> arrived[2]; // by channel
  };

  explicit Wire(int ranks) : peers(size_t(ranks)) {}
  static void write(Peer &peer);
  static void read(Peer &peer);
  /// Moves bytes until `isDone` holds, where `needs` says which peers it waits for. Returns false if aborted.
  bool moveUntil(const std::function<bool()> &isDone, const std::function<bool(const Peer &)> &needs);

  std::vector<Peer> peers; // by rank; the rank itself has no socket
  std::atomic<bool> aborted = false;
  std::atomic<bool> isBroken = false;
};

} // namespace kerf::standin
