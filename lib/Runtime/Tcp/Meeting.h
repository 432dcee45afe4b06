// SPDX-License-Identifier: Apache-2.0
// The state of a process while the ranks of a run find each other (Join.h).
#pragma once

#include "Join.h"
#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::tcp {

inline constexpr std::chrono::seconds kRecordSeconds{10}; // time for a record that has begun to arrive

/// A process that joins a run, and the ranks that it knows.
struct Meeting {
  Meeting(const TcpLaunch &launch, const Notes &notes);

  Member &self() { return mesh.members[size_t(launch.rank)]; }
  bool isKnown(int64_t rank) const { return rank == launch.rank || bool(mesh.members[size_t(rank)].socket); }
  bool isComplete() const;
  bool isLate() const { return Clock::now() >= deadline; }
  /// Returns the ranks that have not joined, as text.
  std::string missing() const;
  /// Says every 30 seconds that this process waits; `text` returns for whom.
  void remind(const std::function<std::string()> &text);
  /// Returns the error for a rank that has gone before the run began.
  Error lost(const Member &member) const;
  /// Takes connections until all ranks above this one have joined. `check` looks at a connected rank that has something
  /// to read.
  Status acceptFromOthers(const Fd &listener, const std::function<Status(int64_t)> &check);

  const TcpLaunch &launch;
  const Notes &notes;
  Deadline begin = Clock::now(), nextNote, deadline;
  Mesh mesh;
};

/// Joins the run as rank 0, which listens at the first of `addresses` that it can listen at.
Status lead(Meeting &meeting, const std::vector<Address> &addresses);
/// Joins the run as another rank; `addresses` are those of rank 0.
Status follow(Meeting &meeting, const std::vector<Address> &addresses);

} // namespace kerf::runtime::tcp
