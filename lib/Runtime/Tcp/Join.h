// SPDX-License-Identifier: Apache-2.0
// How the processes of a run find each other. Rank 0 listens at an address that all ranks know. Every other rank
// connects to rank 0, says where it listens itself, and gets the addresses of all ranks. Then each rank connects to the
// ranks below it. All connections are made at the start and not at the first message, so that whatever prevents one is
// said before the training, and the end of any process is noticed by all others at once.
#pragma once

#include "Handshake.h"

namespace kerf::runtime::tcp {

/// The connections of this process to all other ranks.
struct Mesh {
  std::vector<Member> members; // by rank
  Fd listener;                 // where rank 0 listens; empty on other ranks
};

/// Connects this process with all other ranks of the run.
Result<Mesh> join(const TcpLaunch &launch, const Notes &notes);

} // namespace kerf::runtime::tcp
