// SPDX-License-Identifier: Apache-2.0
// Where collectives, copies and messages run, and where kernels wait for what is received.
//
//   before: receive x   a = gather p   wait a   g = reduce h   use a, x               wait g
//   after:  receive x (stream receive)   a = gather p   wait a   g = reduce h (stream gradients)   received x   use a,
//   x
//           wait g
#pragma once

#include "kerf/Package/FlatProgram.h"

namespace kerf::steps {

/// What is not waited for at once runs on the stream that it names, what a stage receives on "receive", all else on
/// that of kernels. Returns how many instructions have a stream of their own.
int64_t chooseStreams(package::FlatProgram &flat);
/// Puts the wait for what is received before the first instruction that reads it. Returns how many there are.
int64_t awaitMessages(package::FlatProgram &flat);

} // namespace kerf::steps
