// SPDX-License-Identifier: Apache-2.0
// The two streams of a backward pass: kernels on the compute stream, gathers of parameters and sums of gradients on the
// communication stream. Codecs run on the compute stream, so they delay the layers that follow.
//
//   compute        | body 3 | enc 3 | body 2 | body 1 | dec 3 | enc 1 |        | dec 1
//   communication             | wire 3          | wire 2     |  wire 1        |
#pragma once

#include "kerf/Compression/Sync.h"

namespace kerf::compression {

/// One layer of a pass, in the order in which the pass runs its layers.
struct StreamLayer {
  double gather = 0;    // seconds in which the layer's parameters are gathered on the communication stream
  double body = 0;      // seconds of the layer's kernels and exposed collectives on the compute stream
  SyncCost sync;        // sum of the costs of the layer's gradients
  double syncBytes = 0; // bytes of these gradients, without compression
  int64_t repeat = 1;   // number of consecutive layers with the same costs
};

/// How the streams overlap.
struct StreamRules {
  bool gathersAhead = true;  // whether the parameters of the next layer are gathered while a layer runs
  bool reducesBeside = true; // whether gradients are summed while the following layers run
  double bucketBytes = 0;    // gradients are sent as soon as they have this many bytes together
};

/// The end of a pass on its streams, in seconds from the start of the pass.
struct StreamEnds {
  double compute = 0;       // end of the last layer on the compute stream
  double communication = 0; // time at which the last sum is there: sent, decoded and added
  double codec = 0;         // seconds of codecs before `compute`
};

/// The time at which the communication stream sends the gradients of one layer.
struct SendTime {
  double start = 0, end = 0; // seconds; both are the end of the layer if it sends nothing
  bool idleBefore = false;   // whether the communication stream waited for these gradients
};

/// Adds `other` to `sum`, where both are sent one after the other in one bucket.
void addCost(SyncCost &sum, const SyncCost &other);

/// Runs the two streams layer by layer. `sends`, if given, gets an entry for each layer (with repeats).
StreamEnds runStreams(std::span<const StreamLayer> layers, const StreamRules &rules,
                      std::vector<SendTime> *sends = nullptr);

} // namespace kerf::compression
