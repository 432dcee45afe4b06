// SPDX-License-Identifier: Apache-2.0
#include "StepControl.h"

#include <csignal>
#include <span>

namespace kerf::runtime {

namespace {
Status receiveFlags(Communicator &communicator, uint64_t &flags, int64_t from, int64_t tag) {
  return communicator.receive(std::as_writable_bytes(std::span(&flags, 1)), from, tag);
}

Status sendFlags(Communicator &communicator, const uint64_t &flags, int64_t to, int64_t tag) {
  return communicator.startSend(std::as_bytes(std::span(&flags, 1)), to, tag);
}

/// Sends all ranks' flags to rank 0, and the result back to all ranks. The caller must keep `flags` in place and wait
/// for the sends.
Status exchange(Communicator &communicator, uint64_t &flags, int64_t tag) {
  if (communicator.rank() != 0) {
    if (Status sent = sendFlags(communicator, flags, 0, tag); !sent)
      return sent;
    return communicator.finishSends(tag);
  }
  for (int64_t peer = 1; peer < communicator.size(); ++peer) {
    uint64_t theirs = 0;
    if (Status received = receiveFlags(communicator, theirs, peer, tag); !received)
      return received;
    flags |= theirs;
  }
  for (int64_t peer = 1; peer < communicator.size(); ++peer)
    if (Status sent = sendFlags(communicator, flags, peer, tag); !sent)
      return sent;
  return ok();
}
} // namespace

Result<uint64_t> combineFlags(Communicator &communicator, uint64_t flags, int64_t tag) {
  if (communicator.size() == 1)
    return flags;
  Status exchanged = exchange(communicator, flags, tag);
  if (Status sent = communicator.finishSends(tag); !sent && exchanged)
    exchanged = sent;
  if (exchanged && communicator.rank() != 0)
    exchanged = receiveFlags(communicator, flags, 0, tag);
  if (!exchanged)
    return exchanged.error();
  return flags;
}

uint64_t flagOfSignal(int signal) {
  return signal == SIGTERM ? kTerminatedFlag : signal == SIGINT ? kInterruptedFlag : 0;
}

int signalOfFlags(uint64_t flags) { return flags & kTerminatedFlag ? SIGTERM : flags & kInterruptedFlag ? SIGINT : 0; }

} // namespace kerf::runtime
