// SPDX-License-Identifier: Apache-2.0
// The serving thread's side of a connection: it reads headers, and lets the system write what follows them into the
// memory of receives.
#include "Connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>
#include <utility>

namespace kerf::runtime::tcp {

namespace {
constexpr size_t kMostTextBytes = size_t(64) << 10; // of an error
}

ReadEnd Connection::read(std::span<std::byte> scratch) {
  if (!parse()) // what stood behind the message of a failure
    return {ReadEnd::Damaged, "", {}};
  for (size_t budget = kBurstBytes; budget > 0;) {
    // The rest of a message goes to its place, and what follows goes to the buffer.
    iovec parts[2];
    size_t count = 0, room = 0;
    if (incoming.missing > 0) {
      room = incoming.to ? incoming.missing : std::min(incoming.missing, scratch.size());
      parts[count++] = {incoming.to ? incoming.to : scratch.data(), room};
    }
    if (room == incoming.missing)
      parts[count++] = {buffer.data() + held, buffer.size() - held};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t got = recvmsg(who.socket.get(), &message, MSG_DONTWAIT);
    if (got == 0)
      return {ReadEnd::Closed, "", {}};
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return {};
    if (got < 0)
      return {ReadEnd::Closed, std::strerror(errno), {}};
    budget -= std::min(budget, size_t(got));
    const size_t content = std::min(room, size_t(got));
    incoming.missing -= content;
    if (incoming.to)
      incoming.to += content;
    held += size_t(got) - content;
    if (room > 0 && incoming.missing == 0)
      end();
    if (!parse())
      return {ReadEnd::Damaged, "", {}};
    if (auto error = std::exchange(aborted, std::nullopt))
      return {ReadEnd::Aborted, "", *error, abortedFor};
    if (shared.failed) {
      std::lock_guard lock(shared.mutex);
      detach();
    }
  }
  return {};
}

/// Takes headers and the messages behind them out of the buffer. Returns false if a header is damaged. The function
/// stops behind the message of a failure until the failure is known: a goodbye would end receives without the reason.
bool Connection::parse() {
  size_t at = 0;
  while (!aborted) {
    if (incoming.missing > 0) {
      const size_t count = std::min(incoming.missing, held - at);
      if (incoming.to) {
        std::memcpy(incoming.to, buffer.data() + at, count);
        incoming.to += count;
      }
      incoming.missing -= count;
      at += count;
      if (incoming.missing > 0)
        break; // the buffer is empty
      end();
    } else if (held - at >= sizeof(HeaderBytes)) {
      auto header = decode(std::span<const std::byte, 32>(buffer.data() + at, 32));
      at += sizeof(HeaderBytes);
      if (!header || !begin(*header))
        return false;
    } else {
      break;
    }
  }
  held -= at;
  std::memmove(buffer.data(), buffer.data() + at, held);
  return true;
}

/// Begins to read a message. Returns false if its header makes no sense.
bool Connection::begin(const Header &header) {
  std::lock_guard lock(shared.mutex);
  incoming.header = header;
  incoming.receive = nullptr;
  incoming.isUnwanted = false;
  incoming.to = nullptr;
  switch (header.kind) {
  case Kind::Eager:
    return beginEager();
  case Kind::Offer:
    return beginOffer();
  case Kind::Grant:
  case Kind::Decline:
    return sendOffered(header.id, header.kind == Kind::Grant);
  case Kind::Data:
    return beginData();
  case Kind::Abort:
    if (header.size > kMostTextBytes || header.tag < 1 || header.tag > 3)
      return false;
    incoming.bytes.resize(header.size);
    incoming.to = incoming.bytes.data();
    incoming.missing = header.size;
    return header.size > 0;
  case Kind::Bye:
    left = true;
    knowsFailure = header.tag == 1;
    for (const Offered &one : offered) // nobody asks for them any more
      shared.finishSend(one.tag);
    offered.clear();
    for (Waiting *receive : posted)
      finish(*receive, noSender());
    posted.clear();
    return true;
  }
  return false;
}

bool Connection::beginEager() {
  const Header &header = incoming.header;
  if (header.size > kMostEagerBytes || left)
    return false;
  if (Waiting *receive = shared.failed ? nullptr : takePosted(header.tag)) {
    if (receive->bytes.size() == header.size) {
      incoming.receive = receive;
      incoming.to = receive->bytes.data();
    } else {
      finish(*receive, wrongSize(receive->bytes.size(), header.size, header.tag));
      incoming.isUnwanted = true;
    }
  } else if (shared.failed) {
    incoming.isUnwanted = true;
  } else {
    if (!spare.empty()) {
      incoming.bytes = std::move(spare.back());
      spare.pop_back();
    }
    incoming.bytes.resize(header.size);
    incoming.to = incoming.bytes.data();
  }
  incoming.missing = header.size;
  if (header.size == 0)
    endEager();
  return true;
}

bool Connection::beginOffer() {
  const Header &header = incoming.header;
  if (header.size <= kMostEagerBytes || left)
    return false;
  if (shared.failed)
    return true;
  Waiting *receive = takePosted(header.tag);
  if (!receive) {
    arrived.push_back({Kind::Offer, header.tag, header.size, header.id, {}, {}});
    return true;
  }
  const bool fits = receive->bytes.size() == header.size;
  if (fits)
    granted.push_back({header.id, receive});
  else
    finish(*receive, wrongSize(receive->bytes.size(), header.size, header.tag));
  queueMessage({fits ? Kind::Grant : Kind::Decline, header.tag, header.size, header.id}, {}, false);
  return true;
}

/// Sends the bytes of an offer, or drops the offer. Returns false if this rank has made no such offer.
bool Connection::sendOffered(uint64_t id, bool isWanted) {
  auto found = std::find_if(offered.begin(), offered.end(), [&](const Offered &each) { return each.id == id; });
  if (found == offered.end())
    return shared.failed;
  Offered one = *found;
  offered.erase(found);
  if (isWanted)
    queueMessage({Kind::Data, one.tag, one.bytes.size(), one.id}, one.bytes, true);
  else
    shared.finishSend(one.tag);
  return true;
}

bool Connection::beginData() {
  const Header &header = incoming.header;
  auto found = std::find_if(granted.begin(), granted.end(), [&](const Granted &each) { return each.id == header.id; });
  incoming.missing = header.size;
  if (found == granted.end()) {
    incoming.isUnwanted = true;
    return shared.failed && header.size > 0;
  }
  if (found->receive->bytes.size() != header.size)
    return false;
  incoming.receive = found->receive;
  incoming.to = incoming.receive->bytes.data();
  granted.erase(found);
  return true;
}

/// Ends the reading of a message all of whose bytes have been read.
void Connection::end() {
  std::lock_guard lock(shared.mutex);
  if (incoming.header.kind == Kind::Abort) {
    std::string text(reinterpret_cast<const char *>(incoming.bytes.data()), incoming.bytes.size());
    aborted = Error{text, ExitStatus(incoming.header.tag)};
    abortedFor = int64_t(incoming.header.id) - 1;
  } else if (incoming.header.kind == Kind::Eager) {
    endEager();
  } else if (incoming.receive) {
    finish(*incoming.receive, std::nullopt);
  }
  incoming.receive = nullptr;
  incoming.to = nullptr;
}

void Connection::endEager() {
  if (incoming.receive) {
    finish(*incoming.receive, std::nullopt);
    incoming.receive = nullptr;
  } else if (!incoming.isUnwanted && !shared.failed) {
    Arrived message{Kind::Eager, incoming.header.tag, incoming.header.size, 0, std::move(incoming.bytes), {}};
    incoming.bytes = {};
    // A receive may have been posted since the header was read.
    Waiting *receive = takePosted(message.tag);
    if (!receive) {
      arrived.push_back(std::move(message));
      return;
    }
    const bool fits = receive->bytes.size() == message.size;
    if (fits)
      std::copy(message.bytes.begin(), message.bytes.end(), receive->bytes.begin());
    finish(*receive, fits ? std::nullopt : std::optional(wrongSize(receive->bytes.size(), message.size, message.tag)));
    spare.push_back(std::move(message.bytes));
  }
}

void Connection::detach() {
  if (!incoming.receive)
    return;
  finish(*incoming.receive, shared.failure);
  incoming.receive = nullptr;
  incoming.to = nullptr;
  incoming.isUnwanted = true;
}

} // namespace kerf::runtime::tcp
