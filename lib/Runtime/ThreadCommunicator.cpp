// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. A send leaves a note in the receiver's mailbox, and the receiver copies directly
// from the sender's buffer. With an emulated link, the receiver waits until the link would have delivered the message.
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <mutex>

namespace kerf::runtime {

namespace {
using Clock = std::chrono::steady_clock;

/// A message that waits to be received: its sender, its tag and the sender's buffer.
struct Note {
  int64_t from = 0, tag = 0;
  std::span<const std::byte> bytes;
  Clock::time_point arrives; // when the emulated link delivers the message
};

/// One rank's incoming messages, and the state of its outgoing ones.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived; // signals that a note for this rank has arrived
  std::condition_variable left;    // signals that a receiver has copied a message of this rank
  std::vector<Note> notes;         // incoming messages in the order of arrival
  std::vector<int64_t> sending;    // tags of this rank's outgoing messages that no receiver has copied yet
  Clock::time_point linkFree;      // when all messages of this rank will have passed its emulated link
};

/// The ranks of one run.
struct Group {
  Group(int64_t ranks, const std::optional<EmulatedLink> &link) : link(link), mailboxes(static_cast<size_t>(ranks)) {}
  std::optional<EmulatedLink> link;
  std::vector<Mailbox> mailboxes;
  std::mutex mutex;
  std::optional<Error> failure; // the first error that ended the run; guarded by `mutex`
  std::atomic<bool> failed = false;

  Error firstFailure() {
    std::lock_guard lock(mutex);
    return *failure;
  }
};

class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<Group> group, int64_t rank) : group(std::move(group)), self(rank) {}

  int64_t rank() const override { return self; }
  int64_t size() const override { return int64_t(group->mailboxes.size()); }
  int64_t maxTag() const override { return INT64_MAX; }

  void reserve(size_t messages) override {
    Mailbox &mine = group->mailboxes[size_t(self)];
    std::lock_guard lock(mine.mutex);
    mine.notes.reserve(messages);
    mine.sending.reserve(messages);
  }

  Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) override {
    if (group->failed)
      return group->firstFailure();
    Mailbox &mine = group->mailboxes[size_t(self)], &theirs = group->mailboxes[size_t(to)];
    Note note{self, tag, bytes, {}};
    {
      std::lock_guard lock(mine.mutex);
      mine.sending.push_back(tag);
      if (group->link)
        note.arrives = pass(bytes.size(), mine.linkFree);
    }
    {
      std::lock_guard lock(theirs.mutex);
      theirs.notes.push_back(note);
    }
    theirs.arrived.notify_all();
    return ok();
  }

  Status finishSends(int64_t tag) override {
    Mailbox &mine = group->mailboxes[size_t(self)];
    auto finished = [&] { return std::find(mine.sending.begin(), mine.sending.end(), tag) == mine.sending.end(); };
    {
      std::unique_lock lock(mine.mutex);
      mine.left.wait(lock, [&] { return group->failed || finished(); });
    }
    if (!group->failed)
      return ok();
    // Withdraw the messages that no receiver has begun to copy, and wait for the others. Then the caller
    // may free memory.
    int64_t withdrawn = 0;
    for (Mailbox &mailbox : group->mailboxes) {
      std::lock_guard lock(mailbox.mutex);
      withdrawn +=
          int64_t(std::erase_if(mailbox.notes, [&](const Note &note) { return note.from == self && note.tag == tag; }));
    }
    std::unique_lock lock(mine.mutex);
    for (; withdrawn > 0; --withdrawn)
      mine.sending.erase(std::find(mine.sending.begin(), mine.sending.end(), tag));
    mine.left.wait(lock, finished);
    return group->firstFailure();
  }

  Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) override {
    Mailbox &mine = group->mailboxes[size_t(self)], &theirs = group->mailboxes[size_t(from)];
    std::unique_lock lock(mine.mutex);
    auto find = [&] {
      return std::find_if(mine.notes.begin(), mine.notes.end(),
                          [&](const Note &note) { return note.from == from && note.tag == tag; });
    };
    mine.arrived.wait(lock, [&] { return group->failed || find() != mine.notes.end(); });
    if (group->link && !group->failed)
      mine.arrived.wait_until(lock, find()->arrives, [&] { return group->failed.load(); });
    if (group->failed)
      return group->firstFailure();
    auto found = find();
    std::span<const std::byte> source = found->bytes;
    mine.notes.erase(found);
    lock.unlock();
    bool fits = source.size() == bytes.size();
    if (fits && !bytes.empty())
      std::memcpy(bytes.data(), source.data(), source.size());
    {
      std::lock_guard senderLock(theirs.mutex);
      theirs.sending.erase(std::find(theirs.sending.begin(), theirs.sending.end(), tag));
    }
    theirs.left.notify_all();
    if (!fits)
      return Error{
          fmt::format("rank {} expects {} bytes from rank {} (tag {}), which sent {}; report this plan, it is a bug "
                      "of Kerf",
                      self, bytes.size(), from, tag, source.size()),
          ExitStatus::InternalCheck};
    return ok();
  }

  void abort(const Error &error) override {
    {
      std::lock_guard lock(group->mutex);
      if (!group->failure)
        group->failure = error;
      group->failed = true;
    }
    for (Mailbox &mailbox : group->mailboxes) {
      {
        std::lock_guard lock(mailbox.mutex);
      } // after this, no thread is between its check of `failed` and its wait
      mailbox.arrived.notify_all();
      mailbox.left.notify_all();
    }
  }

  std::optional<Error> failure() const override {
    std::lock_guard lock(group->mutex);
    return group->failure;
  }

private:
  /// Returns when a message of `bytes` bytes arrives that passes the link behind the rank's earlier messages.
  Clock::time_point pass(size_t bytes, Clock::time_point &linkFree) const {
    auto ticks = [](double seconds) {
      return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    linkFree = std::max(linkFree, Clock::now()) + ticks(double(bytes) / group->link->bytesPerSecond);
    return linkFree + ticks(group->link->latencySeconds);
  }

  std::shared_ptr<Group> group;
  int64_t self;
};
} // namespace

std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(int64_t ranks,
                                                                     const std::optional<EmulatedLink> &link) {
  auto group = std::make_shared<Group>(ranks, link);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int64_t rank = 0; rank < ranks; ++rank)
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return communicators;
}

} // namespace kerf::runtime
