// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of a device, bound to its memory and launched on its streams. Ranks that only tell each
// other something (flags, checksums, results for files) do so over a Communicator.
#pragma once

#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

struct CollectiveOptions {
  /// Sums are added in order of position in the group, so their bits depend on nothing but the operands.
  bool ordered = false;
};

/// One collective, or several that are one: `bind` then has an operand and a result of each, and `others` the
/// instructions after the first. What can be sent is sent before anything is waited for, so that they pay a link's
/// latency once. All ranks bind the same ones in the same order. `bind.rank` is a rank of the whole mesh, microbatches
/// included. The collective has the tags `tag` and `tag + 1` for itself.
struct CollectiveRequest {
  KernelRequest bind;
  int64_t tag = 0;
  std::vector<const package::Instruction *> others = {};
};

/// One side of a message from one rank to another, both of which name its tag.
struct MessageRequest {
  TensorView tensor;
  int64_t peer = 0, tag = 0;
  int64_t number = -1; // of the instruction
  const package::Instruction *instruction = nullptr;
};

class CollectiveBackend {
public:
  virtual ~CollectiveBackend() = default;
  /// Returns whether sums are added as CollectiveOptions::ordered says, whether that was asked for or not.
  virtual bool ordered() const = 0;
  /// Makes room for so many messages under way from this rank, and as many to it.
  virtual void reserve(size_t messages) = 0;

  virtual Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) = 0;
  /// Sends; later work of the stream does not wait for the receiver. The tensor must stay as it is until `bindSent` of
  /// the same request has run.
  virtual Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) = 0;
  /// Later work of the stream runs when the message has left its tensor.
  virtual Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) = 0;
  virtual Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) = 0;
};

/// A collective has at most so many messages to each peer under way; several as one so many times more.
inline constexpr size_t kMessagesToPeer = 2;

} // namespace kerf::runtime
