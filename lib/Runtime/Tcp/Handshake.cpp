// SPDX-License-Identifier: Apache-2.0
#include "Handshake.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

namespace kerf::runtime::tcp {

namespace {
constexpr std::chrono::seconds kGreetingSeconds{10}; // time that a connection has to introduce itself
constexpr size_t kMostGuests = 4096;                 // connections that may be introducing themselves at the same time

Digest randomBytes() {
  Digest bytes = {};
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count = getrandom(bytes.data() + at, bytes.size() - at, 0);
    at += count > 0 ? size_t(count) : 0;
  }
  return bytes;
}

/// Returns the proof for a challenge and the content that it belongs to.
Digest proofOf(const TcpLaunch &launch, const Digest &challenge, std::span<const std::byte> content) {
  std::vector<std::byte> all(challenge.begin(), challenge.end());
  all.insert(all.end(), content.begin(), content.end());
  return hmac(launch.secret, all);
}

/// Compares in a time that does not depend on the content.
bool isSame(const Digest &a, std::span<const std::byte> b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.size() && b.size() == a.size(); ++i)
    difference |= a[i] ^ b[i];
  return b.size() == a.size() && difference == std::byte(0);
}

std::string textOf(const std::vector<std::byte> &content) {
  return std::string(reinterpret_cast<const char *>(content.data()), content.size());
}
} // namespace

std::string Member::name() const { return fmt::format("rank {} (process {} on {})", rank, process, host); }

Member selfOf(const TcpLaunch &launch) {
  char host[256] = "an unnamed machine";
  gethostname(host, sizeof host - 1);
  return {launch.rank, getpid(), host, {}, {}};
}

Status greet(const Fd &socket, const TcpLaunch &launch, const Member &self, const std::string &whom,
             Deadline deadline) {
  auto stranger = [&](const std::string &what) {
    return Error{fmt::format("rank {} connects to {} at {}, but {}; if another program listens there, set KERF_PORT to "
                             "a free port for all ranks, and start the same Kerf on all machines",
                             launch.rank, whom, peerAddress(socket).text(), what)};
  };
  auto refused = [&](const Record &record) {
    return Error{fmt::format("{} refuses rank {}: {}", whom, launch.rank, textOf(record.content))};
  };
  auto challenge = readRecord(socket, kMostRecordBytes, deadline);
  if (!challenge)
    return stranger(challenge.error().message);
  if (challenge->kind == RecordKind::Refused)
    return refused(*challenge);
  Digest theirs = {}, mine = randomBytes();
  if (challenge->kind != RecordKind::Challenge || challenge->content.size() != theirs.size())
    return stranger("it did not begin with a challenge");
  std::copy(challenge->content.begin(), challenge->content.end(), theirs.begin());
  RecordWriter hello;
  hello.number(uint64_t(launch.rank));
  hello.number(uint64_t(launch.ranks));
  hello.number(uint64_t(self.process));
  hello.number(self.address.length ? uint64_t(self.address.port()) : 0);
  hello.text(self.host);
  hello.bytes(mine);
  hello.bytes(proofOf(launch, theirs, hello.all));
  if (!sendRecord(socket, RecordKind::Hello, hello.all, deadline))
    return stranger("it closed the connection");
  auto answer = readRecord(socket, kMostRecordBytes, deadline);
  if (!answer)
    return stranger(answer.error().message);
  if (answer->kind == RecordKind::Refused)
    return refused(*answer);
  if (answer->kind != RecordKind::Welcome || !isSame(proofOf(launch, mine, {}), answer->content))
    return stranger("it does not know this run's secret (KERF_SECRET or TORCHELASTIC_RUN_ID)");
  return ok();
}

std::vector<size_t> Doorkeeper::wait(const std::vector<const Fd *> &watched, int milliseconds) {
  std::vector<pollfd> entries;
  for (const Fd *fd : watched)
    entries.push_back({fd->get(), POLLIN, 0});
  entries.push_back({listener.get(), POLLIN, 0});
  for (const Guest &guest : guests) {
    entries.push_back({guest.socket.get(), POLLIN, 0});
    milliseconds = std::min(milliseconds, millisecondsUntil(guest.deadline));
  }
  poll(entries.data(), entries.size(), milliseconds);
  std::vector<size_t> readable;
  for (size_t i = 0; i < watched.size(); ++i)
    if (entries[i].revents)
      readable.push_back(i);
  return readable;
}

void Doorkeeper::admit() {
  while (guests.size() < kMostGuests) {
    Fd socket = acceptFrom(listener);
    if (!socket)
      return;
    setUpConnection(socket);
    std::string from = peerAddress(socket).text();
    Digest challenge = randomBytes();
    Deadline deadline = Clock::now() + kGreetingSeconds;
    sendRecord(socket, RecordKind::Challenge, challenge, deadline);
    guests.push_back({std::move(socket), std::move(from), challenge, {}, deadline, false});
  }
}

void Doorkeeper::turnAway(Guest &guest, const std::string &reason) {
  sendRecord(guest.socket, RecordKind::Refused, std::as_bytes(std::span(reason)), guest.deadline);
  guest.isDone = true;
}

/// Reads what a guest has sent. Turns it away where that is no greeting of a rank.
void Doorkeeper::hear(Guest &guest) {
  auto stranger = [&](const std::string &what) {
    notes(fmt::format("a connection from {} is closed, because it is from no rank of this run: {}", guest.from, what));
    turnAway(guest, what);
  };
  while (true) {
    size_t wanted = kRecordHeaderBytes;
    if (guest.received.size() >= wanted) {
      std::span<const std::byte> received(guest.received);
      RecordHeader header = decodeRecord(received.first<kRecordHeaderBytes>(), kMostRecordBytes);
      if (header.wrong.empty() && header.kind != RecordKind::Hello)
        header.wrong = "it did not introduce itself";
      if (!header.wrong.empty())
        return stranger(header.wrong);
      wanted += header.size;
      if (guest.received.size() == wanted)
        return;
    }
    std::array<std::byte, kMostRecordBytes> bytes;
    ssize_t count = recv(guest.socket.get(), bytes.data(), std::min(bytes.size(), wanted - guest.received.size()), 0);
    if (count > 0) {
      guest.received.insert(guest.received.end(), bytes.begin(), bytes.begin() + count);
      continue;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR))
      return stranger("it closed the connection before it had introduced itself");
    if (Clock::now() >= guest.deadline)
      return stranger(fmt::format("it did not introduce itself within {} s", kGreetingSeconds.count()));
    return;
  }
}

/// Returns the rank that a guest is once its greeting is complete and right.
std::optional<Member> Doorkeeper::introduce(Guest &guest, const std::function<bool(int64_t)> &isKnown) {
  std::span<const std::byte> received(guest.received);
  if (guest.isDone || received.size() < kRecordHeaderBytes ||
      received.size() != kRecordHeaderBytes + decodeRecord(received.first<kRecordHeaderBytes>(), kMostRecordBytes).size)
    return std::nullopt;
  auto content = received.subspan(kRecordHeaderBytes);
  RecordReader reader(content);
  Member member;
  member.rank = int64_t(reader.number());
  int64_t ranks = int64_t(reader.number());
  member.process = int64_t(reader.number());
  int64_t port = int64_t(reader.number());
  member.host = reader.text();
  auto challenge = reader.bytes(sizeof(Digest));
  auto proof = reader.bytes(sizeof(Digest));
  auto refuse = [&](const std::string &reason) {
    notes(fmt::format("{} at {} is refused: {}", member.name(), guest.from, reason));
    turnAway(guest, reason);
    return std::nullopt;
  };
  if (reader.failed) {
    member = {};
    notes(fmt::format("a connection from {} is closed, because its greeting is incomplete", guest.from));
    turnAway(guest, "the greeting is incomplete");
    return std::nullopt;
  }
  if (!isSame(proofOf(launch, guest.challenge, content.first(content.size() - sizeof(Digest))), proof)) {
    notes(fmt::format("a connection from {} is closed, because it does not know this run's secret (KERF_SECRET or "
                      "TORCHELASTIC_RUN_ID)",
                      guest.from));
    turnAway(guest, "its secret (KERF_SECRET or TORCHELASTIC_RUN_ID) is not that of this run; set the same for all "
                    "ranks, or KERF_PORT to another port for another run");
    return std::nullopt;
  }
  if (ranks != launch.ranks)
    return refuse(fmt::format("it was started for {} ranks, and this run has {}; start all ranks with the same number "
                              "(WORLD_SIZE)",
                              ranks, launch.ranks));
  if (member.rank < first || member.rank >= launch.ranks)
    return refuse(fmt::format("it is rank {}, but the ranks {} to {} connect here; give each process its own RANK",
                              member.rank, first, launch.ranks - 1));
  if (isKnown(member.rank))
    return refuse(fmt::format("rank {} has joined already; give each process its own RANK", member.rank));
  Digest theirs;
  std::copy(challenge.begin(), challenge.end(), theirs.begin());
  if (!sendRecord(guest.socket, RecordKind::Welcome, proofOf(launch, theirs, {}), guest.deadline))
    return refuse("it closed the connection; look at its own messages");
  member.address = peerAddress(guest.socket);
  member.address.setPort(int(port));
  member.socket = std::move(guest.socket);
  guest.isDone = true;
  return member;
}

std::vector<Member> Doorkeeper::take(const std::function<bool(int64_t)> &isKnown) {
  admit();
  std::vector<Member> members;
  for (Guest &guest : guests) {
    hear(guest);
    auto isTaken = [&](int64_t rank) {
      return isKnown(rank) ||
             std::any_of(members.begin(), members.end(), [&](const Member &each) { return each.rank == rank; });
    };
    if (auto member = introduce(guest, isTaken))
      members.push_back(std::move(*member));
  }
  std::erase_if(guests, [](const Guest &guest) { return guest.isDone; });
  return members;
}

} // namespace kerf::runtime::tcp
