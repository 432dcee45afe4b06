// SPDX-License-Identifier: Apache-2.0
// Ranks over TCP whose processes are threads of this test, on the loopback interface.
#include "TcpRanks.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <thread>

namespace {
/// A thread calls this after each call of sendmsg, so that a test can hold a thread where it has just written.
thread_local std::function<void()> afterSendmsg;
} // namespace

/// Takes the place of the system's function in this program, and calls it.
extern "C" ssize_t sendmsg(int socket, const msghdr *message, int flags) {
  using Function = ssize_t (*)(int, const msghdr *, int);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "sendmsg"));
  ssize_t written = original(socket, message, flags);
  const int error = errno;
  if (auto then = afterSendmsg) // a copy: it may change the variable
    then();
  errno = error;
  return written;
}

namespace kerf::runtime {
namespace {
using namespace test;
using tcp::Clock;

std::vector<std::byte> pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> made(bytes);
  std::mt19937 random(seed);
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word = random();
    std::memcpy(made.data() + at, &word, 4);
  }
  return made;
}

TEST(TcpCommunicator, MatchesBySenderAndTagInOrderAtAllSizes) {
  Ranks ranks = connected(2);
  ASSERT_TRUE(ranks[0] && ranks[1]);
  // Small messages are sent at once and large ones are offered: their order must hold between both kinds.
  const std::vector<size_t> sizes = {4, 0, 65536, 65537, 8, 5'000'000, 65536, 300'000, 1};
  std::vector<std::vector<std::byte>> sent;
  for (size_t i = 0; i < sizes.size(); ++i)
    sent.push_back(pattern(sizes[i], uint32_t(i)));
  for (int64_t tag : {7, 8})
    for (const auto &bytes : sent)
      ASSERT_TRUE(ranks[0]->startSend(bytes, 1, tag));
  for (int64_t tag : {8, 7})
    for (const auto &bytes : sent) {
      std::vector<std::byte> got(bytes.size(), std::byte(0xAA));
      ASSERT_TRUE(ranks[1]->receive(got, 0, tag));
      ASSERT_EQ(got, bytes) << bytes.size() << " bytes";
    }
  EXPECT_TRUE(ranks[0]->finishSends(7));
  EXPECT_TRUE(ranks[0]->finishSends(8));
  endTogether(ranks);
}

TEST(TcpCommunicator, AReceiveMayComeBeforeItsMessage) {
  Ranks ranks = connected(2);
  for (size_t bytes : {size_t(0), size_t(100), size_t(65536), size_t(2'000'000)}) {
    std::vector<std::byte> sent = pattern(bytes, 5), got(bytes);
    std::thread receiver([&] { EXPECT_TRUE(ranks[0]->receive(got, 1, 9)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(ranks[1]->startSend(sent, 0, 9));
    EXPECT_TRUE(ranks[1]->finishSends(9));
    receiver.join();
    EXPECT_EQ(got, sent);
  }
  endTogether(ranks);
}

TEST(TcpCommunicator, HeldMessagesLeaveTogetherInTheirOrder) {
  Ranks ranks = connected(2);
  // More small messages than one call of the system writes, with large ones and messages that are not held between
  // them.
  std::vector<std::vector<std::byte>> sent;
  for (uint32_t i = 0; i < 700; ++i)
    sent.push_back(pattern(i == 150 || i == 650 ? 3'000'000 : i % 5 == 0 ? 0 : 4 * (i % 90), i));
  std::thread sender([&] {
    for (size_t i = 0; i < sent.size(); ++i)
      ASSERT_TRUE(i % 100 == 99 ? ranks[0]->startSend(sent[i], 1, 7) : ranks[0]->holdSend(sent[i], 1, 7));
    ranks[0]->releaseSends();
    EXPECT_TRUE(ranks[0]->finishSends(7));
  });
  for (const auto &bytes : sent) {
    std::vector<std::byte> got(bytes.size(), std::byte(0xAA));
    ASSERT_TRUE(ranks[1]->receive(got, 0, 7));
    ASSERT_EQ(got, bytes);
  }
  sender.join();
  endTogether(ranks);
}

TEST(TcpCommunicator, ASmallMessageIsHeldUntilItIsReleased) {
  Ranks ranks = connected(2);
  std::vector<std::byte> sent = pattern(100, 1), got(100);
  ASSERT_TRUE(ranks[0]->holdSend(sent, 1, 7));
  std::atomic<bool> arrived = false;
  std::thread receiver([&] {
    EXPECT_TRUE(ranks[1]->receive(got, 0, 7));
    arrived = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(arrived);
  ranks[0]->releaseSends();
  EXPECT_TRUE(ranks[0]->finishSends(7));
  receiver.join();
  EXPECT_EQ(got, sent);
  endTogether(ranks);
}

TEST(TcpCommunicator, AllRanksSendToAllAtOnceFromSeveralThreads) {
  constexpr int64_t kRanks = 4, kThreads = 3;
  Ranks ranks = connected(kRanks);
  onEach(kRanks * kThreads, [&](int64_t worker) {
    const int64_t self = worker % kRanks, tag = worker / kRanks;
    Communicator &mine = *ranks[size_t(self)];
    auto seedOf = [&](int64_t from, int64_t to, int round) {
      return uint32_t(((from * 7 + to) * 11 + tag) * 13 + round);
    };
    auto sizeOf = [&](int64_t from, int64_t to, int round) {
      return std::mt19937(seedOf(from, to, round))() % (round % 3 == 0 ? 400'000 : 70'000);
    };
    for (int round = 0; round < 12; ++round) {
      std::vector<std::vector<std::byte>> sent;
      for (int64_t to = 0; to < kRanks; ++to)
        sent.push_back(pattern(sizeOf(self, to, round), seedOf(self, to, round)));
      for (int64_t to = 0; to < kRanks; ++to) // to this rank itself, too
        ASSERT_TRUE(mine.startSend(sent[size_t(to)], to, tag));
      for (int64_t from = 0; from < kRanks; ++from) {
        std::vector<std::byte> got(sizeOf(from, self, round));
        ASSERT_TRUE(mine.receive(got, from, tag));
        ASSERT_EQ(got, pattern(got.size(), seedOf(from, self, round)));
      }
      ASSERT_TRUE(mine.finishSends(tag));
    }
  });
  endTogether(ranks);
}

TEST(TcpCommunicator, AWrongSizeIsAMessage) {
  for (size_t bytes : {size_t(4), size_t(1'000'000)})
    for (bool isFirst : {false, true}) {
      Ranks ranks = connected(2);
      std::vector<std::byte> sent(bytes), got(bytes + 8);
      Status status = ok();
      auto receive = [&] { status = ranks[1]->receive(got, 0, 4); };
      std::thread early([&] {
        if (isFirst)
          receive();
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_TRUE(ranks[0]->startSend(sent, 1, 4));
      early.join();
      if (!isFirst)
        receive();
      ASSERT_FALSE(bool(status));
      EXPECT_EQ(status.error().status, ExitStatus::InternalCheck);
      EXPECT_NE(status.error().message.find("rank 1 expects " + std::to_string(bytes + 8) +
                                            " bytes from rank 0 (tag 4), which sent " + std::to_string(bytes)),
                std::string::npos)
          << status.error().message;
      EXPECT_TRUE(ranks[0]->finishSends(4)); // the sender's buffer is free
      endTogether(ranks);
    }
}

TEST(TcpCommunicator, AbortEndsEveryWaitOnAllRanks) {
  Ranks ranks = connected(3);
  int number = 0;
  std::vector<std::byte> large(1'000'000);
  std::vector<std::string> messages(2);
  std::thread receiver(
      [&] { messages[0] = ranks[0]->receive(std::as_writable_bytes(std::span(&number, 1)), 2, 7).error().message; });
  std::thread sender([&] {
    ASSERT_TRUE(ranks[1]->startSend(large, 0, 9)); // rank 0 never asks for it
    messages[1] = ranks[1]->finishSends(9).error().message;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks[2]->abort({"rank 2: label 99", ExitStatus::Infeasible});
  ranks[2]->abort({"a later one"});
  receiver.join();
  sender.join();
  EXPECT_EQ(messages[0], "rank 2: label 99");
  EXPECT_EQ(messages[1], "rank 2: label 99");
  for (auto &rank : ranks) {
    ASSERT_TRUE(rank->failure());
    EXPECT_EQ(rank->failure()->status, ExitStatus::Infeasible);
    EXPECT_FALSE(bool(rank->startSend(large, 0, 9)));
  }
  EXPECT_TRUE(ranks[0]->tellsErrors());
  EXPECT_FALSE(ranks[1]->tellsErrors());
  endTogether(ranks);
}

TEST(TcpCommunicator, AbortArrivesDuringLargeMessages) {
  Ranks ranks = connected(2);
  std::vector<std::byte> sent(size_t(512) << 20), got(sent.size());
  std::string received, finished;
  std::thread receiver([&] { received = ranks[1]->receive(got, 0, 4).error().message; });
  std::thread sender([&] {
    ASSERT_TRUE(ranks[0]->startSend(sent, 1, 4));
    finished = ranks[0]->finishSends(4).error().message;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  ranks[1]->abort({"rank 1: enough"});
  receiver.join();
  sender.join();
  EXPECT_EQ(received, "rank 1: enough");
  EXPECT_EQ(finished, "rank 1: enough");
  endTogether(ranks);
}

TEST(TcpCommunicator, ARankThatLeavesFailsTheReceivesFromIt) {
  Ranks ranks = connected(3);
  int number = 0, last = 5;
  ASSERT_TRUE(ranks[1]->startSend(std::as_bytes(std::span(&last, 1)), 0, 3));
  ASSERT_TRUE(ranks[1]->finishSends(3));
  std::string waiting;
  auto bytes = std::as_writable_bytes(std::span(&number, 1));
  std::thread receiver([&] { waiting = ranks[0]->receive(bytes, 1, 4).error().message; });
  std::vector<std::byte> large(1'000'000);
  ASSERT_TRUE(ranks[0]->startSend(large, 1, 8)); // rank 1 never asks for it
  std::thread leaver([&] { ranks[1].reset(); });
  receiver.join();
  EXPECT_NE(waiting.find("rank 1 (process "), std::string::npos) << waiting;
  EXPECT_NE(waiting.find("has left the run, but rank 0 still needs a message"), std::string::npos) << waiting;
  EXPECT_TRUE(ranks[0]->receive(bytes, 1, 3)); // what it sent before is there
  EXPECT_EQ(number, 5);
  EXPECT_TRUE(ranks[0]->finishSends(8)); // the buffer is free
  Status late = ranks[0]->startSend(large, 1, 8);
  ASSERT_FALSE(bool(late));
  EXPECT_NE(late.error().message.find("has left the run, but rank 0 still has a message"), std::string::npos);
  EXPECT_FALSE(ranks[0]->failure());
  std::thread other([&] { ranks[2].reset(); });
  ranks[0].reset();
  other.join();
  leaver.join();
}

TEST(TcpCommunicator, WaitsWithoutSpinning) {
  Ranks ranks = connected(2);
  auto processSeconds = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
  };
  int number = 0;
  std::thread receiver([&] { EXPECT_TRUE(ranks[1]->receive(std::as_writable_bytes(std::span(&number, 1)), 0, 4)); });
  double before = processSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  double after = processSeconds();
  const int sent = 3;
  ASSERT_TRUE(ranks[0]->startSend(std::as_bytes(std::span(&sent, 1)), 1, 4));
  receiver.join();
  EXPECT_LT(after - before, 0.03);
  endTogether(ranks);
}

/// A rank with a communicator, and the connection of its peer, a rank that is only a socket.
struct WithSocket {
  const int64_t self, peer;
  std::unique_ptr<Communicator> communicator;
  tcp::Mesh ofPeer;
  explicit WithSocket(int64_t self = 0) : self(self), peer(1 - self) {
    const int port = freePort();
    onEach(2, [&](int64_t rank) {
      auto note = [](const std::string &) {};
      if (rank == self) {
        auto created = createTcpCommunicator(launchOf(rank, 2, port), note);
        ASSERT_TRUE(created) << created.error().message;
        communicator = std::move(*created);
      } else {
        auto joined = tcp::join(launchOf(rank, 2, port), note);
        ASSERT_TRUE(joined) << joined.error().message;
        ofPeer = std::move(*joined);
      }
    });
  }
  tcp::Fd &socket() { return ofPeer.members[size_t(self)].socket; }
  void write(std::span<const std::byte> bytes) {
    tcp::writeAll(socket(), bytes, Clock::now() + std::chrono::seconds(5));
  }
  /// Returns what the communicator writes to the peer until it closes the connection.
  std::vector<std::byte> readToEnd() {
    std::vector<std::byte> got;
    std::array<std::byte, 256> part;
    for (pollfd ready{socket().get(), POLLIN, 0}; poll(&ready, 1, 5000) == 1;) {
      const ssize_t count = recv(ready.fd, part.data(), part.size(), 0);
      if (count <= 0)
        break;
      got.insert(got.end(), part.begin(), part.begin() + count);
    }
    return got;
  }
  /// Returns the message with which a receive from the peer fails.
  std::string messageOfReceive() {
    int number = 0;
    return communicator->receive(std::as_writable_bytes(std::span(&number, 1)), peer, 4).error().message;
  }
};

TEST(TcpCommunicator, ARankThatLeavesGetsAGoodbyeFromOneThatIsWritingToIt) {
  using tcp::Kind;
  WithSocket pair;
  ASSERT_TRUE(pair.communicator);
  const int socket = pair.socket().get();
  int sent = 5;
  std::promise<void> isWritten, mayGoOn;
  std::thread sender([&] {
    // The system has the message, but the call that wrote it has not returned yet.
    afterSendmsg = [&] {
      afterSendmsg = nullptr;
      isWritten.set_value();
      mayGoOn.get_future().wait();
    };
    EXPECT_TRUE(pair.communicator->startSend(std::as_bytes(std::span(&sent, 1)), 1, 3));
    EXPECT_TRUE(pair.communicator->finishSends(3));
  });
  isWritten.get_future().wait();
  pair.write(tcp::encode({Kind::Bye, 0, 0, 0}));
  ::shutdown(socket, SHUT_WR);
  std::this_thread::sleep_for(std::chrono::milliseconds(200)); // rank 0 reads the goodbye
  mayGoOn.set_value();
  sender.join();
  // The message, rank 0's goodbye, and the end.
  const std::vector<std::byte> got = pair.readToEnd();
  ASSERT_EQ(got.size(), 32 + sizeof sent + 32);
  auto header = tcp::decode(std::span<const std::byte, 32>(got.data() + 32 + sizeof sent, 32));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->kind, Kind::Bye);
  EXPECT_FALSE(pair.communicator->failure());
}

TEST(TcpCommunicator, ARankThatToldAFailureAndLeftAtOnceStillTellsIt) {
  using tcp::Kind;
  WithSocket pair(/*self=*/1);
  ASSERT_TRUE(pair.communicator);
  // All three arrive together: the failure, the goodbye and the end.
  const std::string text = "rank 2 has ended";
  const tcp::HeaderBytes abort = tcp::encode({Kind::Abort, 1, text.size(), 3}), bye = tcp::encode({Kind::Bye, 1, 0, 0});
  std::vector<std::byte> sent(abort.begin(), abort.end());
  sent.insert(sent.end(), as_bytes(std::span(text)).begin(), as_bytes(std::span(text)).end());
  sent.insert(sent.end(), bye.begin(), bye.end());
  pair.write(sent);
  ::shutdown(pair.socket().get(), SHUT_WR);
  EXPECT_EQ(pair.messageOfReceive(), text);
  pair.readToEnd(); // rank 1 has closed the connection
  EXPECT_FALSE(pair.communicator->tellsErrors());
}

TEST(TcpCommunicator, ADamagedHeaderEndsTheRun) {
  using tcp::Kind;
  // Each bit of a right header matters, and so do headers that are right by themselves and make no sense.
  std::vector<tcp::HeaderBytes> headers = {tcp::encode({Kind::Eager, 4, 65537, 0}), tcp::encode({Kind::Offer, 4, 5, 1}),
                                           tcp::encode({Kind::Grant, 4, 5, 77}),    tcp::encode({Kind::Data, 4, 5, 77}),
                                           tcp::encode({Kind::Abort, 9, 5, 0}),     tcp::encode({Kind(12), 4, 4, 0})};
  for (size_t bit : {0, 17, 40, 70, 130, 200, 255}) {
    headers.push_back(tcp::encode({Kind::Eager, 4, 4, 0}));
    headers.back()[bit / 8] ^= std::byte(1 << (bit % 8));
  }
  for (const tcp::HeaderBytes &header : headers) {
    WithSocket pair;
    ASSERT_TRUE(pair.communicator);
    pair.write(header);
    EXPECT_NE(pair.messageOfReceive().find("sent a message whose header is damaged"), std::string::npos);
  }
}

TEST(TcpCommunicator, AClosedConnectionNamesTheRankAndItsMachine) {
  for (bool isMidway : {false, true}) {
    WithSocket pair;
    ASSERT_TRUE(pair.communicator);
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    if (isMidway)
      pair.write(tcp::encode({tcp::Kind::Eager, 4, 4, 0}));
    pair.socket().close();
    std::string message = pair.messageOfReceive();
    EXPECT_EQ(message.rfind("rank 1 (process " + std::to_string(getpid()) + " on " + host + ") has ended", 0), 0u)
        << message;
    EXPECT_TRUE(pair.communicator->tellsErrors());
  }
}

} // namespace
} // namespace kerf::runtime
