// SPDX-License-Identifier: Apache-2.0
// The communicators of a vendor's library of collectives on one rank. One rank of a communicator makes a few bytes, its
// root information, and sends them to the others over the host's communicator; then all of its ranks join.
#pragma once

#include "kerf/Runtime/Communicator.h"

#include <future>
#include <map>
#include <tuple>

namespace kerf::runtime {

/// The functions of a library by which ranks get a communicator. Both of them may be called on any thread.
struct CommunicatorLibrary {
  size_t rootBytes = 0; // of the root information
  /// Fills the root information of a new communicator.
  std::function<Status(std::span<std::byte> root)> makeRoot;
  /// Makes the communicator of `ranks` ranks in which this one has number `rank`. Waits for the other ranks.
  std::function<Result<void *>(std::span<std::byte> root, int64_t ranks, int64_t rank)> join;
};

/// Makes communicators. Joining one waits for all of its ranks, so a thread does it, and the first launch waits for the
/// thread. The thread that binds must not wait for another rank: that rank may have failed meanwhile, and the ranks
/// agree on that after all of them have bound their programs.
class GroupCommunicators {
public:
  /// `messages` must outlive the object.
  GroupCommunicators(CommunicatorLibrary library, Communicator &messages)
      : library(std::make_shared<const CommunicatorLibrary>(std::move(library))), messages(messages) {}
  /// Waits as waitForAll does.
  ~GroupCommunicators();
  GroupCommunicators(const GroupCommunicators &) = delete;

  /// The library's communicator, once it is made.
  using Handle = std::shared_future<Result<void *>>;
  /// Returns the communicator of a process group's ranks, in their order. All of them must ask for it, first with the
  /// same `tag`, under which no other host message is sent.
  Result<Handle> ofGroup(const std::vector<int64_t> &members, int64_t tag);
  /// Returns the communicators of some process groups as ofGroup does, and an invalid handle for a group of one rank.
  Result<std::vector<Handle>> ofGroups(const std::vector<std::vector<int64_t>> &groups, int64_t tag);
  /// Returns the communicator for the messages of one tag from rank `from`, its rank 0, to rank `to`; this rank is one
  /// of them. Libraries match messages by their order alone, so each tag has a communicator of its own.
  Result<Handle> ofMessage(int64_t from, int64_t to, int64_t tag);
  /// Waits until the communicator of a handle is made, and returns it. Fails if it cannot be made, or if another rank
  /// fails meanwhile.
  Result<void *> waitFor(const Handle &handle) const;
  /// Waits until each communicator is made, or another rank has failed, and until no root information of this rank is
  /// on its way. A thread that still waits for a rank that has ended is left alone: libraries have no way to end it.
  void waitForAll();
  /// Calls visit(communicator) for each communicator that is made.
  void each(const std::function<void(void *communicator)> &visit) const;

private:
  /// The rank that makes a communicator's root information, and the tag under which it sends it.
  struct From {
    int64_t rank, tag;
  };
  using Root = std::shared_ptr<std::vector<std::byte>>;
  Result<Root> newRoot() const;
  Status sendRoot(const Root &root, int64_t to, int64_t tag);
  /// Starts the thread that makes a communicator. Without a root information, the thread receives it first, when
  /// `after` is ready.
  Handle start(Root root, From from, int64_t ranks, int64_t rank, std::shared_future<void> after = {});
  /// A communicator that a thread makes. The thread uses `messages` until it has the root information.
  struct Making {
    std::shared_future<void> hasRoot;
    Handle handle;
  };
  std::shared_ptr<const CommunicatorLibrary> library;
  Communicator &messages;
  std::map<std::vector<int64_t>, Handle> groups;
  std::shared_future<void> lastGroupHasRoot; // groups of a bucket have one tag: their root information comes in order
  std::map<std::tuple<int64_t, int64_t, int64_t>, Handle> pairs; // by sender, receiver and tag
  std::vector<Making> makings;                                   // all communicators
  std::multimap<int64_t, Root> sentRoots;                        // whose messages may still be on their way, by tag
};

} // namespace kerf::runtime
