// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages between ranks, in host memory. Collectives in host memory are written once over this
// interface, so every communicator adds in the same order and gives the same bits. Calls block and never spin, because
// more ranks than processor cores is normal. Several threads (streams) of a rank may make calls at the same time. A
// receive matches a message by (sender, tag), in the order in which the messages were sent.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kerf::runtime {

/// One rank's endpoint for messages to and from all other ranks of a run.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// Returns the number of this rank, from 0.
  virtual int64_t rank() const = 0;
  /// Returns the number of ranks.
  virtual int64_t size() const = 0;

  /// Reserves room for `messages` messages in flight from this rank, and as many in flight to this rank. Up to this
  /// number, sending and receiving allocate nothing.
  virtual void reserve(size_t messages) = 0;

  /// Starts to send `bytes` to rank `to`. The bytes must not change or be freed until `finishSends(tag)` has returned,
  /// whether that call succeeds or fails.
  virtual Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) = 0;
  /// Starts to send like `startSend`, but may hold a small message back until `releaseSends`, so that messages to one
  /// rank leave together. A communicator for which this saves nothing sends at once.
  virtual Status holdSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) {
    return startSend(bytes, to, tag);
  }
  /// Sends what is held back. A thread has to call it before it waits for any message.
  virtual void releaseSends() {}
  /// Waits until every message that this rank has sent under `tag` has left its buffer.
  virtual Status finishSends(int64_t tag) = 0;
  /// Waits for a message from rank `from` under `tag`, and copies it to `bytes`. Fails if the message has another
  /// size than `bytes`.
  virtual Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) = 0;

  /// Ends the run on every rank. With threads and over TCP, all present and later calls fail with `error`. With MPI,
  /// the job ends and prints `error` to standard error.
  virtual void abort(const Error &error) = 0;
  /// Returns the error that ended the run (see `abort`), or nothing while the run goes on.
  virtual std::optional<Error> failure() const = 0;
  /// Returns the largest tag that a message may have.
  virtual int64_t maxTag() const = 0;
  /// Returns whether this rank is the one that tells the user about an error of all ranks.
  virtual bool tellsErrors() const { return rank() == 0; }
};

/// A simulated link between ranks that is slower than memory. Each rank's messages pass the link one after the other,
/// whether or not the receiver is ready. A message arrives `latencySeconds` after its last byte has passed. Waiting for
/// the link uses no processor core.
struct EmulatedLink {
  double bytesPerSecond = 0; // bandwidth of each rank's outgoing link
  double latencySeconds = 0; // seconds from a message's last byte on the link to its arrival
};

/// Creates the communicators of `ranks` ranks that are threads of this process. Element r of the result is for the
/// thread of rank r. With `link`, messages are delayed as on that link.
std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(int64_t ranks,
                                                                     const std::optional<EmulatedLink> &link = {});

/// Returns whether mpirun or srun started this process.
bool launchedByMpi();
/// Initializes MPI and creates a communicator over MPI_COMM_WORLD, whose destructor finalizes MPI. May be called
/// once per process.
Result<std::unique_ptr<Communicator>> createMpiCommunicator();

/// How this process was started as one of several ranks that connect to each other over TCP.
struct TcpLaunch {
  int64_t rank = 0, ranks = 1; // number of this rank, and number of ranks
  std::string address;         // name or IP address of the machine of rank 0
  int port = 0;                // port at which rank 0 listens
  std::string secret;          // only processes with the same secret are let in
  double joinSeconds = 300;    // time that the ranks have to find each other
};

/// Returns how torchrun, srun or a script started this process as one of several ranks without MPI, from its
/// environment (docs/several-nodes.md); nothing if it was started alone or by MPI. Fails if variables are missing or
/// contradict each other.
Result<std::optional<TcpLaunch>> tcpLaunch();
/// Returns whether this process is one of several that a launcher started, each of which is a rank.
bool launchedAsRank();
/// Returns the number of this rank among the ranks of its machine, as the launcher gives it. Ranks that are threads are
/// on one machine.
Result<int64_t> rankOnMachine(int64_t rank);

/// Connects this process with the other ranks of the run, and creates their communicator. Waits for all of them, and
/// calls `note` with what the user should know meanwhile.
Result<std::unique_ptr<Communicator>> createTcpCommunicator(const TcpLaunch &launch,
                                                            const std::function<void(const std::string &)> &note);

/// Combines the statuses of all ranks, each of which passes its own. Returns on every rank the error of the lowest rank
/// that has one, or success. The message begins with "rank N: " unless all ranks have the same error. Used for checks
/// that each rank makes by itself, at the same point of the run. Uses the tags 0 and 1.
Status agree(Communicator &communicator, const Status &status);

/// The first tag that a program's transfers and collectives may use; smaller tags belong to the runtime.
inline constexpr int64_t kFirstCollectiveTag = 4;

} // namespace kerf::runtime
