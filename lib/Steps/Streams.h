// SPDX-License-Identifier: Apache-2.0
// The passes that choose the stream of each collective, copy and message, and the places where kernels wait for
// received values.
//
//   before: receive x   a = gather p   wait a   g = reduce h   use a, x               wait g
//   after:  receive x (stream receive)   a = gather p   wait a   g = reduce h (stream gradients)   received x   use a,
//   x
//           wait g
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// Gives a stream to each instruction: the one that it names, unless it is waited for at once; "receive" to receives of
/// a stage; that of kernels to all others. Returns the number of instructions that have a stream of their own.
int64_t chooseStreams(package::FlatProgram &flat);
/// Puts the wait for what is received before the first instruction that reads it. Returns how many there are.
int64_t awaitMessages(package::FlatProgram &flat);

} // namespace kerf::steps
