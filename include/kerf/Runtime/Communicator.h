// SPDX-License-Identifier: Apache-2.0
// Messages between ranks. Collectives are written once over these few calls (Collectives.h), so that every communicator
// adds in the same order and gives the same bits. Calls block, never spin: more ranks than cores is normal. All may be
// called by several threads (streams) of a rank at once; messages match by (sender, tag), in the order in which they
// were sent.
#pragma once

#include "kerf/Support/Result.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kerf::runtime {

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Room for so many messages under way from this rank, and as many to it: within it, sending and receiving allocate
  /// nothing.
  virtual void reserve(size_t messages) = 0;

  /// Begins to send. The bytes must stay as they are until `finishSends` of the tag has returned, with or without
  /// success.
  virtual Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) = 0;
  /// Waits until every send of this rank under `tag` has left its buffer.
  virtual Status finishSends(int64_t tag) = 0;
  /// Waits for the message; its size must be that of `bytes`.
  virtual Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) = 0;

  /// Ends every rank: calls under way and to come fail with this message (threads), or the job ends with it on standard
  /// error (MPI).
  virtual void abort(const Error &error) = 0;
  /// What the ranks were ended with, if they were.
  virtual std::optional<Error> failure() const = 0;
  /// The largest tag.
  virtual int64_t maxTag() const = 0;
};

/// A link slower than memory. What a rank sends passes one message after the other, whatever the receiver does, and
/// arrives `latencySeconds` after its last byte has passed. Nobody computes meanwhile: a wait for it takes no core.
struct EmulatedLink {
  double bytesPerSecond = 0, latencySeconds = 0;
};

/// Ranks as threads of this process; element r is for the thread of rank r.
std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(int64_t ranks,
                                                                     const std::optional<EmulatedLink> &link = {});

/// True in a process that mpirun or srun started.
bool launchedByMpi();
/// The ranks of MPI_COMM_WORLD. Initializes MPI; the destructor finalizes it. Once a process.
Result<std::unique_ptr<Communicator>> createMpiCommunicator();

/// Every rank calls it with its own status; all get the error of the lowest rank that has one ("rank 2: ..." unless all
/// say the same). For what each rank checks by itself, before steps begin. Tag 0 and 1.
Status agree(Communicator &communicator, const Status &status);

/// Tags from here on are free for the collectives of a program.
inline constexpr int64_t kFirstCollectiveTag = 4;

} // namespace kerf::runtime
