// SPDX-License-Identifier: Apache-2.0
// The prices of calls on an NPU, and the choice between several compositions of one instruction.
#pragma once

#include "Calls.h"

namespace kerf::runtime::ascend {

/// The rates that operators reach on an NPU.
struct Prices {
  double launchSeconds = 0;  // seconds between the end of a call and the start of the next one
  double bytesPerSecond = 0; // of the NPU's memory
  double flopsOfFloat = 0;   // FLOP/s of products of float32 factors
  double flopsOfHalf = 0;    // FLOP/s of products of 16-bit factors
  double flopsOfFlash = 0;   // FLOP/s of aclnnFlashAttentionScore and its gradient
};

/// Returns the prices on NPUs of a generation: peak rates of clusters/ascend-910a.json and ascend-910b.json times the
/// efficiencies that the cost model has for these devices (docs/cost-model.md, section Curves).
const Prices &pricesOf(Generation generation);

/// Returns the seconds that calls take one after the other: for each call the launch, and the larger of the time to
/// move its bytes and the time to multiply. An operator other than copies and products first makes a dense copy of an
/// operand that is not dense, and copies its result to a view that is not dense, each with a launch of its own.
double secondsOf(const std::vector<Call> &calls, const Prices &prices);

/// One way to compose an instruction, or a part of one. `build` must add the same calls each time, and must not depend
/// on addresses.
struct Composition {
  std::function<void(Builder &)> build;
};
/// Adds the calls of the cheapest composition whose operators the NPU's libraries all have. Compositions that fail are
/// left out; if all of them fail, the first failure with a message is that of the instruction. If none has all its
/// operators, the cheapest one is taken, so that binding it names what is missing. Among equal prices, the first one is
/// taken.
void choose(Builder &b, std::initializer_list<Composition> compositions);

} // namespace kerf::runtime::ascend
