// SPDX-License-Identifier: Apache-2.0
// The work of a collective in each step. A collective has up to two phases, a reduction and a data movement. In each
// phase a rank sends at most one box (rectangular part of a tensor) to each peer and receives at most one from each
// peer. It then either copies the received boxes to the result, or adds them up in the order of the ranks' positions in
// the process group.
#pragma once

#include "../Box.h"
#include "Reduce.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Cpu/Collectives.h"
#include <optional>
#include <vector>

namespace kerf::runtime {

/// A box of a phase's source tensor that is sent to one peer. A box that is not contiguous is packed first.
struct Outgoing {
  int64_t peer = 0;            // rank that gets the box
  BoxCopy pack;                // copies the box from the source to `packed`
  std::byte *packed = nullptr; // scratch memory for the packed box; null if the box is contiguous in the source
};

/// The sending half of a phase.
struct Phase {
  Communicator *communicator = nullptr; // sends and receives the messages
  int64_t tag = 0;                      // tag of the phase's messages
  const std::byte *source = nullptr;    // the tensor whose boxes are sent
  std::vector<Outgoing> outgoing;

  /// Starts to send all outgoing boxes. Small ones may be held back until the communicator's releaseSends().
  Status holdSends() const;
};

/// A phase that copies the box that each peer sends to its place in the result.
struct MovePhase : Phase {
  /// The box that one peer sends.
  struct Incoming {
    int64_t peer = 0; // rank that sends the box; this rank itself for the box that it keeps
    BoxCopy unpack;   // copies the received box to the result; for this rank's own box, copies from the source instead
  };
  std::byte *result = nullptr;   // the tensor that gets the boxes
  std::byte *received = nullptr; // scratch memory for one received box that cannot go straight into the result
  std::vector<Incoming> incoming;

  /// Receives all incoming boxes and copies them to the result.
  Status receive() const;
};

/// A phase that combines the same box of all ranks of the process group into one box of the result.
struct ReducePhase : Phase {
  std::vector<int64_t> members; // ranks of the process group, in the order in which their values are combined
  Reducer reducer;
  int64_t elements = 0;          // elements of the box
  BoxCopy packOwn;               // copies this rank's own values of the box from the source to `own`
  BoxCopy unpack;                // copies the combined box from `sum` to the result
  std::byte *result = nullptr;   // the tensor that gets the combined box
  std::byte *own = nullptr;      // scratch for this rank's own values; null if they are contiguous in the source
  std::byte *received = nullptr; // scratch for one received box
  std::byte *sum = nullptr;      // scratch for the combined box; null if the box is contiguous in the result
  std::byte *wide = nullptr;     // scratch for a float32 accumulator of 16-bit floats; null for other types

  /// Receives the box of every other rank and combines them with this rank's own.
  Status receive() const;
};

/// The phases of one collective, ready to run: a reduction, a data movement, or a reduction followed by
/// a data movement.
struct PlannedCollective {
  std::optional<ReducePhase> reduce; // the first phase, if the collective reduces
  std::optional<MovePhase> move;     // the only or second phase, if the collective moves data
  bool zeroFirst = false; // whether the result has padding that no box covers, so that it must be zeroed first
  TensorView result;
};

/// A bucket of one or several collectives that run as one: planned when the program is loaded, run in every step.
struct CollectivePlan {
  Communicator *communicator = nullptr;
  int64_t tag = 0; // tag of the reductions' messages; the movements' messages have the next one
  std::vector<PlannedCollective> collectives;

  /// Runs all collectives. Messages of one tag between two ranks are received in the order in which they are sent.
  /// Movements that follow a reduction therefore send and receive behind all other movements.
  Status run() const;

private:
  enum class ReducesFirst { No, Yes };
  template <typename Do> Status each(ReducesFirst reduces, Do act) const;
};

/// Plans a collective or a bucket. Addresses of the request may be null, and `communicator` too where the plan is not
/// run. The plan uses as much scratch memory as collectiveScratchBytes says. Fails as bindCollective does.
Result<CollectivePlan> planCollective(const CollectiveRequest &request, Communicator *communicator = nullptr,
                                      const SumOrderSeed &order = {});

} // namespace kerf::runtime
