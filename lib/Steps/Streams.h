// SPDX-License-Identifier: Apache-2.0

// The passes "choose-streams", which puts collectives, host copies and messages on streams of their own, and
// "await-messages", which delays the wait for a received value to its first use.
//
//   before: receive x   a = gather p   wait a   g = reduce h   use a, x               wait g
//   after:  receive x (stream receive)   a = gather p   wait a   g = reduce h (stream gradients)   received x   use a,
//   x
//           wait g
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Assigns a stream to each instruction: the requested stream to collectives and copies that are not waited for at
/// once, "receive" to receives from other stages, and the stream of kernels to all others. Returns the number of
/// instructions that do not run on the stream of kernels.
int64_t chooseStreams(package::FlatProgram &flat);
/// Inserts the wait for each received value before the first instruction that reads it. Returns the number of waits.
int64_t awaitMessages(package::FlatProgram &flat);

} // namespace kerf::steps
