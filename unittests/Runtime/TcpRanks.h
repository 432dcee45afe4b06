// SPDX-License-Identifier: Apache-2.0
// Ranks over TCP whose processes are threads of a test, on the loopback interface.
#pragma once

#include "../../lib/Runtime/Tcp/Join.h"
#include "kerf/Runtime/Communicator.h"

#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime::test {

using Ranks = std::vector<std::unique_ptr<Communicator>>;

/// Returns a port that was free a moment ago.
inline int freePort() {
  auto any = tcp::resolve("127.0.0.1", 0);
  auto [socket, code] = tcp::listenAt(any->front());
  return tcp::localAddress(socket).port();
}

inline TcpLaunch launchOf(int64_t rank, int64_t ranks, int port) { return {rank, ranks, "127.0.0.1", port, "key", 20}; }

/// Calls visit(rank) on a thread for each rank, and waits for all of them.
inline void onEach(int64_t ranks, const std::function<void(int64_t)> &visit) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { visit(rank); });
  for (std::thread &thread : threads)
    thread.join();
}

inline Ranks connected(int64_t ranks) {
  const int port = freePort();
  Ranks made(static_cast<size_t>(ranks));
  onEach(ranks, [&](int64_t rank) {
    auto created = createTcpCommunicator(launchOf(rank, ranks, port), [](const std::string &) {});
    ASSERT_TRUE(created) << created.error().message;
    made[size_t(rank)] = std::move(*created);
  });
  return made;
}

/// Ends the ranks: each waits for the others.
inline void endTogether(Ranks &ranks) {
  onEach(int64_t(ranks.size()), [&](int64_t rank) { ranks[size_t(rank)].reset(); });
}

} // namespace kerf::runtime::test
