// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process. A send leaves a note in the receiver's mailbox; the receiver copies straight from
// the sender's buffer.
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <mutex>

namespace kerf::runtime {

namespace {
struct Note {
  int64_t from = 0, tag = 0;
  std::span<const std::byte> bytes;
};

struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived; // a note for this rank
  std::condition_variable left;    // a send of this rank was copied
  std::vector<Note> notes;         // in the order of arrival
  std::vector<int64_t> sending;    // tags of this rank's sends that nobody has copied yet
};

struct Group {
  explicit Group(int64_t ranks) : mailboxes(static_cast<size_t>(ranks)) {}
  std::vector<Mailbox> mailboxes;
  std::mutex mutex;
  std::optional<Error> failure; // the first; guarded by mutex
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
    {
      std::lock_guard lock(mine.mutex);
      mine.sending.push_back(tag);
    }
    {
      std::lock_guard lock(theirs.mutex);
      theirs.notes.push_back({self, tag, bytes});
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
    // Nobody may begin to copy any more, and who has begun ends soon: then the caller may free its memory.
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
      return Error{fmt::format("rank {} expects {} bytes from rank {} (tag {}), which sent {}", self, bytes.size(),
                               from, tag, source.size()),
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
      } // nobody is between its check of `failed` and its wait
      mailbox.arrived.notify_all();
      mailbox.left.notify_all();
    }
  }

  std::optional<Error> failure() const override {
    std::lock_guard lock(group->mutex);
    return group->failure;
  }

private:
  std::shared_ptr<Group> group;
  int64_t self;
};
} // namespace

std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(int64_t ranks) {
  auto group = std::make_shared<Group>(ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int64_t rank = 0; rank < ranks; ++rank)
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return communicators;
}

} // namespace kerf::runtime
