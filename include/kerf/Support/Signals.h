// SPDX-License-Identifier: Apache-2.0
// Turns signals such as Ctrl-C into a request that a long computation can poll. The first signal is only recorded; a
// second signal ends the process as usual.
#pragma once

#include <initializer_list>

namespace kerf {

/// Installs handlers that record the first of `signals` to arrive from now on. Signal handlers belong to the whole
/// process, so only programs may call this function, not libraries.
void listenForSignals(std::initializer_list<int> signals);

/// Returns the number of the recorded signal, or 0 if no signal has arrived since listenForSignals.
int receivedSignal();

} // namespace kerf
