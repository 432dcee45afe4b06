// SPDX-License-Identifier: Apache-2.0
// Rank 0's part in joining: it takes all other ranks, tells each where the others are, and lets them begin together.
#include "Meeting.h"

#include <cerrno>
#include <cstring>

namespace kerf::runtime::tcp {

namespace {
Status listenForAll(Meeting &meeting, const std::vector<Address> &addresses) {
  const std::string &host = meeting.launch.address;
  const bool isLoopbackName = host == "localhost" || host.rfind("127.", 0) == 0 || host == "::1";
  int error = 0;
  Address tried;
  for (const Address &address : addresses) {
    tried = address;
    // The name of a machine often means a loopback address on the machine itself, where other machines cannot reach.
    if (address.isLoopback() && !isLoopbackName) {
      tried = anyAddress(address);
      tried.setPort(meeting.launch.port);
    }
    auto [socket, code] = listenAt(tried);
    meeting.mesh.listener = std::move(socket);
    error = code;
    if (meeting.mesh.listener || code == EADDRINUSE)
      break;
  }
  if (meeting.mesh.listener)
    return ok();
  if (error == EADDRNOTAVAIL)
    return Error{
        fmt::format("rank 0 cannot listen at {}, because MASTER_ADDR '{}' is no address of its machine {}; set "
                    "MASTER_ADDR to the machine of rank 0",
                    tried.text(), host, meeting.self().host)};
  return Error{fmt::format("rank 0 cannot listen at {}: {}; set KERF_PORT to a free port for all ranks", tried.text(),
                           std::strerror(error))};
}

Status acceptAll(Meeting &meeting) {
  return meeting.acceptFromOthers(meeting.mesh.listener, [&](int64_t rank) -> Status {
    Member &member = meeting.mesh.members[size_t(rank)]; // it sends nothing at this time: it has gone
    meeting.notes(fmt::format(
        "{} has ended before all ranks had joined; rank 0 waits for another process with its rank", member.name()));
    member = {};
    return ok();
  });
}

/// Fails where some ranks came over the loopback address of rank 0's machine, at which other machines cannot reach
/// them.
Status checkAddresses(Meeting &meeting) {
  const Member *local = nullptr, *distant = nullptr;
  for (const Member &member : meeting.mesh.members)
    if (member.socket)
      (member.address.isLoopback() ? local : distant) = &member;
  if (!local || !distant)
    return ok();
  return Error{fmt::format("{} came from the address {}, and {} from {}, so they cannot reach each other; set "
                           "MASTER_ADDR to an IP address of rank 0's machine that all machines can reach",
                           local->name(), local->address.text(), distant->name(), distant->address.text())};
}

Status sendTable(Meeting &meeting) {
  RecordWriter table;
  for (const Member &member : meeting.mesh.members) {
    table.number(uint64_t(member.process));
    table.text(member.host);
    auto ip = member.address.ip();
    table.number(ip.size(), 2);
    table.bytes(ip);
    table.number(uint64_t(member.address.port()));
  }
  for (const Member &member : meeting.mesh.members)
    if (member.socket && !sendRecord(member.socket, RecordKind::Table, table.all, meeting.deadline))
      return meeting.lost(member);
  return ok();
}

/// Waits until each rank says that it is connected to all others, and then lets all of them go.
Status awaitConnected(Meeting &meeting) {
  std::vector<bool> isConnected(meeting.mesh.members.size());
  isConnected[0] = true;
  Doorkeeper door(meeting.launch, meeting.mesh.listener, meeting.launch.ranks, meeting.notes); // takes nobody any more
  while (std::find(isConnected.begin(), isConnected.end(), false) != isConnected.end()) {
    if (meeting.isLate())
      return Error{fmt::format("not all ranks could connect to each other within {:.0f} s; look for a firewall between "
                               "the machines, or set KERF_JOIN_SECONDS to a longer time",
                               meeting.launch.joinSeconds)};
    std::vector<const Fd *> watched;
    std::vector<size_t> ranks;
    for (size_t rank = 1; rank < isConnected.size(); ++rank)
      if (!isConnected[rank]) {
        watched.push_back(&meeting.mesh.members[rank].socket);
        ranks.push_back(rank);
      }
    for (size_t position : door.wait(watched, millisecondsUntil(meeting.deadline))) {
      auto record = readRecord(*watched[position], kMostRecordBytes, Clock::now() + kRecordSeconds);
      if (!record || record->kind != RecordKind::Connected)
        return meeting.lost(meeting.mesh.members[ranks[position]]);
      isConnected[ranks[position]] = true;
    }
    door.take([](int64_t) { return true; });
  }
  for (const Member &member : meeting.mesh.members)
    if (member.socket && !sendRecord(member.socket, RecordKind::Go, {}, meeting.deadline))
      return meeting.lost(member);
  return ok();
}
} // namespace

Status lead(Meeting &meeting, const std::vector<Address> &addresses) {
  if (Status status = listenForAll(meeting, addresses); !status)
    return status;
  Status done = acceptAll(meeting);
  if (done)
    done = checkAddresses(meeting);
  if (done)
    done = sendTable(meeting);
  if (done)
    done = awaitConnected(meeting);
  if (!done)
    for (int64_t rank = 1; rank < meeting.launch.ranks; ++rank)
      if (Member &member = meeting.mesh.members[size_t(rank)]; member.socket)
        sendRecord(member.socket, RecordKind::Refused, std::as_bytes(std::span(done.error().message)),
                   Clock::now() + kRecordSeconds);
  return done;
}

} // namespace kerf::runtime::tcp
