// SPDX-License-Identifier: Apache-2.0
#include "HcclRanks.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace kerf::standin::cann {

size_t widthOf(int type) {
  constexpr size_t kWidths[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2}; // by HcclDataType
  return type >= 0 && type < 12 ? kWidths[type] : 0;
}
int enqueueOn(Communicator *self, const char *name, void *stream, std::function<int()> work) {
  {
    std::lock_guard lock(self->group->mutex);
    if (self->device != currentDevice())
      return fail(kBadArgument, "device", std::string(name) + ": the communicator belongs to another device");
  }
  return enqueue(stream, name, [self, work, what = std::string(name)] {
    auto setRunning = [&](bool is) {
      std::lock_guard lock(self->group->mutex);
      return std::exchange(self->isRunning, is);
    };
    if (setRunning(true))
      return fail(kKernelFailed, "order", what + " runs beside another call of the same communicator");
    int code = work();
    setRunning(false);
    return code;
  });
}

namespace {
/// Waits until the stream is aborted, as an operation does whose partner has skipped its own after a failure.
int waitForEver(Group &group, std::unique_lock<std::mutex> &lock) {
  group.waitFor(lock, [] { return false; });
  return kKernelFailed;
}

/// Runs a collective of ranks in several processes: each sends its operand to all others.
int runCollectiveOnWire(Communicator *self, const std::string &what, const std::byte *input, size_t bytes,
                        const Compute &compute, std::byte *to) {
  Wire &wire = *self->wire;
  const uint64_t signature = std::hash<std::string>()(what);
  const uint32_t ranks = self->group->ranks;
  for (uint32_t peer = 0; peer < ranks; ++peer)
    if (peer != self->rank)
      wire.send(Channel::Collective, int(peer), signature, input, bytes);
  std::vector<std::vector<std::byte>> received(ranks);
  std::vector<const std::byte *> inputs(ranks, input);
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer == self->rank)
      continue;
    auto arrived = wire.receive(Channel::Collective, int(peer), signature, bytes);
    if (!arrived)
      return kKernelFailed;
    received[peer] = std::move(*arrived);
    inputs[peer] = received[peer].data();
  }
  std::vector<std::byte> out = compute(inputs);
  if (!wire.waitUntilWritten())
    return kKernelFailed;
  std::memcpy(to, out.data(), out.size()); // only now: a rank's result may lie over its operand
  return wire.waitUntilTaken() ? 0 : kKernelFailed;
}

/// Runs messages between ranks in several processes.
int runMessagesOnWire(Wire &wire, const std::vector<Item> &items) {
  for (const Item &item : items)
    if (item.kind == 0)
      wire.send(Channel::Message, int(item.peer), 0, item.data, size_t(item.count) * widthOf(item.type));
  for (const Item &item : items) {
    if (item.kind == 0)
      continue;
    auto arrived = wire.receive(Channel::Message, int(item.peer), 0, size_t(item.count) * widthOf(item.type));
    if (!arrived)
      return kKernelFailed;
    std::memcpy(item.data, arrived->data(), arrived->size());
  }
  return wire.waitUntilTaken() ? 0 : kKernelFailed;
}
} // namespace

int runCollective(Communicator *self, const std::string &what, const std::byte *input, size_t bytes,
                  const Compute &compute, std::byte *to) {
  if (self->wire)
    return runCollectiveOnWire(self, what, input, bytes, compute, to);
  Group &group = *self->group;
  std::unique_lock lock(group.mutex);
  const uint64_t number = self->collectives++;
  std::shared_ptr<Round> &shared = group.rounds[number];
  if (!shared) {
    shared = std::make_shared<Round>();
    shared->inputs.resize(group.ranks);
    shared->what = what;
  }
  std::shared_ptr<Round> round = shared;
  if (round->what != what) {
    if (hasInjected())
      return waitForEver(group, lock);
    std::fprintf(stderr, "stand-in HCCL: rule order: ranks run '%s' and '%s' together\n", round->what.c_str(),
                 what.c_str());
    std::abort();
  }
  round->inputs[self->rank] = input;
  ++round->arrived;
  group.changed.notify_all();
  if (!group.waitFor(lock, [&] { return round->arrived == group.ranks; }))
    return kKernelFailed;
  lock.unlock();
  std::vector<std::byte> out = compute(round->inputs);
  lock.lock();
  ++round->done;
  group.changed.notify_all();
  if (!group.waitFor(lock, [&] { return round->done == group.ranks; }))
    return kKernelFailed;
  std::memcpy(to, out.data(), out.size()); // only now: a rank's result may lie over its operand
  group.rounds.erase(number);
  return 0;
}

int runMessages(Communicator *self, const std::vector<Item> &items) {
  if (self->wire)
    return runMessagesOnWire(*self->wire, items);
  Group &group = *self->group;
  std::unique_lock lock(group.mutex);
  std::vector<std::shared_ptr<Message>> sent;
  for (const Item &item : items)
    if (item.kind == 0) {
      sent.push_back(std::make_shared<Message>(
          Message{static_cast<const std::byte *>(item.data), size_t(item.count) * widthOf(item.type)}));
      group.messages[{self->rank, item.peer}].push_back(sent.back());
    }
  group.changed.notify_all();
  for (const Item &item : items) {
    if (item.kind == 0)
      continue;
    auto &queue = group.messages[{item.peer, self->rank}];
    if (!group.waitFor(lock, [&] { return !queue.empty(); }))
      return kKernelFailed;
    std::shared_ptr<Message> message = queue.front();
    queue.pop_front();
    if (message->bytes != size_t(item.count) * widthOf(item.type)) {
      if (hasInjected())
        return waitForEver(group, lock);
      std::fprintf(stderr, "stand-in HCCL: rule size: a message of %zu bytes is received as %zu\n", message->bytes,
                   size_t(item.count) * widthOf(item.type));
      std::abort();
    }
    std::memcpy(item.data, message->data, message->bytes);
    message->isTaken = true;
    group.changed.notify_all();
  }
  bool isDone = group.waitFor(lock, [&] {
    for (const auto &message : sent)
      if (!message->isTaken)
        return false;
    return true;
  });
  return isDone ? 0 : kKernelFailed;
}

} // namespace kerf::standin::cann
