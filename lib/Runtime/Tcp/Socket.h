// SPDX-License-Identifier: Apache-2.0
// TCP sockets: addresses, listening, connecting, and reads and writes with a deadline. No socket blocks by itself.
#pragma once

#include "kerf/Support/Result.h"
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace kerf::runtime::tcp {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Owns a file descriptor.
class Fd {
public:
  Fd() = default;
  explicit Fd(int number) : number(number) {}
  Fd(Fd &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Fd &operator=(Fd &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Fd() { close(); }
  void close();
  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number = -1;
};

/// The IP address and the port of one end of a connection.
struct Address {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  /// Returns the address and the port as text, such as "10.0.0.5:29501" or "[::1]:29501".
  std::string text() const;
  int port() const;
  void setPort(int port);
  /// Returns whether the address reaches only this machine.
  bool isLoopback() const;
  /// Returns the 4 or 16 bytes of the IP address.
  std::span<const std::byte> ip() const;
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

/// Returns the address of these 4 or 16 bytes and a port.
Address addressOf(std::span<const std::byte> ip, int port);
/// Returns the addresses of a host name or of an IP address as text.
Result<std::vector<Address>> resolve(const std::string &host, int port);
/// Returns the address with port 0 that means all interfaces of this machine, for the same kind of IP as `like`.
Address anyAddress(const Address &like);
Address localAddress(const Fd &socket);
Address peerAddress(const Fd &socket);

/// Listens at an address; port 0 takes a free one. Returns the error number of the system on failure.
std::pair<Fd, int> listenAt(const Address &address);
/// Connects to an address. Returns the error number of the system on failure.
std::pair<Fd, int> connectTo(const Address &address, Deadline deadline);
/// Takes a connection from a listening socket; the result is empty where none waits.
Fd acceptFrom(const Fd &listener);
/// Switches off delays for small messages, and makes the system notice machines that no longer answer.
void setUpConnection(const Fd &socket);

/// Waits until the socket has something to read or is closed. Returns false if that is not so before the deadline.
bool waitForInput(const Fd &socket, Deadline deadline);

/// How a read or write ended.
enum class Transfer { Done, Closed, TimedOut };
/// Fills `bytes` from the socket.
Transfer readAll(const Fd &socket, std::span<std::byte> bytes, Deadline deadline);
/// Writes all of `bytes` to the socket.
Transfer writeAll(const Fd &socket, std::span<const std::byte> bytes, Deadline deadline);

/// Returns the milliseconds until the deadline for poll(), at most `most` and at least 0.
int millisecondsUntil(Deadline deadline, int most = 1000);

} // namespace kerf::runtime::tcp
