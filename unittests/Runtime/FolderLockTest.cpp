// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Runtime/FolderLock.h"
#include "kerf/Support/File.h"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kerf;
using namespace kerf::runtime;

namespace {
/// A temporary folder that is removed at the end of the test.
class FolderLockTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Result<FolderLock> take() { return FolderLock::take(folder, GetParam()); }
  void leave(const LockOwner &owner) { ASSERT_TRUE(writeFile(path, writeOwner(owner))); }
  void expectRefused(const std::vector<std::string> &words) {
    auto lock = take();
    ASSERT_FALSE(lock);
    for (const std::string &word : words)
      EXPECT_NE(lock.error().message.find(word), std::string::npos) << lock.error().message;
  }
  /// Returns the description of a process that has ended.
  LockOwner dead() {
    pid_t child = fork();
    if (child == 0)
      _exit(0);
    waitpid(child, nullptr, 0);
    LockOwner owner = thisProcess();
    owner.pid = child;
    return owner;
  }

  std::string folder = fmt::format("{}/kerf-lock-{}", testing::TempDir(), getpid()), path = folder + "/" + kLockFile;
};
INSTANTIATE_TEST_SUITE_P(WithFlockAndWithout, FolderLockTest, testing::Bool());
} // namespace

TEST_P(FolderLockTest, OneRunAtATime) {
  {
    auto first = take();
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_FALSE(first->recovered());
    auto owner = readOwner(*readFile(path));
    ASSERT_TRUE(owner);
    EXPECT_EQ(owner->pid, getpid());
    EXPECT_EQ(owner->host, thisProcess().host);
    expectRefused({fmt::format("process {} of this host", getpid()), owner->start, "another folder"});
    EXPECT_TRUE(std::filesystem::exists(path)); // the refused run has not removed the lock
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(take());
}

TEST_P(FolderLockTest, ADeadProcessKeepsNobodyOut) {
  LockOwner owner = dead();
  leave(owner);
  auto lock = take();
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_EQ(lock->recovered(), owner);
  EXPECT_EQ(readOwner(*readFile(path))->pid, getpid());
}

TEST_P(FolderLockTest, AProcessThatHasItsNumberNowIsNotTheOwner) {
  LockOwner owner = thisProcess();
  owner.startTick -= 1; // this process was started later
  leave(owner);
  auto lock = take();
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_EQ(lock->recovered(), owner);
}

TEST_P(FolderLockTest, AnotherHostIsNeverTakenOver) {
  LockOwner owner = dead();
  owner.host = "node17";
  leave(owner);
  expectRefused({fmt::format("process {} of host node17", owner.pid), owner.start, "remove '" + path + "'"});
  EXPECT_EQ(readOwner(*readFile(path)), owner);
}

TEST_P(FolderLockTest, AFolderThatIsNotThere) {
  std::filesystem::remove_all(folder);
  expectRefused({path});
}

TEST(FolderLock, TextsThatAreNoOwners) {
  LockOwner owner = thisProcess();
  EXPECT_EQ(readOwner(writeOwner(owner)), owner);
  for (const char *text : {"", "{}", "[]", "17", R"({"host": 1, "pid": 2, "start": "", "start_tick": 0})",
                           R"({"host": "a", "pid": "2", "start": "", "start_tick": 0})",
                           R"({"host": "a", "pid": 0, "start": "", "start_tick": 0})", R"({"host": "a")"})
    EXPECT_FALSE(readOwner(text)) << text;
}
