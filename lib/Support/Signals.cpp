// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Signals.h"

#include <atomic>
#include <csignal>

namespace kerf {

namespace {
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

void onSignal(int signal) {
  int none = 0;
  if (received.compare_exchange_strong(none, signal))
    return;
  std::signal(signal, SIG_DFL);
  std::raise(signal); // delivered when the handler has returned
}
} // namespace

void listenForSignals(std::initializer_list<int> signals) {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART; // interrupted reads and writes continue
  sigemptyset(&action.sa_mask);
  for (int signal : signals)
    sigaction(signal, &action, nullptr);
}

int receivedSignal() { return received; }

} // namespace kerf
