// SPDX-License-Identifier: Apache-2.0
#include "Wire.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace kerf::standin {

namespace {
struct Address {
  sockaddr_un value = {};
  socklen_t size = 0;
};

/// Returns the socket address of a rank: a name that no file has and that vanishes with the socket. With the variable
/// KERF_STANDIN_WIRE, it is a file in that folder, which ranks in other network namespaces see as well.
Address addressOf(const std::string &name, int rank) {
  static const char *const folder = std::getenv("KERF_STANDIN_WIRE");
  Address address;
  std::string text = (folder ? std::string(folder) + "/" : std::string(1, '\0')) + name + "-" + std::to_string(rank);
  if (text.size() >= sizeof address.value.sun_path)
    std::abort();
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path, text.data(), text.size());
  address.size = socklen_t(offsetof(sockaddr_un, sun_path) + text.size() + (folder ? 1 : 0));
  return address;
}

const sockaddr *pointer(const Address &address) { return reinterpret_cast<const sockaddr *>(&address.value); }

int newSocket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

bool isOfOtherProcess(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid != getpid();
}

/// Connects to a rank and tells it this rank's number. Returns -1 where the rank does not listen yet.
int connectTo(const std::string &name, int peer, int rank) {
  int socket = newSocket();
  Address address = addressOf(name, peer);
  if (socket >= 0 && connect(socket, pointer(address), address.size) == 0 &&
      ::send(socket, &rank, sizeof rank, MSG_NOSIGNAL) == ssize_t(sizeof rank))
    return socket;
  if (socket >= 0)
    close(socket);
  return -1;
}

/// Accepts a connection, if there is one, and sets the peer's rank. Returns -1 where there is none.
int acceptFrom(int listener, int ranks, int *peer) {
  pollfd waiting{listener, POLLIN, 0};
  if (poll(&waiting, 1, 0) <= 0)
    return -1;
  int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0)
    return -1;
  if (recv(socket, peer, sizeof *peer, MSG_WAITALL) == ssize_t(sizeof *peer) && *peer >= 0 && *peer < ranks)
    return socket;
  close(socket);
  return -1;
}
} // namespace

void killAtCall(const char *variable) {
  static const char *const chosen = std::getenv(variable);
  static std::atomic<long> calls = 0;
  if (chosen && ++calls == std::atol(chosen))
    kill(getpid(), SIGKILL);
}

std::unique_ptr<Wire> Wire::join(const std::string &name, int ranks, int rank,
                                 const std::function<bool(std::chrono::milliseconds)> &areAllHere,
                                 std::chrono::steady_clock::time_point deadline) {
  constexpr std::chrono::milliseconds kFirstWait(20), kWait(5); // threads of one process meet within the first
  std::unique_ptr<Wire> wire(new Wire(ranks));
  int listener = newSocket();
  Address own = addressOf(name, rank);
  if (listener < 0 || bind(listener, pointer(own), own.size) != 0 || listen(listener, ranks) != 0)
    std::abort();
  int missing = ranks - 1;
  bool hasOthers = false;
  auto add = [&](int peer, int socket) {
    if (socket < 0)
      return;
    hasOthers |= isOfOtherProcess(socket);
    wire->peers[size_t(peer)].socket = socket;
    --missing;
  };
  for (auto wait = kFirstWait; missing > 0 || !hasOthers; wait = kWait) {
    if (areAllHere(wait) || std::chrono::steady_clock::now() > deadline) {
      wire = nullptr;
      break;
    }
    for (int peer = 0; peer < rank; ++peer)
      if (wire->peers[size_t(peer)].socket < 0)
        add(peer, connectTo(name, peer, rank));
    int peer = 0;
    for (int socket = acceptFrom(listener, ranks, &peer); socket >= 0; socket = acceptFrom(listener, ranks, &peer))
      add(peer, socket);
  }
  close(listener);
  return wire;
}

Wire::~Wire() {
  for (Peer &peer : peers)
    if (peer.socket >= 0)
      close(peer.socket);
}

void Wire::abort() {
  aborted = true;
  for (Peer &peer : peers)
    if (peer.socket >= 0)
      shutdown(peer.socket, SHUT_RDWR);
}

void Wire::write(Peer &peer) {
  while (!peer.ended && !peer.outgoing.empty()) {
    Outgoing &out = peer.outgoing.front();
    bool inHeader = out.done < sizeof(Header);
    const std::byte *from = inHeader ? reinterpret_cast<const std::byte *>(&out.header) + out.done
                                     : out.bytes + (out.done - sizeof(Header));
    size_t size = inHeader ? sizeof(Header) - out.done : sizeof(Header) + out.header.size - out.done;
    ssize_t written = size ? ::send(peer.socket, from, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (written < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    peer.ended = written < 0;
    out.done += written > 0 ? size_t(written) : 0;
    if (out.done == sizeof(Header) + out.header.size)
      peer.outgoing.pop_front();
  }
  if (peer.ended)
    peer.outgoing.clear();
}

void Wire::read(Peer &peer) {
  while (peer.socket >= 0 && !peer.ended) {
    Arrived &in = peer.arriving;
    bool inHeader = peer.done < sizeof(Header);
    std::byte *to = inHeader ? reinterpret_cast<std::byte *>(&in.header) + peer.done
                             : in.bytes.data() + (peer.done - sizeof(Header));
    size_t size = inHeader ? sizeof(Header) - peer.done : sizeof(Header) + in.header.size - peer.done;
    ssize_t got = recv(peer.socket, to, size, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    peer.ended = got <= 0;
    if (peer.ended)
      return;
    peer.done += size_t(got);
    if (peer.done == sizeof(Header))
      in.bytes.resize(in.header.size);
    if (peer.done < sizeof(Header) || peer.done < sizeof(Header) + in.header.size)
      continue;
    if (in.header.isTaken)
      --peer.untaken;
    else
      peer.arrived[size_t(in.header.channel)].push_back(std::move(in));
    peer.arriving = {};
    peer.done = 0;
  }
}

bool Wire::moveUntil(const std::function<bool()> &isDone, const std::function<bool(const Peer &)> &needs) {
  constexpr int kPollMilliseconds = 20;
  while (!aborted && !(stops && stops())) {
    std::vector<pollfd> sockets;
    for (Peer &peer : peers) {
      read(peer);
      write(peer);
      if (peer.socket >= 0 && !peer.ended)
        sockets.push_back({peer.socket, short(POLLIN | (peer.outgoing.empty() ? 0 : POLLOUT)), 0});
    }
    if (isDone())
      return true;
    for (const Peer &peer : peers)
      if (peer.ended && needs(peer))
        isBroken = true;
    poll(sockets.data(), sockets.size(), kPollMilliseconds);
  }
  return false;
}

void Wire::send(Channel channel, int peer, uint64_t what, const void *bytes, size_t size) {
  Peer &to = peers[size_t(peer)];
  to.outgoing.push_back({{0, channel, what, size}, static_cast<const std::byte *>(bytes)});
  ++to.untaken;
}

std::optional<std::vector<std::byte>> Wire::receive(Channel channel, int peer, uint64_t what, size_t size) {
  Peer &from = peers[size_t(peer)];
  std::deque<Arrived> &queue = from.arrived[size_t(channel)];
  if (!moveUntil([&] { return !queue.empty(); }, [&](const Peer &one) { return &one == &from && queue.empty(); }))
    return std::nullopt;
  Arrived message = std::move(queue.front());
  queue.pop_front();
  if (message.header.what != what || message.header.size != size)
    std::abort();
  from.outgoing.push_back({{1, channel, what, 0}});
  return std::move(message.bytes);
}

bool Wire::waitUntilWritten() {
  return moveUntil(
      [&] { return std::all_of(peers.begin(), peers.end(), [](const Peer &peer) { return peer.outgoing.empty(); }); },
      [](const Peer &peer) { return !peer.outgoing.empty(); });
}

bool Wire::waitUntilTaken() {
  return moveUntil(
      [&] {
        return std::all_of(peers.begin(), peers.end(),
                           [](const Peer &peer) { return peer.untaken == 0 && peer.outgoing.empty(); });
      },
      [](const Peer &peer) { return peer.untaken > 0; });
}

} // namespace kerf::standin
