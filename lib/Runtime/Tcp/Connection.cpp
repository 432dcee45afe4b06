// SPDX-License-Identifier: Apache-2.0
// The caller's side of a connection: sends, receives, and writing.
#include "Connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/uio.h>

namespace kerf::runtime::tcp {

void Shared::finishSend(int64_t tag) {
  auto found = std::find(sending.begin(), sending.end(), tag);
  if (found == sending.end())
    return;
  *found = sending.back();
  sending.pop_back();
  sent.notify_all();
}

void Connection::open() {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = this;
  if (epoll_ctl(shared.epoll.get(), EPOLL_CTL_ADD, who.socket.get(), &event) == 0)
    watched = event.events;
}

/// Watches for room in the socket as long as anything is queued, and for what comes until the other rank has left.
void Connection::watch() {
  const uint32_t wanted = (answered ? 0 : uint32_t(EPOLLIN)) | (queue.empty() ? 0 : uint32_t(EPOLLOUT));
  if (watched == 0 || closed || wanted == watched)
    return;
  epoll_event event = {};
  event.events = wanted;
  event.data.ptr = this;
  epoll_ctl(shared.epoll.get(), EPOLL_CTL_MOD, who.socket.get(), &event);
  watched = wanted;
}

void Connection::close() {
  if (closed)
    return;
  closed = true;
  if (watched != 0)
    epoll_ctl(shared.epoll.get(), EPOLL_CTL_DEL, who.socket.get(), nullptr);
  // Another thread may be writing: the socket's number stays taken until the communicator ends.
  ::shutdown(who.socket.get(), SHUT_RDWR);
  dropQueue(writing);
  for (const Offered &one : offered)
    shared.finishSend(one.tag);
  offered.clear();
  for (Waiting *receive : posted)
    finish(*receive, shared.failure.value_or(noSender()));
  posted.clear();
  for (const Granted &one : granted)
    finish(*one.receive, shared.failure.value_or(noSender()));
  granted.clear();
}

/// Drops all of the queue but its first `kept` entries.
void Connection::dropQueue(size_t kept) {
  for (size_t i = kept; i < queue.size(); ++i)
    if (queue[i].isMessage)
      shared.finishSend(queue[i].tag);
  queue.resize(std::min(kept, queue.size()));
  queuedBytes = 0;
  for (const Outgoing &each : queue)
    queuedBytes += each.header.size() + each.content.size() - each.written;
}

void Connection::queueMessage(const Header &header, std::span<const std::byte> content, bool isMessage) {
  if (!closed && !isShut) {
    queue.push_back({encode(header), content, header.tag, isMessage});
    queuedBytes += queue.back().header.size() + content.size();
  } else if (isMessage) {
    shared.finishSend(header.tag);
  }
}

Status Connection::startSend(std::span<const std::byte> bytes, int64_t tag) {
  if (hasEnded())
    return Error{fmt::format("{} has left the run, but rank {} still has a message for it; look at its own messages",
                             who.name(), shared.self)};
  shared.sending.push_back(tag);
  if (who.rank != shared.self) {
    if (bytes.size() <= kMostEagerBytes) {
      queueMessage({Kind::Eager, tag, bytes.size(), 0}, bytes, true);
      return ok();
    }
    offered.push_back({++lastId, tag, bytes});
    queueMessage({Kind::Offer, tag, bytes.size(), lastId}, {}, false);
    return ok();
  }
  Waiting *receive = takePosted(tag);
  if (!receive) {
    arrived.push_back({Kind::Eager, tag, bytes.size(), 0, {}, bytes});
    return ok();
  }
  const bool fits = receive->bytes.size() == bytes.size();
  if (fits)
    std::copy(bytes.begin(), bytes.end(), receive->bytes.begin());
  finish(*receive, fits ? std::nullopt : std::optional(wrongSize(receive->bytes.size(), bytes.size(), tag)));
  shared.finishSend(tag);
  return ok();
}

Connection::Waiting *Connection::takePosted(int64_t tag) {
  auto found = std::find_if(posted.begin(), posted.end(), [&](const Waiting *each) { return each->tag == tag; });
  if (found == posted.end())
    return nullptr;
  Waiting *receive = *found;
  posted.erase(found);
  return receive;
}

void Connection::finish(Waiting &receive, std::optional<Error> error) {
  receive.error = std::move(error);
  receive.isDone = true;
  receive.done.notify_one(); // with the mutex held: the receive cannot end before
}

Error Connection::wrongSize(size_t expected, size_t sent, int64_t tag) const {
  return {fmt::format("rank {} expects {} bytes from rank {} (tag {}), which sent {}; report this plan, it is a bug of "
                      "Kerf",
                      shared.self, expected, who.rank, tag, sent),
          ExitStatus::InternalCheck};
}

Error Connection::noSender() const {
  return {fmt::format("{} has left the run, but rank {} still needs a message from it; look at its own messages",
                      who.name(), shared.self)};
}

Status Connection::receive(std::unique_lock<std::mutex> &lock, std::span<std::byte> bytes, int64_t tag) {
  auto found = std::find_if(arrived.begin(), arrived.end(), [&](const Arrived &each) { return each.tag == tag; });
  if (found != arrived.end())
    return receiveArrived(lock, found, bytes);
  if (hasEnded())
    return noSender();
  Waiting receive{tag, bytes, {}, false, {}};
  posted.push_back(&receive);
  return await(lock, receive);
}

Status Connection::await(std::unique_lock<std::mutex> &lock, Waiting &receive) {
  receive.done.wait(lock, [&] { return receive.isDone; });
  return receive.error ? Status(*receive.error) : ok();
}

Status Connection::receiveArrived(std::unique_lock<std::mutex> &lock, std::vector<Arrived>::iterator found,
                                  std::span<std::byte> bytes) {
  Arrived message = std::move(*found);
  arrived.erase(found);
  const bool fits = message.size == bytes.size();
  Status wrong = fits ? ok() : Status(wrongSize(bytes.size(), message.size, message.tag));
  if (message.kind == Kind::Eager) {
    const bool isOwn = who.rank == shared.self;
    if (fits && !bytes.empty())
      std::memcpy(bytes.data(), isOwn ? message.sent.data() : message.bytes.data(), bytes.size());
    if (isOwn)
      shared.finishSend(message.tag);
    else
      spare.push_back(std::move(message.bytes));
    return wrong;
  }
  Waiting receive{message.tag, bytes, {}, false, {}};
  if (fits)
    granted.push_back({message.id, &receive});
  queueMessage({fits ? Kind::Grant : Kind::Decline, message.tag, message.size, message.id}, {}, false);
  if (closed && fits) {
    granted.pop_back();
    return noSender();
  }
  lock.unlock();
  flush(1);
  lock.lock();
  return fits ? await(lock, receive) : wrong;
}

void Connection::fail() {
  for (Waiting *receive : posted)
    finish(*receive, shared.failure);
  posted.clear();
  for (const Granted &one : granted)
    finish(*one.receive, shared.failure);
  granted.clear();
  for (const Offered &one : offered)
    shared.finishSend(one.tag);
  offered.clear();
  for (const Arrived &message : arrived)
    if (who.rank == shared.self)
      shared.finishSend(message.tag);
  arrived.clear();
  dropQueue(std::max<size_t>(writing, !queue.empty() && queue.front().written > 0));
}

void Connection::tellFailure() {
  constexpr size_t kMostText = 32 << 10;
  failureText = shared.failure->message.substr(0, kMostText);
  if (failureText.empty())
    failureText = "a rank has failed; look at its own messages";
  queueMessage({Kind::Abort, int64_t(shared.failure->status), failureText.size(), uint64_t(shared.lost + 1)},
               std::as_bytes(std::span(failureText)), false);
}

void Connection::leave() {
  if (!who.socket)
    return;
  queueMessage({Kind::Bye, shared.failed ? 1 : 0, 0, 0}, {}, false);
  leaving = true;
}

void Connection::answerGoodbye() {
  leave();
  answered = true;
}

/// Takes `count` bytes that have been written from the front of the queue.
void Connection::takeWritten(size_t count) {
  queuedBytes -= count;
  size_t whole = 0; // messages of which nothing is left
  for (; whole < queue.size() && count > 0; ++whole) {
    Outgoing &front = queue[whole];
    const size_t left = front.header.size() + front.content.size() - front.written;
    front.written += std::min(count, left);
    if (count < left)
      break;
    count -= left;
    if (front.isMessage)
      shared.finishSend(front.tag);
  }
  queue.erase(queue.begin(), queue.begin() + std::ptrdiff_t(whole));
}

void Connection::flush(size_t most) {
  std::unique_lock lock(shared.mutex);
  if (writing > 0 || closed || !who.socket)
    return;
  std::array<HeaderBytes, kMostTogether> headers; // the queue may grow, and so move, while nobody holds the mutex
  std::array<iovec, 2 * kMostTogether> parts;
  while (!queue.empty() && most > 0) {
    size_t bytes = 0;
    for (writing = 0; writing < std::min(queue.size(), kMostTogether) && bytes < kBurstBytes; ++writing) {
      const Outgoing &next = queue[writing];
      HeaderBytes &header = headers[writing] = next.header;
      const size_t ofHeader = std::min(next.written, header.size()), ofContent = next.written - ofHeader;
      parts[2 * writing] = {header.data() + ofHeader, header.size() - ofHeader};
      parts[2 * writing + 1] = {const_cast<std::byte *>(next.content.data()) + ofContent,
                                next.content.size() - ofContent};
      bytes += header.size() + next.content.size() - next.written;
    }
    const size_t together = writing;
    lock.unlock();
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = 2 * together;
    const ssize_t count = sendmsg(who.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    const int error = errno;
    lock.lock();
    if (count < 0 && error == EINTR)
      continue;
    if (count < 0 && (error == EAGAIN || error == EWOULDBLOCK) && !closed)
      break;
    if (count < 0 || closed) { // the serving thread finds the end of the connection when it reads
      dropQueue(0);
      break;
    }
    most -= std::min(most, size_t(count));
    takeWritten(size_t(count));
  }
  writing = 0;
  if (leaving && queue.empty() && !isShut && !closed) {
    isShut = true;
    ::shutdown(who.socket.get(), SHUT_WR);
  }
  if (answered && queue.empty())
    close();
  watch();
}

} // namespace kerf::runtime::tcp
