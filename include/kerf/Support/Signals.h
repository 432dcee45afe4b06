// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and the like, as a request that a long computation can look at: the first signal is only remembered, a second
// one ends the process as it would without this.
#pragma once

#include <initializer_list>

namespace kerf {

/// Remembers the first of `signals` that comes from now on. Signals are the process's: it is for programs, not for
/// libraries.
void listenForSignals(std::initializer_list<int> signals);

/// Returns the signal that has come, or 0.
int receivedSignal();

} // namespace kerf
