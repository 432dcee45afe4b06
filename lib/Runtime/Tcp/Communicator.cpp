// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that are connected to each other over TCP. One thread of each process serves all of its
// connections: it sleeps until a socket has something to read or has room, and wakes the calls that wait. A rank whose
// process ends closes its connections, so all others notice that.
#include "kerf/Runtime/Communicator.h"
#include "Connection.h"
#include "Join.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace kerf::runtime {

namespace {
using tcp::Clock;
using tcp::Connection;

constexpr std::chrono::seconds kFailureSeconds{5};  // time in which the other ranks take the message of a failure
constexpr std::chrono::seconds kFarewellSeconds{2}; // time in which they close their connections after it

class TcpCommunicator : public Communicator {
public:
  explicit TcpCommunicator(tcp::Mesh mesh, int64_t self) : listener(std::move(mesh.listener)) {
    shared.self = self;
    for (tcp::Member &member : mesh.members)
      connections.push_back(std::make_unique<Connection>(std::move(member), shared));
  }

  /// Starts to serve the connections.
  Status start() {
    shared.epoll = tcp::Fd(epoll_create1(EPOLL_CLOEXEC));
    wake = tcp::Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!shared.epoll || !wake)
      return Error{fmt::format("rank {} cannot watch its connections: {}; raise the limit of open files (ulimit -n)",
                               shared.self, std::strerror(errno))};
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = &wake;
    epoll_ctl(shared.epoll.get(), EPOLL_CTL_ADD, wake.get(), &event);
    event.data.ptr = &listener;
    if (listener)
      epoll_ctl(shared.epoll.get(), EPOLL_CTL_ADD, listener.get(), &event);
    for (auto &connection : connections)
      if (connection->member().socket)
        connection->open();
    thread = std::thread([this] { serve(); });
    return ok();
  }

  /// Says goodbye to the other ranks, and waits until they have done so too, because their last messages may still be
  /// on their way.
  ~TcpCommunicator() override {
    if (!thread.joinable())
      return;
    {
      std::lock_guard lock(shared.mutex);
      stopping = true;
      farewell = Clock::now() + kFarewellSeconds;
      for (auto &connection : connections)
        connection->leave();
    }
    wakeUp();
    thread.join();
  }

  int64_t rank() const override { return shared.self; }
  int64_t size() const override { return int64_t(connections.size()); }
  int64_t maxTag() const override { return INT64_MAX; }

  void reserve(size_t messages) override {
    std::lock_guard lock(shared.mutex);
    shared.sending.reserve(messages);
  }

  Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) override {
    return startSend(bytes, to, tag, MayHold::No);
  }

  Status holdSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) override {
    return startSend(bytes, to, tag, bytes.size() <= tcp::kMostEagerBytes ? MayHold::Yes : MayHold::No);
  }

  void releaseSends() override {
    for (auto &connection : connections) {
      {
        std::lock_guard lock(shared.mutex);
        if (!connection->hasUnsent())
          continue;
      }
      connection->flush(tcp::kBurstBytes);
    }
  }

  Status finishSends(int64_t tag) override {
    std::unique_lock lock(shared.mutex);
    shared.sent.wait(
        lock, [&] { return std::find(shared.sending.begin(), shared.sending.end(), tag) == shared.sending.end(); });
    return shared.failure ? Status(*shared.failure) : ok();
  }

  Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) override {
    std::unique_lock lock(shared.mutex);
    if (shared.failure)
      return *shared.failure;
    return connections[size_t(from)]->receive(lock, bytes, tag);
  }

  void abort(const Error &error) override { fail(error, true); }

  std::optional<Error> failure() const override {
    if (!shared.failed)
      return std::nullopt;
    std::lock_guard lock(shared.mutex);
    return shared.failure;
  }

  bool tellsErrors() const override {
    std::lock_guard lock(shared.mutex);
    return std::all_of(connections.begin(), connections.begin() + shared.self, [&](const auto &connection) {
      return !connection->mayTell() || connection->member().rank == shared.lost;
    });
  }

private:
  enum class MayHold { No, Yes };
  Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag, MayHold hold) {
    Connection &connection = *connections[size_t(to)];
    {
      std::lock_guard lock(shared.mutex);
      if (shared.failure)
        return *shared.failure;
      if (Status started = connection.startSend(bytes, tag); !started)
        return started;
      if (to == shared.self || (hold == MayHold::Yes && connection.mayHold()))
        return ok();
    }
    connection.flush(1);
    return ok();
  }

  void wakeUp() {
    const uint64_t one = 1;
    [[maybe_unused]] ssize_t written = ::write(wake.get(), &one, sizeof one); // fails only where it is awake anyway
  }

  /// Ends the run on this rank, and with `tell` on all others. `lost` is the rank whose loss is the error, or -1.
  void fail(const Error &error, bool tell, int64_t lost = -1) {
    {
      std::lock_guard lock(shared.mutex);
      failLocked(error, tell, lost);
    }
    wakeUp();
  }

  /// Does the same with the mutex held.
  void failLocked(const Error &error, bool tell, int64_t lost) {
    if (shared.failure)
      return;
    shared.failure = error;
    shared.lost = lost;
    shared.failed = true;
    failureEnd = Clock::now() + kFailureSeconds;
    farewell = Clock::now() + kFarewellSeconds;
    for (auto &connection : connections) {
      connection->fail();
      if (tell && connection->member().socket)
        connection->tellFailure();
    }
    shared.sent.notify_all();
  }

  void serve() {
    std::vector<std::byte> scratch(size_t(64) << 10);
    std::array<epoll_event, 64> events;
    while (!isOver()) {
      int count = epoll_wait(shared.epoll.get(), events.data(), int(events.size()), pause());
      for (int i = 0; i < count; ++i) {
        void *source = events[size_t(i)].data.ptr;
        if (source == &wake)
          awake();
        else if (source == &listener)
          refuseLate();
        else
          serve(*static_cast<Connection *>(source), events[size_t(i)].events, scratch);
      }
      giveUpWriting();
    }
  }

  void serve(Connection &connection, uint32_t events, std::span<std::byte> scratch) {
    if ((events & ~uint32_t(EPOLLOUT)) && !connection.hasAnswered()) {
      tcp::ReadEnd end = connection.read(scratch);
      if (end.how == tcp::ReadEnd::Aborted)
        fail(end.error, false, end.lost);
      else if (end.how != tcp::ReadEnd::Open)
        lose(connection, end);
    }
    connection.flush(tcp::kBurstBytes);
    if (shared.failed) {
      std::lock_guard lock(shared.mutex);
      connection.detach();
    }
  }

  /// Takes note that nothing more comes from a rank. This is an error unless the rank has said goodbye.
  void lose(Connection &connection, const tcp::ReadEnd &end) {
    const std::string name = connection.member().name();
    Error error{
        fmt::format("{} has ended or cannot be reached ({}); look at its own messages, and on its machine for a "
                    "process that was killed",
                    name, end.reason.empty() ? "its connection is closed" : end.reason)};
    if (end.how == tcp::ReadEnd::Damaged)
      error.message = fmt::format("{} sent a message whose header is damaged; look for errors of the network or the "
                                  "memory of its machine",
                                  name);
    const bool isError = !connection.hasLeft() || end.how == tcp::ReadEnd::Damaged;
    std::lock_guard lock(shared.mutex);
    if (!isError)
      return connection.answerGoodbye(); // the flush that follows writes it
    failLocked(error, true, connection.member().rank);
    connection.detach();
    connection.close();
    wakeUp();
  }

  /// Carries out what other threads have asked for.
  void awake() {
    uint64_t number = 0;
    [[maybe_unused]] ssize_t count = ::read(wake.get(), &number, sizeof number);
    for (auto &connection : connections) {
      connection->flush(tcp::kBurstBytes);
      std::lock_guard lock(shared.mutex);
      if (shared.failed)
        connection->detach();
    }
  }

  /// Turns away processes that come when all ranks are there.
  void refuseLate() {
    while (tcp::Fd socket = tcp::acceptFrom(listener)) {
      std::string reason = fmt::format("this run has its {} ranks already; give each run its own MASTER_PORT or "
                                       "KERF_PORT, and each process its own RANK",
                                       size());
      tcp::sendRecord(socket, tcp::RecordKind::Refused, std::as_bytes(std::span(reason)), Clock::now());
    }
  }

  /// Closes the connections whose ranks have not taken the message of a failure in time.
  void giveUpWriting() {
    std::lock_guard lock(shared.mutex);
    if (!shared.failed || Clock::now() < failureEnd)
      return;
    for (auto &connection : connections)
      if (connection->hasUnsent() && !connection->isClosed()) {
        connection->detach();
        connection->close();
      }
  }

  /// Returns the milliseconds that the serving thread may sleep, or -1 where only an event ends its sleep.
  int pause() const {
    std::lock_guard lock(shared.mutex);
    if (!shared.failed)
      return -1;
    if (stopping)
      return tcp::millisecondsUntil(farewell);
    return Clock::now() < failureEnd ? tcp::millisecondsUntil(failureEnd) : -1;
  }

  bool isOver() const {
    std::lock_guard lock(shared.mutex);
    if (!stopping)
      return false;
    if (shared.failed && Clock::now() >= farewell)
      return true;
    return std::all_of(connections.begin(), connections.end(),
                       [](const auto &connection) { return !connection->member().socket || connection->isClosed(); });
  }

  mutable tcp::Shared shared;
  std::vector<std::unique_ptr<Connection>> connections; // by rank; that of this rank has no socket
  tcp::Fd listener, wake;
  std::thread thread;
  bool stopping = false;        // the communicator is being destroyed
  Clock::time_point failureEnd; // when connections that do not take the message of a failure are closed
  Clock::time_point farewell;   // when the communicator of a failed run ends without waiting for other ranks
};
} // namespace

Result<std::unique_ptr<Communicator>> createTcpCommunicator(const TcpLaunch &launch,
                                                            const std::function<void(const std::string &)> &note) {
  tcp::Mesh mesh;
  mesh.members.push_back(tcp::selfOf(launch));
  if (launch.ranks > 1) {
    auto joined = tcp::join(launch, note);
    if (!joined)
      return joined.error();
    mesh = std::move(*joined);
  }
  auto communicator = std::make_unique<TcpCommunicator>(std::move(mesh), launch.rank);
  if (Status status = communicator->start(); !status)
    return status.error();
  return std::unique_ptr<Communicator>(std::move(communicator));
}

} // namespace kerf::runtime
