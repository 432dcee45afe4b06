// SPDX-License-Identifier: Apache-2.0
#include "Socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

namespace kerf::runtime::tcp {

namespace {
const sockaddr_in &asIp4(const sockaddr_storage &storage) { return reinterpret_cast<const sockaddr_in &>(storage); }
const sockaddr_in6 &asIp6(const sockaddr_storage &storage) { return reinterpret_cast<const sockaddr_in6 &>(storage); }

void setOption(const Fd &socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

/// Waits until the socket has one of `events`. Returns whether it has one before the deadline.
bool waitFor(const Fd &socket, short events, Deadline deadline) {
  while (true) {
    pollfd entry = {socket.get(), events, 0};
    if (poll(&entry, 1, millisecondsUntil(deadline)) > 0)
      return true;
    if (Clock::now() >= deadline)
      return false;
  }
}

bool isTemporary(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }
} // namespace

void Fd::close() {
  if (number >= 0)
    ::close(number);
  number = -1;
}

std::string Address::text() const {
  char host[NI_MAXHOST] = "?";
  getnameinfo(get(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port()) : fmt::format("{}:{}", host, port());
}

int Address::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? asIp6(storage).sin6_port : asIp4(storage).sin_port);
}

void Address::setPort(int port) {
  if (storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(storage).sin6_port = htons(uint16_t(port));
  else
    reinterpret_cast<sockaddr_in &>(storage).sin_port = htons(uint16_t(port));
}

bool Address::isLoopback() const {
  if (storage.ss_family != AF_INET6)
    return ntohl(asIp4(storage).sin_addr.s_addr) >> 24 == 127;
  const in6_addr &address = asIp6(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

std::span<const std::byte> Address::ip() const {
  if (length == 0)
    return {};
  return storage.ss_family == AF_INET6 ? std::as_bytes(std::span(&asIp6(storage).sin6_addr, 1))
                                       : std::as_bytes(std::span(&asIp4(storage).sin_addr, 1));
}

Address addressOf(std::span<const std::byte> ip, int port) {
  Address address;
  const bool isLong = ip.size() == sizeof(in6_addr);
  address.storage.ss_family = isLong ? AF_INET6 : AF_INET;
  address.length = isLong ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (ip.size() == address.ip().size())
    std::memcpy(const_cast<std::byte *>(address.ip().data()), ip.data(), ip.size());
  address.setPort(port);
  return address;
}

Result<std::vector<Address>> resolve(const std::string &host, int port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  int code = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0)
    return Error{fmt::format("MASTER_ADDR is '{}', for which no address is found: {}; set it to the name or the IP "
                             "address of the machine of rank 0",
                             host, gai_strerror(code))};
  std::vector<Address> addresses;
  for (addrinfo *one = found; one; one = one->ai_next) {
    Address &address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
    address.setPort(port);
  }
  freeaddrinfo(found);
  return addresses;
}

Address anyAddress(const Address &like) {
  Address any;
  any.storage.ss_family = like.storage.ss_family; // zeros mean all interfaces
  any.length = like.length;
  return any;
}

Address localAddress(const Fd &socket) {
  Address address;
  address.length = sizeof address.storage;
  getsockname(socket.get(), reinterpret_cast<sockaddr *>(&address.storage), &address.length);
  return address;
}

Address peerAddress(const Fd &socket) {
  Address address;
  address.length = sizeof address.storage;
  getpeername(socket.get(), reinterpret_cast<sockaddr *>(&address.storage), &address.length);
  return address;
}

std::pair<Fd, int> listenAt(const Address &address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket)
    return {Fd(), errno};
  setOption(socket, SOL_SOCKET, SO_REUSEADDR, 1); // connections of an earlier run may still be closing
  if (bind(socket.get(), address.get(), address.length) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return {Fd(), errno};
  return {std::move(socket), 0};
}

std::pair<Fd, int> connectTo(const Address &address, Deadline deadline) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket)
    return {Fd(), errno};
  if (connect(socket.get(), address.get(), address.length) != 0) {
    if (errno != EINPROGRESS)
      return {Fd(), errno};
    if (!waitFor(socket, POLLOUT, deadline))
      return {Fd(), ETIMEDOUT};
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error)
      return {Fd(), error};
  }
  // A free local port can be the very port that nobody listens at: the socket is then connected to itself.
  Address own = localAddress(socket), peer = peerAddress(socket);
  if (own.text() == peer.text())
    return {Fd(), ECONNREFUSED};
  return {std::move(socket), 0};
}

Fd acceptFrom(const Fd &listener) {
  return Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void setUpConnection(const Fd &socket) {
  setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 20); // seconds
  setOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  setOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
  setOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000); // milliseconds without an acknowledgement
}

bool waitForInput(const Fd &socket, Deadline deadline) { return waitFor(socket, POLLIN, deadline); }

Transfer readAll(const Fd &socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count > 0)
      bytes = bytes.subspan(size_t(count));
    else if (count == 0 || !isTemporary(errno))
      return Transfer::Closed;
    else if (!waitFor(socket, POLLIN, deadline))
      return Transfer::TimedOut;
  }
  return Transfer::Done;
}

Transfer writeAll(const Fd &socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t count = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0)
      bytes = bytes.subspan(size_t(count));
    else if (!isTemporary(errno))
      return Transfer::Closed;
    else if (!waitFor(socket, POLLOUT, deadline))
      return Transfer::TimedOut;
  }
  return Transfer::Done;
}

int millisecondsUntil(Deadline deadline, int most) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return int(std::clamp<int64_t>(left, 0, most));
}

} // namespace kerf::runtime::tcp
