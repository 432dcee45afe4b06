// SPDX-License-Identifier: Apache-2.0
// The part of all ranks but rank 0 in joining: they find rank 0, learn from it where the others are, and connect to the
// ranks below them.
#include "Meeting.h"

#include <cstring>
#include <thread>

namespace kerf::runtime::tcp {

namespace {
constexpr std::chrono::milliseconds kRetryPause{100}; // time between two attempts to connect to rank 0
constexpr std::chrono::seconds kConnectSeconds{5};    // time for one attempt

Member &zeroOf(Meeting &meeting) { return meeting.mesh.members[0]; }

Status connectToZero(Meeting &meeting, const std::vector<Address> &addresses) {
  std::string reason;
  while (true) {
    for (const Address &address : addresses) {
      auto [socket, code] = connectTo(address, std::min(meeting.deadline, Clock::now() + kConnectSeconds));
      if (socket) {
        setUpConnection(socket);
        zeroOf(meeting).socket = std::move(socket);
        return ok();
      }
      reason = fmt::format("{}: {}", address.text(), std::strerror(code));
    }
    meeting.remind([&] { return fmt::format("rank 0 at {}", reason); });
    if (meeting.isLate())
      return Error{fmt::format("rank {} could not reach rank 0 within {:.0f} s ({}); start rank 0, and set MASTER_ADDR "
                               "and KERF_PORT to where it listens",
                               meeting.launch.rank, meeting.launch.joinSeconds, reason)};
    std::this_thread::sleep_for(kRetryPause);
  }
}

/// Reads the next record of rank 0, and returns its text as an error if rank 0 has given up.
Result<Record> recordOfZero(Meeting &meeting) {
  const Fd &socket = zeroOf(meeting).socket;
  const Deadline last = meeting.deadline + kRecordSeconds; // rank 0 says first that the time is over
  while (!waitForInput(socket, std::min(last, Clock::now() + std::chrono::seconds(1))) && Clock::now() < last)
    meeting.remind([] { return std::string("the other ranks, which have not all joined rank 0"); });
  auto record = readRecord(socket, kMostTableBytes, Clock::now() + kRecordSeconds);
  if (!record)
    return Error{fmt::format("rank 0 did not let rank {} begin: {}; look at the messages of rank 0",
                             meeting.launch.rank, record.error().message)};
  if (record->kind == RecordKind::Refused)
    return Error{std::string(reinterpret_cast<const char *>(record->content.data()), record->content.size())};
  return record;
}

Status readTable(Meeting &meeting) {
  auto record = recordOfZero(meeting);
  if (!record)
    return record.error();
  RecordReader table(record->content);
  for (int64_t rank = 0; rank < meeting.launch.ranks; ++rank) {
    Member &member = meeting.mesh.members[size_t(rank)];
    member.rank = rank;
    member.process = int64_t(table.number());
    member.host = table.text();
    auto ip = table.bytes(size_t(table.number(2)));
    const int port = int(table.number());
    if (rank != meeting.launch.rank && !table.failed)
      member.address = addressOf(ip, port);
  }
  if (record->kind != RecordKind::Table || table.failed)
    return Error{"rank 0 sent no complete table of the ranks; start the same Kerf on all machines"};
  return ok();
}

Status connectToMember(Meeting &meeting, Member &member) {
  auto [socket, code] = connectTo(member.address, meeting.deadline);
  if (!socket)
    return Error{fmt::format("rank {} cannot connect to {} at {}: {}; look at its own messages, and for a firewall "
                             "between the machines",
                             meeting.launch.rank, member.name(), member.address.text(), std::strerror(code))};
  setUpConnection(socket);
  if (Status status = greet(socket, meeting.launch, meeting.self(), member.name(), meeting.deadline); !status)
    return status;
  member.socket = std::move(socket);
  return ok();
}
} // namespace

Status follow(Meeting &meeting, const std::vector<Address> &addresses) {
  if (Status status = connectToZero(meeting, addresses); !status)
    return status;
  Address here = localAddress(zeroOf(meeting).socket);
  here.setPort(0);
  auto [listener, code] = listenAt(here);
  if (!listener)
    return Error{fmt::format("rank {} cannot listen at {}: {}; look at the limits of this machine", meeting.launch.rank,
                             here.text(), std::strerror(code))};
  meeting.self().address = localAddress(listener);
  if (Status status = greet(zeroOf(meeting).socket, meeting.launch, meeting.self(), "rank 0", meeting.deadline);
      !status)
    return status;
  if (Status status = readTable(meeting); !status)
    return status;
  for (int64_t rank = 1; rank < meeting.launch.rank; ++rank)
    if (Status status = connectToMember(meeting, meeting.mesh.members[size_t(rank)]); !status)
      return status;
  Status accepted = meeting.acceptFromOthers(listener, [&](int64_t rank) -> Status {
    if (rank != 0)
      return meeting.lost(meeting.mesh.members[size_t(rank)]);
    auto record = recordOfZero(meeting); // nothing else comes before this rank is connected
    return record ? Error{"rank 0 sent its records in the wrong order; report this, it is a bug of Kerf"}
                  : record.error();
  });
  if (!accepted)
    return accepted;
  if (!sendRecord(zeroOf(meeting).socket, RecordKind::Connected, {}, meeting.deadline))
    return meeting.lost(zeroOf(meeting));
  auto go = recordOfZero(meeting);
  return go ? ok() : Status(go.error());
}

} // namespace kerf::runtime::tcp
