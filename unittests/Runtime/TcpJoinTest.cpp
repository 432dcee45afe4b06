// SPDX-License-Identifier: Apache-2.0
// How ranks over TCP find each other, and who is turned away.
#include "TcpRanks.h"

#include <atomic>

namespace kerf::runtime {
namespace {
using namespace test;
using tcp::Clock;

TEST(Sha256, StandardVectors) {
  auto hex = [](const tcp::Digest &digest) {
    std::string text;
    for (std::byte one : digest) {
      char pair[3];
      std::snprintf(pair, sizeof pair, "%02x", unsigned(one));
      text += pair;
    }
    return text;
  };
  std::string abc = "abc", text(56, 'a');
  EXPECT_EQ(hex(tcp::sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(tcp::sha256(std::as_bytes(std::span(abc)))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(tcp::sha256(std::as_bytes(std::span(text)))),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  std::string what = "what do ya want for nothing?"; // RFC 4231, case 2
  EXPECT_EQ(hex(tcp::hmac("Jefe", std::as_bytes(std::span(what)))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(TcpJoin, StrangersAreTurnedAwayAndTheRunBegins) {
  const int port = freePort();
  std::vector<std::string> notes;
  std::unique_ptr<Communicator> zero, one;
  std::thread leader([&] {
    auto created = createTcpCommunicator(launchOf(0, 2, port), [&](const std::string &text) { notes.push_back(text); });
    ASSERT_TRUE(created) << created.error().message;
    zero = std::move(*created);
  });
  auto address = tcp::addressOf(std::array{std::byte(127), std::byte(0), std::byte(0), std::byte(1)}, port);
  auto connect = [&] {
    tcp::Fd socket;
    while (!socket) {
      socket = tcp::connectTo(address, Clock::now() + std::chrono::seconds(5)).first;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return socket;
  };
  auto failing = [&](TcpLaunch launch) {
    auto created = createTcpCommunicator(launch, [](const std::string &) {});
    return created ? std::string("joined") : created.error().message;
  };
  tcp::Fd silent = connect(); // says nothing until the end, and must hold up nobody
  tcp::Fd garbage = connect();
  std::string text = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
  tcp::writeAll(garbage, std::as_bytes(std::span(text)), Clock::now() + std::chrono::seconds(5));
  TcpLaunch wrong = launchOf(1, 2, port);
  wrong.secret = "another";
  EXPECT_NE(failing(wrong).find("KERF_SECRET or TORCHELASTIC_RUN_ID"), std::string::npos);
  EXPECT_NE(failing(launchOf(2, 3, port)).find("it was started for 3 ranks, and this run has 2"), std::string::npos);
  auto created = createTcpCommunicator(launchOf(1, 2, port), [](const std::string &) {});
  ASSERT_TRUE(created) << created.error().message;
  one = std::move(*created);
  leader.join();
  EXPECT_NE(failing(launchOf(1, 2, port)).find("this run has its 2 ranks already"), std::string::npos);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_NE(notes[0].find("it does not speak Kerf's protocol"), std::string::npos) << notes[0];
  std::thread other([&] { one.reset(); });
  zero.reset();
  other.join();
}

TEST(TcpJoin, ARankThatIsStartedTwiceIsRefused) {
  const int port = freePort();
  std::vector<std::string> messages(3);
  std::atomic<int> refused = 0;
  Ranks made(3);
  // Rank 1 is started twice before rank 2 comes.
  auto start = [&](size_t place, int64_t rank) {
    auto created = createTcpCommunicator(launchOf(rank, 3, port), [](const std::string &) {});
    if (created)
      made[size_t(rank)] = std::move(*created);
    else if (++refused)
      messages[place] = created.error().message;
  };
  std::thread zero([&] { start(0, 0); }), first([&] { start(1, 1); }), second([&] { start(2, 1); });
  while (refused == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  start(0, 2);
  zero.join();
  first.join();
  second.join();
  EXPECT_EQ(refused, 1);
  EXPECT_NE((messages[1] + messages[2]).find("rank 1 has joined already"), std::string::npos);
  endTogether(made);
}

TEST(TcpJoin, AWaitEndsWithTheMissingRanks) {
  const int port = freePort();
  std::vector<std::string> messages(2);
  onEach(2, [&](int64_t rank) {
    TcpLaunch launch = launchOf(rank, 4, port);
    launch.joinSeconds = 1;
    auto created = createTcpCommunicator(launch, [](const std::string &) {});
    messages[size_t(rank)] = created ? "joined" : created.error().message;
  });
  for (const std::string &message : messages)
    EXPECT_NE(message.find("rank 0 has waited 1 s for 2 of 4 ranks: 2, 3"), std::string::npos) << message;
}

TEST(TcpJoin, APortInUseIsAMessage) {
  auto [taken, code] = tcp::listenAt(tcp::resolve("127.0.0.1", 0)->front());
  const int port = tcp::localAddress(taken).port();
  auto zero = createTcpCommunicator(launchOf(0, 2, port), [](const std::string &) {});
  ASSERT_FALSE(bool(zero));
  EXPECT_NE(zero.error().message.find("127.0.0.1:" + std::to_string(port) + ": Address already in use; set KERF_PORT"),
            std::string::npos)
      << zero.error().message;
}

} // namespace
} // namespace kerf::runtime
