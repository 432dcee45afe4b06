// SPDX-License-Identifier: Apache-2.0
// The stand-in of libhccl.so: the ranks are threads of one process, or several processes of one machine (Wire.h), and
// their NPUs those of the other stand-ins. Messages between two ranks are matched by their order, and a send ends when
// its receive has taken the bytes.
#include "../Wire.h"
#include "Tensors.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace kerf::standin::cann {

namespace {
constexpr int kBadArgument = 1, kTimeout = 9, kRemote = 21;

struct RootInfo {
  char bytes[4108];
};
struct Item {
  int kind; // 0 sends, 1 receives
  void *data;
  uint64_t count;
  int type;
  uint32_t peer;
};

/// A collective that the ranks of a communicator are in.
struct Round {
  std::vector<const std::byte *> inputs; // by rank
  std::string what;                      // of the rank that came first
  uint32_t arrived = 0, done = 0;
};
struct Message {
  const std::byte *data = nullptr;
  size_t bytes = 0;
  bool isTaken = false;
};
/// The state that all ranks of one communicator share.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t ranks = 0, joined = 0;
  std::map<uint64_t, std::shared_ptr<Round>> rounds;                                      // by number of the collective
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::shared_ptr<Message>>> messages; // by sender and receiver

  /// Waits for a condition; returns whether it holds, and not the stream aborted.
  template <typename F> bool waitFor(std::unique_lock<std::mutex> &lock, F holds) {
    while (!changed.wait_for(lock, std::chrono::milliseconds(20), holds))
      if (isAborted())
        return false;
    return true;
  }
};
struct Communicator {
  std::shared_ptr<Group> group; // shared with no other rank if there is a wire
  std::unique_ptr<Wire> wire;   // null if all ranks are threads of this process
  uint32_t rank = 0;
  int device = 0;
  uint64_t collectives = 0; // of this rank, guarded by the group's mutex
  bool isRunning = false;   // an operation
};

std::mutex registryMutex;
std::map<std::string, std::weak_ptr<Group>> registry;
uint64_t roots = 0;
bool isDeterministic = false;

size_t widthOf(int type) {
  constexpr size_t kWidths[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2}; // by HcclDataType
  return type >= 0 && type < 12 ? kWidths[type] : 0;
}
int tensorType(int type) {
  switch (type) {
  case 0:
    return I8;
  case 1:
    return I16;
  case 2:
    return I32;
  case 3:
    return F16;
  case 4:
    return F32;
  case 5:
    return I64;
  case 11:
    return BF16;
  default:
    return -1; // HCCL does not add this type
  }
}
aclTensor flat(const std::byte *data, int type, size_t count) {
  aclTensor tensor;
  tensor.sizes = {int64_t(count)};
  tensor.strides = {1};
  tensor.type = type;
  tensor.data = const_cast<std::byte *>(data);
  return tensor;
}

/// Combines elements [first, first + count) of all ranks' operands, beginning with rank `start`.
std::vector<std::byte> combined(const std::vector<const std::byte *> &inputs, size_t first, size_t count, int type,
                                int combine, size_t start) {
  const int as = tensorType(type);
  std::vector<std::byte> out(count * widthOf(type));
  std::vector<double> sum;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::byte *input = inputs[(start + i) % inputs.size()] + first * widthOf(type);
    std::vector<double> values = load(flat(input, as, count));
    if (i == 0) {
      sum = values;
      continue;
    }
    for (size_t j = 0; j < count; ++j)
      sum[j] = combine == 0   ? sum[j] + values[j]
               : combine == 2 ? std::max(sum[j], values[j])
                              : std::min(sum[j], values[j]);
    aclTensor rounded = flat(out.data(), as, count); // each step of a ring rounds
    store(rounded, sum);
    sum = load(rounded);
  }
  store(flat(out.data(), as, count), sum);
  return out;
}

/// Enqueues an operation of a communicator.
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

/// Waits until the stream is aborted, as an operation does whose partner has skipped its own after a failure.
int waitForEver(Group &group, std::unique_lock<std::mutex> &lock) {
  group.waitFor(lock, [] { return false; });
  return kKernelFailed;
}

using Compute = std::function<std::vector<std::byte>(const std::vector<const std::byte *> &)>;

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

int collective(const char *name, Communicator *self, void *from, void *to, size_t elements, size_t results, int type,
               int combine, void *stream, Compute compute) {
  if (int code = injected(name))
    return code;
  if (int code = needsContext(name))
    return code;
  const size_t width = widthOf(type);
  auto *source = static_cast<const std::byte *>(deviceMemory(from, elements * width));
  auto *target = static_cast<std::byte *>(deviceMemory(to, results * width));
  if (!source || !target || elements == 0)
    return fail(kBadArgument, "memory", std::string(name) + ": the tensors are not within the device's memory");
  if (std::strcmp(name, "HcclAllGather") != 0 && (tensorType(type) < 0 || combine < 0 || combine > 3 || combine == 1))
    return fail(kBadArgument, "dtype", std::string(name) + ": HCCL does not combine this type in this way");
  std::string what =
      std::string(name) + " " + std::to_string(elements) + " " + std::to_string(type) + " " + std::to_string(combine);
  return enqueueOn(self, name, stream, [self, what, source, bytes = elements * width, target, compute] {
    return runCollective(self, what, source, bytes, compute, target);
  });
}

int message(const char *name, Communicator *self, std::vector<Item> items, void *stream) {
  if (int code = injected(name))
    return code;
  if (int code = needsContext(name))
    return code;
  for (Item &item : items) {
    if (item.peer >= self->group->ranks || item.peer == self->rank || item.count == 0)
      return fail(kBadArgument, "peer", std::string(name) + ": no such peer, or a message of no bytes");
    item.data = deviceMemory(item.data, size_t(item.count) * widthOf(item.type));
    if (!item.data)
      return fail(kBadArgument, "memory", std::string(name) + ": the tensor is not within the device's memory");
  }
  return enqueueOn(self, name, stream, [self, items] { return runMessages(self, items); });
}
} // namespace

extern "C" {
const char *HcclGetErrorString(int code) {
  return code == kBadArgument ? "parameter error"
         : code == kTimeout   ? "timeout"
         : code == kRemote    ? "error cqe"
                              : "internal error";
}
int HcclGetRootInfo(RootInfo *root) {
  if (int code = injected("HcclGetRootInfo"))
    return code;
  if (int code = needsContext("HcclGetRootInfo"))
    return code;
  std::memset(root, 0, sizeof *root);
  std::lock_guard lock(registryMutex);
  // The time tells apart processes that have the same number one after the other.
  std::snprintf(root->bytes, sizeof root->bytes, "kerf-hccl-%d-%lld-%llu", int(getpid()),
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()),
                static_cast<unsigned long long>(++roots));
  return 0;
}
int HcclCommInitRootInfo(uint32_t ranks, const RootInfo *root, uint32_t rank, void **communicator) {
  killAtCall("KERF_STANDIN_ASCEND_KILL");
  if (int code = injected("HcclCommInitRootInfo"))
    return code;
  if (int code = needsContext("HcclCommInitRootInfo"))
    return code;
  const std::string name(root->bytes, strnlen(root->bytes, sizeof root->bytes));
  if (name.empty() || rank >= ranks)
    return fail(kBadArgument, "root", "HcclCommInitRootInfo has no root information");
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(registryMutex);
    group = registry[name].lock();
    if (!group)
      registry[name] = group = std::make_shared<Group>();
  }
  {
    std::lock_guard lock(group->mutex);
    group->ranks = ranks;
    ++group->joined;
    group->changed.notify_all();
  }
  constexpr auto kConnectTimeout = std::chrono::seconds(60);
  auto areAllHere = [&](std::chrono::milliseconds most) {
    std::unique_lock lock(group->mutex);
    return group->changed.wait_for(lock, most, [&] { return group->joined == ranks; });
  };
  auto wire = Wire::join(name, int(ranks), int(rank), areAllHere, std::chrono::steady_clock::now() + kConnectTimeout);
  if (!wire && !areAllHere(std::chrono::milliseconds(0)))
    return fail(kTimeout, "timeout", "not all ranks have joined the communicator");
  if (wire) {
    wire->stops = isAborted; // on the stream that runs an operation
    group = std::make_shared<Group>();
    group->ranks = ranks;
  }
  *communicator = new Communicator{group, std::move(wire), rank, currentDevice()};
  count("communicators", 1);
  return 0;
}
int HcclCommDestroy(void *communicator) {
  delete static_cast<Communicator *>(communicator);
  count("communicators", -1);
  return injected("HcclCommDestroy");
}
int HcclGetCommAsyncError(void *communicator, int *error) {
  const auto &wire = static_cast<Communicator *>(communicator)->wire;
  *error = wire && wire->hasLostPeer() ? kRemote : 0;
  return injected("HcclGetCommAsyncError");
}
int HcclSetConfig(int config, int32_t value) {
  if (int code = injected("HcclSetConfig"))
    return code;
  if (config != 0 || value < 0 || value > 1)
    return fail(kBadArgument, "option", "HcclSetConfig takes HCCL_DETERMINISTIC");
  isDeterministic = value == 1;
  return 0;
}
int HcclAllReduce(void *from, void *to, uint64_t elements, int type, int combine, void *communicator, void *stream) {
  auto *self = static_cast<Communicator *>(communicator);
  const bool ordered = isDeterministic;
  return collective("HcclAllReduce", self, from, to, elements, elements, type, combine, stream,
                    [=](const std::vector<const std::byte *> &inputs) {
                      std::vector<std::byte> out;
                      const size_t ranks = inputs.size();
                      for (size_t r = 0; r < ranks; ++r) { // each part in the order of a ring that begins at its rank
                        size_t begin = elements * r / ranks, end = elements * (r + 1) / ranks;
                        auto part = combined(inputs, begin, end - begin, type, combine, ordered ? 0 : r);
                        out.insert(out.end(), part.begin(), part.end());
                      }
                      return out;
                    });
}
int HcclReduceScatter(void *from, void *to, uint64_t elements, int type, int combine, void *communicator,
                      void *stream) {
  auto *self = static_cast<Communicator *>(communicator);
  const size_t ranks = self->group->ranks, rank = self->rank;
  return collective("HcclReduceScatter", self, from, to, elements * ranks, elements, type, combine, stream,
                    [=](const std::vector<const std::byte *> &inputs) {
                      return combined(inputs, rank * elements, elements, type, combine, rank);
                    });
}
int HcclAllGather(void *from, void *to, uint64_t elements, int type, void *communicator, void *stream) {
  auto *self = static_cast<Communicator *>(communicator);
  return collective("HcclAllGather", self, from, to, elements, elements * self->group->ranks, type, 0, stream,
                    [=](const std::vector<const std::byte *> &inputs) {
                      std::vector<std::byte> out;
                      for (const std::byte *input : inputs)
                        out.insert(out.end(), input, input + elements * widthOf(type));
                      return out;
                    });
}
int HcclSend(void *data, uint64_t elements, int type, uint32_t peer, void *communicator, void *stream) {
  return message("HcclSend", static_cast<Communicator *>(communicator), {{0, data, elements, type, peer}}, stream);
}
int HcclRecv(void *data, uint64_t elements, int type, uint32_t peer, void *communicator, void *stream) {
  return message("HcclRecv", static_cast<Communicator *>(communicator), {{1, data, elements, type, peer}}, stream);
}
int HcclBatchSendRecv(Item *items, uint32_t number, void *communicator, void *stream) {
  return message("HcclBatchSendRecv", static_cast<Communicator *>(communicator), {items, items + number}, stream);
}
}

} // namespace kerf::standin::cann
