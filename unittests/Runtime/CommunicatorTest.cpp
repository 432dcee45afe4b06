// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Communicator.h"

#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime {
namespace {

std::span<const std::byte> bytesOf(const int &value) { return std::as_bytes(std::span(&value, 1)); }
std::span<std::byte> bytesOf(int &value) { return std::as_writable_bytes(std::span(&value, 1)); }

TEST(ThreadCommunicator, MatchesBySenderAndTagInOrder) {
  auto ranks = createThreadCommunicators(2);
  const int a = 1, b = 2, c = 3;
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(a), 1, 10));
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(b), 1, 11));
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(c), 1, 10));
  int got = 0;
  ASSERT_TRUE(ranks[1]->receive(bytesOf(got), 0, 11));
  EXPECT_EQ(got, 2);
  ASSERT_TRUE(ranks[1]->receive(bytesOf(got), 0, 10));
  EXPECT_EQ(got, 1);
  ASSERT_TRUE(ranks[1]->receive(bytesOf(got), 0, 10));
  EXPECT_EQ(got, 3);
  EXPECT_TRUE(ranks[0]->finishSends(10));
  EXPECT_TRUE(ranks[0]->finishSends(11));
}

TEST(ThreadCommunicator, AbortEndsEveryWait) {
  auto ranks = createThreadCommunicators(3);
  int number = 0;
  const int sent = 5;
  std::vector<std::string> messages(2);
  std::thread receiver([&] { messages[0] = ranks[0]->receive(bytesOf(number), 2, 7).error().message; });
  std::thread sender([&] {
    ASSERT_TRUE(ranks[1]->startSend(bytesOf(sent), 0, 9));
    messages[1] = ranks[1]->finishSends(9).error().message;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks[2]->abort({"rank 2: label 99"});
  ranks[2]->abort({"a later one"});
  receiver.join();
  sender.join();
  EXPECT_EQ(messages[0], "rank 2: label 99");
  EXPECT_EQ(messages[1], "rank 2: label 99");
}

TEST(ThreadCommunicator, AWrongSizeIsAMessage) {
  auto ranks = createThreadCommunicators(2);
  const int sent = 1;
  int64_t wide = 0;
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(sent), 1, 4));
  Status status = ranks[1]->receive(std::as_writable_bytes(std::span(&wide, 1)), 0, 4);
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.error().message.find("expects 8 bytes from rank 0 (tag 4), which sent 4"), std::string::npos);
}

TEST(ThreadCommunicator, WaitsWithoutSpinning) {
  auto ranks = createThreadCommunicators(2);
  int number = 0;
  timespec before{}, after{};
  std::thread receiver([&] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    EXPECT_TRUE(ranks[1]->receive(bytesOf(number), 0, 4));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int sent = 3;
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(sent), 1, 4));
  receiver.join();
  double seconds = double(after.tv_sec - before.tv_sec) + double(after.tv_nsec - before.tv_nsec) * 1e-9;
  EXPECT_LT(seconds, 0.02);
}

TEST(ThreadCommunicator, AnEmulatedLinkTakesItsTimeAndNoCore) {
  auto ranks = createThreadCommunicators(2, EmulatedLink{/*bytesPerSecond=*/1e5, /*latencySeconds=*/0.03});
  std::vector<std::byte> sent(2000, std::byte(7)), got(2000);
  timespec before{}, after{};
  auto start = std::chrono::steady_clock::now();
  std::thread receiver([&] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    for (int message = 0; message < 2; ++message)
      EXPECT_TRUE(ranks[1]->receive(got, 0, 4));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  });
  for (int message = 0; message < 2; ++message)
    ASSERT_TRUE(ranks[0]->startSend(sent, 1, 4));
  receiver.join();
  std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(passed.count(), 0.07); // one after the other, and one latency
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(ranks[0]->finishSends(4));
  double seconds = double(after.tv_sec - before.tv_sec) + double(after.tv_nsec - before.tv_nsec) * 1e-9;
  EXPECT_LT(seconds, 0.02);
}

TEST(ThreadCommunicator, AbortEndsAWaitForAnEmulatedLink) {
  auto ranks = createThreadCommunicators(2, EmulatedLink{/*bytesPerSecond=*/1, /*latencySeconds=*/1e6});
  const int sent = 1;
  int got = 0;
  ASSERT_TRUE(ranks[0]->startSend(bytesOf(sent), 1, 4));
  std::string message;
  std::thread receiver([&] { message = ranks[1]->receive(bytesOf(got), 0, 4).error().message; });
  ranks[0]->abort({"rank 0: enough"});
  receiver.join();
  EXPECT_EQ(message, "rank 0: enough");
  EXPECT_EQ(ranks[0]->finishSends(4).error().message, "rank 0: enough");
}

TEST(Agree, EveryRankGetsTheFirstError) {
  auto ranks = createThreadCommunicators(3);
  auto all = [&](std::vector<Status> statuses) {
    std::vector<std::string> messages(3);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        Status status = agree(*ranks[r], statuses[r]);
        messages[r] = status ? "ok" : status.error().message;
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(messages[0], messages[1]);
    EXPECT_EQ(messages[0], messages[2]);
    return messages[0];
  };
  EXPECT_EQ(all({ok(), ok(), ok()}), "ok");
  EXPECT_EQ(all({ok(), Error{"disk is full"}, Error{"other"}}), "rank 1: disk is full");
  EXPECT_EQ(all({Error{"no file"}, Error{"no file"}, Error{"no file"}}), "no file");
}

} // namespace
} // namespace kerf::runtime
