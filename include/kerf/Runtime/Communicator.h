// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages between ranks, in host memory. Collectives in host memory are written once over this
// interface, so every communicator adds in the same order and gives the same bits. Calls block and never spin, because
// more ranks than processor cores is normal. Several threads (streams) of a rank may make calls at the same time. A
// receive matches a message by (sender, tag), in the order in which the messages were sent.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  /// Waits until every message that this rank has sent under `tag` has left its buffer.
  virtual Status finishSends(int64_t tag) = 0;
  /// Waits for a message from rank `from` under `tag`, and copies it to `bytes`. Fails if the message has another
  /// size than `bytes`.
  virtual Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) = 0;

  /// Ends the run on every rank. With threads, all present and later calls fail with `error`. With MPI, the job ends
  /// and prints `error` to standard error.
  virtual void abort(const Error &error) = 0;
  /// Returns the error that ended the run (see `abort`), or nothing while the run goes on.
  virtual std::optional<Error> failure() const = 0;
  /// Returns the largest tag that a message may have.
  virtual int64_t maxTag() const = 0;
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

/// Combines the statuses of all ranks, each of which passes its own. Returns on every rank the error of the lowest rank
/// that has one, or success. The message begins with "rank N: " unless all ranks have the same error. Used for checks
/// that each rank makes by itself, at the same point of the run. Uses the tags 0 and 1.
Status agree(Communicator &communicator, const Status &status);

/// The first tag that a program's transfers and collectives may use; smaller tags belong to the runtime.
inline constexpr int64_t kFirstCollectiveTag = 4;

} // namespace kerf::runtime
