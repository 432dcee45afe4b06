// SPDX-License-Identifier: Apache-2.0
// What collectives do each step: a stage sends one box to each peer, receives one from each, and either places what it
// received or combines it in order of position.
#pragma once

#include "../Box.h"
#include "Reduce.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Kernels.h"
#include <optional>
#include <vector>

namespace kerf::runtime {

/// A box of the stage's source for one peer; packed first unless it is contiguous.
struct Outgoing {
  int64_t peer = 0;
  BoxCopy pack;
  std::byte *packed = nullptr;
};

struct Stage {
  Communicator *communicator = nullptr;
  int64_t tag = 0;
  const std::byte *source = nullptr;
  std::vector<Outgoing> outgoing;

  Status startSends() const;
};

/// Places what comes from each peer.
struct MoveStage : Stage {
  struct Incoming {
    int64_t peer = 0;
    BoxCopy unpack; // for the own piece: straight from the source
  };
  std::byte *result = nullptr, *received = nullptr;
  std::vector<Incoming> incoming;

  Status receive() const;
};

/// Combines the boxes of all members, in order of position, into one box of the result.
struct ReduceStage : Stage {
  std::vector<int64_t> members;
  Reducer reducer;
  int64_t elements = 0;
  BoxCopy packOwn, unpack;
  std::byte *result = nullptr, *own = nullptr, *received = nullptr, *sum = nullptr, *wide = nullptr;

  Status receive() const;
};

/// One collective: a reduction first where there is one, then moves where there are any.
struct Member {
  std::optional<ReduceStage> reduce;
  std::optional<MoveStage> move;
  bool zeroFirst = false; // the result has padding that no box covers
  TensorView result;
};

/// Collectives that are one: planned at bind time, run each step.
struct CollectivePlan {
  Communicator *communicator = nullptr;
  int64_t tag = 0;
  std::vector<Member> members;

  /// Between two ranks, messages of one tag are received in the order in which they are sent: reductions under the
  /// first tag; moves under the second, those that follow a reduction behind all others.
  Status run() const;

private:
  enum class ReducesFirst { No, Yes };
  template <typename Do> Status each(ReducesFirst reduces, Do act) const;
};

} // namespace kerf::runtime
