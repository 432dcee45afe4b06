// SPDX-License-Identifier: Apache-2.0
#include "Join.h"
#include "Meeting.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

namespace kerf::runtime::tcp {

namespace {
constexpr std::chrono::seconds kNoteSeconds{30}; // time between two notes of a rank that waits

/// Makes sure that the process may have a connection to each rank.
Status raiseFileLimit(int64_t ranks) {
  const rlim_t wanted = rlim_t(ranks) + 256; // and files of data, checkpoints and libraries
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= wanted)
    return ok();
  if (limit.rlim_max < wanted)
    return Error{fmt::format("{} ranks need {} open files in each process, and this machine allows {}; raise the limit "
                             "(ulimit -Hn)",
                             ranks, wanted, limit.rlim_max)};
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
  return ok();
}

} // namespace

Meeting::Meeting(const TcpLaunch &launch, const Notes &notes)
    : launch(launch), notes(notes), nextNote(begin + kNoteSeconds),
      deadline(begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(launch.joinSeconds))) {
  mesh.members.resize(size_t(launch.ranks));
  self() = selfOf(launch);
}

bool Meeting::isComplete() const {
  for (int64_t rank = 0; rank < launch.ranks; ++rank)
    if (!isKnown(rank))
      return false;
  return true;
}

std::string Meeting::missing() const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < launch.ranks; ++rank)
    if (!isKnown(rank))
      ranks.push_back(rank);
  const size_t shown = std::min<size_t>(ranks.size(), 16);
  return fmt::format("{} of {} ranks: {}{}", ranks.size(), launch.ranks,
                     fmt::join(ranks.begin(), ranks.begin() + std::ptrdiff_t(shown), ", "),
                     shown < ranks.size() ? " and more" : "");
}

void Meeting::remind(const std::function<std::string()> &text) {
  if (Clock::now() < nextNote)
    return;
  nextNote += kNoteSeconds;
  notes(fmt::format("rank {} waits for {} ({:.0f} s of {:.0f} s)", launch.rank, text(),
                    std::chrono::duration<double>(Clock::now() - begin).count(), launch.joinSeconds));
}

Error Meeting::lost(const Member &member) const {
  return {fmt::format("{} has ended while the ranks connected to each other; look at its own messages", member.name())};
}

Status Meeting::acceptFromOthers(const Fd &listener, const std::function<Status(int64_t)> &check) {
  Doorkeeper door(launch, listener, launch.rank + 1, notes);
  auto known = [&](int64_t rank) { return isKnown(rank); };
  while (!isComplete()) {
    remind([&] { return missing(); });
    if (isLate())
      return Error{fmt::format("rank {} has waited {:.0f} s for {}; start as many processes as WORLD_SIZE says, or "
                               "set KERF_JOIN_SECONDS to a longer time",
                               launch.rank, launch.joinSeconds, missing())};
    std::vector<const Fd *> watched;
    std::vector<int64_t> ranks;
    for (const Member &member : mesh.members)
      if (member.socket) {
        watched.push_back(&member.socket);
        ranks.push_back(member.rank);
      }
    for (size_t position : door.wait(watched, millisecondsUntil(deadline)))
      if (Status status = check(ranks[position]); !status)
        return status;
    for (Member &member : door.take(known)) {
      const auto rank = size_t(member.rank);
      if (launch.rank == 0)
        mesh.members[rank] = std::move(member);
      else
        mesh.members[rank].socket = std::move(member.socket);
    }
  }
  return ok();
}

Result<Mesh> join(const TcpLaunch &launch, const Notes &notes) {
  if (Status status = raiseFileLimit(launch.ranks); !status)
    return status.error();
  auto addresses = resolve(launch.address, launch.port);
  if (!addresses)
    return addresses.error();
  Meeting meeting(launch, notes);
  Status joined = launch.rank == 0 ? lead(meeting, *addresses) : follow(meeting, *addresses);
  if (!joined)
    return joined.error();
  return std::move(meeting.mesh);
}

} // namespace kerf::runtime::tcp
