// SPDX-License-Identifier: Apache-2.0
// How two processes of a run come to know each other. The one that listens sends random bytes; the one that connects
// answers with its rank and with a proof (HMAC) that it knows the run's secret; and the first one proves the same.
#pragma once

#include "Sha256.h"
#include "Wire.h"
#include "kerf/Runtime/Communicator.h"
#include <functional>

namespace kerf::runtime::tcp {

/// One rank of a run, as the others know it.
struct Member {
  int64_t rank = 0;
  int64_t process = 0; // process id on its machine
  std::string host;    // name of its machine
  Address address;     // where it listens for other ranks
  Fd socket;           // the connection to it; empty for this rank itself
  /// Returns how messages name the rank, such as "rank 3 (process 4711 on node7)".
  std::string name() const;
};

/// Returns this process as a member.
Member selfOf(const TcpLaunch &launch);

/// Introduces this process to the one at the other end of `socket`; `whom` names that process in messages.
/// `self` says where this process listens. Errors are whole messages.
Status greet(const Fd &socket, const TcpLaunch &launch, const Member &self, const std::string &whom, Deadline deadline);

using Notes = std::function<void(const std::string &)>;

/// Takes connections from ranks that join, and turns away everybody else.
class Doorkeeper {
public:
  /// Takes the ranks from `first` on.
  Doorkeeper(const TcpLaunch &launch, const Fd &listener, int64_t first, const Notes &notes)
      : launch(launch), listener(listener), first(first), notes(notes) {}

  /// Waits up to `milliseconds` for anything to happen on the listening socket, on connections that are being
  /// introduced, or on `watched`. Returns the positions in `watched` that have something to read.
  std::vector<size_t> wait(const std::vector<const Fd *> &watched, int milliseconds);
  /// Returns the ranks that have been introduced since the last call. `isKnown` says which ranks have joined already.
  std::vector<Member> take(const std::function<bool(int64_t)> &isKnown);

private:
  /// A connection that has not introduced itself yet.
  struct Guest {
    Fd socket;
    std::string from;
    Digest challenge;
    std::vector<std::byte> received;
    Deadline deadline;
    bool isDone = false;
  };
  void admit();
  void hear(Guest &guest);
  std::optional<Member> introduce(Guest &guest, const std::function<bool(int64_t)> &isKnown);
  void turnAway(Guest &guest, const std::string &reason);

  const TcpLaunch &launch;
  const Fd &listener;
  int64_t first;
  const Notes &notes;
  std::vector<Guest> guests;
};

} // namespace kerf::runtime::tcp
