// SPDX-License-Identifier: Apache-2.0
// Collectives and point-to-point messages of a device: they are bound once to tensors in the device's memory, then
// launched on the device's streams. Data that ranks exchange in host memory (flags, checksums, results for files) goes
// over a Communicator instead.
#pragma once

#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// The requirements of a caller on the collectives that Device::createCollectives returns.
struct CollectiveOptions {
  /// Whether sums must be added in the order of the ranks' positions in the process group. The bits of a sum then
  /// depend on nothing but its operands.
  bool ordered = false;
  /// The bytes that a collective may hold in scratch memory for what it receives, on a device that exchanges large
  /// tensors piece by piece. The pieces that it packs and sends take at most as much again.
  int64_t receivedBytes = int64_t(64) << 20;
};

/// One collective to bind, or a bucket of several collectives that run as one. In a bucket every collective's messages
/// are sent before any is waited for, so the bucket pays the latency of a link once. All ranks must bind the same
/// collectives in the same order.
struct CollectiveRequest {
  /// The first collective's instruction, and one operand and one result for each collective of the bucket. `bind.rank`
  /// is a rank of the whole mesh, microbatch axes included.
  KernelRequest bind;
  /// The first of the two message tags, `tag` and `tag + 1`, that only this collective uses.
  int64_t tag = 0;
  /// Instructions of the bucket's collectives after the first; empty for a single collective.
  std::vector<const package::Instruction *> others = {};
};

/// One side (sending or receiving) of a message between two ranks. Both sides name the same tag.
struct MessageRequest {
  TensorView tensor;   // the tensor that is sent, or the tensor that receives the data
  int64_t peer = 0;    // number of the rank at the other end of the message
  int64_t tag = 0;     // tag of the message, which distinguishes messages between the same two ranks
  int64_t number = -1; // index of the instruction in the rank's flat program, for faults (Fault::number)
  const package::Instruction *instruction = nullptr; // the instruction that sends or receives, for error messages
};

/// Binds a rank's collectives and messages to device memory. Device::createCollectives makes one.
class CollectiveBackend {
public:
  virtual ~CollectiveBackend() = default;
  /// Returns whether sums are added in the order that CollectiveOptions::ordered describes. True is also allowed where
  /// the caller did not require that order.
  virtual bool ordered() const = 0;
  /// Reserves room for `messages` messages in flight from this rank, and as many in flight to this rank.
  virtual void reserve(size_t messages) = 0;

  /// Binds a collective or a bucket. Fails if an attribute, type or shape is wrong or the tag is too large.
  virtual Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) = 0;
  /// Binds the start of a send. Later work on the stream does not wait for the receiver. The tensor must not change
  /// until the kernel that `bindSent` returns for the same request has run.
  virtual Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) = 0;
  /// Binds the wait for a send: later work on the stream runs once the message has left its tensor.
  virtual Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) = 0;
  /// Binds a receive: later work on the stream runs once the message is in the tensor.
  virtual Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) = 0;
};

/// The largest number of messages that one collective has in flight to each peer. A bucket of n collectives has up to n
/// times as many.
inline constexpr size_t kMessagesToPeer = 2;

} // namespace kerf::runtime
