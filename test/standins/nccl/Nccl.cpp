// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's NCCL on machines without GPUs: ranks are threads of one process, or several processes of one
// machine (Wire.h), and their GPUs those of the stand-in driver (../cuda). It keeps to what NCCL promises and no more:
// a send ends when its receive has taken the bytes, operations of one communicator run in the order in which they were
// enqueued, on whichever streams, and messages between two ranks are matched by their order. Where a stream is
// captured, the operations become nodes of the graph; a communicator does not end before such graphs do.
#include "../Wire.h"
#include "Ring.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

// From the stand-in driver.
extern "C" int kerfStandinEnqueue(void *stream, void (*function)(void *), void *data, void (*release)(void *),
                                  const void *chain);
extern "C" int cuStreamIsCapturing(void *stream, int *status);
extern "C" void *kerfStandinMemory(const void *address, size_t bytes); // null if the bytes are not device memory

namespace {
constexpr int kSuccess = 0, kUnhandledCudaError = 1, kInvalidArgument = 4, kRemoteError = 6;

struct Id {
  char bytes[128];
};

/// A message on its way between two ranks of a communicator.
struct Message {
  const void *bytes = nullptr;
  size_t size = 0;
  bool taken = false;
};

enum class Kind { Send, Receive, AllReduce, ReduceScatter, AllGather };

/// One operation of a group call.
struct Operation {
  struct Communicator *communicator = nullptr;
  void *stream = nullptr;
  Kind kind = Kind::Send;
  const void *from = nullptr; // null for a receive
  void *to = nullptr;         // null for a send
  size_t count = 0;           // elements of `type`, as NCCL counts them
  int type = 0;
  int peer = 0;    // of a send or receive
  int combine = 0; // of a reduction
};

/// A collective that the ranks of a communicator are in.
struct Round {
  std::vector<const std::byte *> inputs; // by rank
  int arrived = 0, computed = 0;
  const Operation *first = nullptr; // the operation of the rank that came first
};

/// The state that all ranks of one communicator share.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, joined = 0;
  bool aborted = false; // by one of the ranks: nobody waits any more
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> messages; // by sender and receiver
  std::map<uint64_t, std::shared_ptr<Round>> rounds;                            // by number of the collective
};

/// One rank's end of a communicator.
struct Communicator {
  std::shared_ptr<Group> group; // shared with no other rank if there is a wire
  int rank = 0;
  std::unique_ptr<kerf::standin::Wire> wire; // null if all ranks are threads of this process
  // Guarded by group->mutex:
  uint64_t enqueued = 0, done = 0; // operations of this rank
  int64_t captured = 0;            // operations that graphs hold
  uint64_t collectives = 0;        // collectives of this rank that have begun
};

/// The operations of one group call on one communicator and stream, which run as one.
struct Batch {
  Communicator *communicator;
  std::vector<Operation> operations;
  uint64_t number = 0; // position among the communicator's batches; in a graph, each launch gives one
  bool isCaptured = false;
};

std::mutex registryMutex;
std::map<std::string, std::weak_ptr<Group>> registry; // by the name in Id
uint64_t ids = 0;
thread_local int depth = 0;
thread_local std::vector<Operation> pending;

size_t bytesFrom(const Operation &one) {
  size_t parts = one.kind == Kind::ReduceScatter ? size_t(one.communicator->group->ranks) : 1;
  return one.from ? parts * one.count * kerf::standin::nccl::bytesOf(one.type) : 0;
}
size_t bytesTo(const Operation &one) {
  size_t parts = one.kind == Kind::AllGather ? size_t(one.communicator->group->ranks) : 1;
  return one.to ? parts * one.count * kerf::standin::nccl::bytesOf(one.type) : 0;
}

/// Computes a rank's result of a collective from all ranks' operands. An all_reduce adds each of n parts in the order
/// of a ring that begins behind the part's own rank.
std::vector<std::byte> resultOf(const Operation &one, const std::vector<const std::byte *> &inputs) {
  using namespace kerf::standin::nccl;
  const size_t ranks = inputs.size(), width = bytesOf(one.type);
  std::vector<std::byte> out(bytesTo(one));
  auto part = [&](size_t owner, size_t begin, size_t count, std::byte *to) {
    std::vector<const std::byte *> pieces;
    for (const std::byte *input : inputs)
      pieces.push_back(input + begin * width);
    combineFrom(int((owner + 1) % ranks), pieces, to, count, one.type, one.combine);
  };
  if (one.kind == Kind::AllGather)
    for (size_t r = 0; r < ranks; ++r)
      std::memcpy(out.data() + r * one.count * width, inputs[r], one.count * width);
  else if (one.kind == Kind::ReduceScatter)
    part(size_t(one.communicator->rank), size_t(one.communicator->rank) * one.count, one.count, out.data());
  else
    for (size_t r = 0; r < ranks; ++r) {
      size_t begin = one.count * r / ranks, end = one.count * (r + 1) / ranks;
      part(r, begin, end - begin, out.data() + begin * width);
    }
  return out;
}

/// Runs a collective once all ranks have come. Different calls of the ranks are a bug of the caller, which NCCL answers
/// with a hang or with damage: this ends the test.
void runCollective(const Operation &one, std::unique_lock<std::mutex> &lock) {
  Communicator &self = *one.communicator;
  Group &group = *self.group;
  uint64_t number = self.collectives++;
  std::shared_ptr<Round> &shared = group.rounds[number];
  if (!shared)
    shared = std::make_shared<Round>();
  std::shared_ptr<Round> round = shared;
  round->inputs.resize(size_t(group.ranks));
  round->inputs[size_t(self.rank)] = static_cast<const std::byte *>(one.from);
  if (!round->first)
    round->first = &one;
  if (round->first->kind != one.kind || round->first->count != one.count || round->first->type != one.type ||
      round->first->combine != one.combine)
    std::abort();
  ++round->arrived;
  group.changed.notify_all();
  group.changed.wait(lock, [&] { return group.aborted || round->arrived == group.ranks; });
  if (group.aborted)
    return;
  lock.unlock();
  std::vector<std::byte> out = resultOf(one, round->inputs);
  lock.lock();
  ++round->computed;
  group.changed.notify_all();
  group.changed.wait(lock, [&] { return group.aborted || round->computed == group.ranks; });
  if (group.aborted)
    return;
  std::memcpy(one.to, out.data(), out.size()); // only now: a rank's result may lie over its operand
  group.rounds.erase(number);
}

/// Returns a number that tells apart different collectives.
uint64_t signatureOf(const Operation &one) {
  return (uint64_t(one.count) << 16) | uint64_t(one.type << 8 | one.combine << 4 | int(one.kind));
}

/// Runs a batch whose ranks are in several processes. Returns false if the communicator was aborted meanwhile.
bool runOnWire(const Batch &batch) {
  using kerf::standin::Channel;
  Communicator &self = *batch.communicator;
  for (const Operation &one : batch.operations)
    if (one.kind == Kind::Send)
      self.wire->send(Channel::Message, one.peer, 0, one.from, bytesFrom(one));
  for (const Operation &one : batch.operations) {
    if (one.kind == Kind::Receive) {
      auto bytes = self.wire->receive(Channel::Message, one.peer, 0, bytesTo(one));
      if (!bytes)
        return false;
      std::memcpy(one.to, bytes->data(), bytes->size());
    }
    if (one.kind == Kind::Send || one.kind == Kind::Receive)
      continue;
    const int ranks = self.group->ranks;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != self.rank)
        self.wire->send(Channel::Collective, peer, signatureOf(one), one.from, bytesFrom(one));
    std::vector<std::vector<std::byte>> received(static_cast<size_t>(ranks));
    std::vector<const std::byte *> inputs;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == self.rank) {
        inputs.push_back(static_cast<const std::byte *>(one.from));
        continue;
      }
      auto bytes = self.wire->receive(Channel::Collective, peer, signatureOf(one), bytesFrom(one));
      if (!bytes)
        return false;
      received[size_t(peer)] = std::move(*bytes);
      inputs.push_back(received[size_t(peer)].data());
    }
    std::vector<std::byte> out = resultOf(one, inputs);
    if (!self.wire->waitUntilWritten()) // not until they are taken: the peers may come to later operations first
      return false;
    std::memcpy(one.to, out.data(), out.size()); // only now: a rank's result may lie over its operand
  }
  return self.wire->waitUntilTaken();
}

void run(Batch &batch) {
  Communicator &self = *batch.communicator;
  Group &group = *self.group;
  std::unique_lock lock(group.mutex);
  if (batch.isCaptured)
    batch.number = self.enqueued++;
  group.changed.wait(lock, [&] { return group.aborted || self.done == batch.number; });
  if (group.aborted) // the operations of ranks that have left are gone
    return;
  if (self.wire) {
    lock.unlock();
    bool isDone = runOnWire(batch);
    lock.lock();
    self.done += isDone;
    group.changed.notify_all();
    return;
  }
  std::vector<std::shared_ptr<Message>> sent;
  for (const Operation &one : batch.operations)
    if (one.kind == Kind::Send) {
      sent.push_back(std::make_shared<Message>(Message{one.from, bytesFrom(one)}));
      group.messages[{self.rank, one.peer}].push_back(sent.back());
    }
  group.changed.notify_all();
  for (const Operation &one : batch.operations) {
    if (one.kind == Kind::Send)
      continue;
    if (one.kind != Kind::Receive) {
      runCollective(one, lock);
      if (group.aborted)
        return;
      continue;
    }
    auto &queue = group.messages[{one.peer, self.rank}];
    group.changed.wait(lock, [&] { return group.aborted || !queue.empty(); });
    if (group.aborted)
      return;
    std::shared_ptr<Message> message = queue.front();
    queue.pop_front();
    // Different sizes are a bug of the caller, which NCCL answers with a hang or with damage: this ends the test.
    if (message->size != bytesTo(one))
      std::abort();
    std::memcpy(one.to, message->bytes, message->size);
    message->taken = true;
    group.changed.notify_all();
  }
  group.changed.wait(lock, [&] {
    if (group.aborted)
      return true;
    for (const auto &message : sent)
      if (!message->taken)
        return false;
    return true;
  });
  ++self.done;
  group.changed.notify_all();
}

void release(void *data) {
  std::unique_ptr<Batch> batch(static_cast<Batch *>(data));
  if (!batch->isCaptured)
    return;
  std::shared_ptr<Group> group = batch->communicator->group;
  std::lock_guard lock(group->mutex);
  --batch->communicator->captured;
  group->changed.notify_all();
}

/// Waits until no graph holds operations of the communicator. NCCL waits for ever: here a test ends with a message.
void waitForGraphs(Communicator &communicator) {
  std::shared_ptr<Group> group = communicator.group;
  std::unique_lock lock(group->mutex);
  if (!group->changed.wait_for(lock, std::chrono::seconds(20), [&] { return communicator.captured == 0; })) {
    std::fprintf(stderr, "stand-in NCCL: a communicator ends while graphs hold %lld of its operations\n",
                 static_cast<long long>(communicator.captured));
    std::abort();
  }
}

int enqueue(std::vector<Operation> operations) {
  std::vector<std::unique_ptr<Batch>> batches;
  for (Operation &one : operations) {
    const void *from = one.from;
    void *to = one.to;
    one.from = bytesFrom(one) ? kerfStandinMemory(from, bytesFrom(one)) : nullptr;
    one.to = bytesTo(one) ? kerfStandinMemory(to, bytesTo(one)) : nullptr;
    if (one.count && ((from && !one.from) || (to && !one.to)))
      return kInvalidArgument;
    auto found = batches.begin();
    while (found != batches.end() &&
           ((*found)->communicator != one.communicator || (*found)->operations.front().stream != one.stream))
      ++found;
    if (found == batches.end())
      found = batches.insert(found, std::make_unique<Batch>(Batch{one.communicator, {}}));
    (*found)->operations.push_back(one);
  }
  for (auto &batch : batches) {
    void *stream = batch->operations.front().stream;
    int status = 0;
    if (cuStreamIsCapturing(stream, &status) != 0 || status == 2)
      return kUnhandledCudaError;
    batch->isCaptured = status == 1;
    {
      std::lock_guard lock(batch->communicator->group->mutex);
      if (batch->isCaptured)
        ++batch->communicator->captured;
      else
        batch->number = batch->communicator->enqueued++;
    }
    const void *chain = batch->communicator;
    auto function = [](void *data) { run(*static_cast<Batch *>(data)); };
    if (kerfStandinEnqueue(stream, function, batch.release(), release, chain) != 0)
      return kUnhandledCudaError;
  }
  return kSuccess;
}

/// Whether this call of a send, receive or collective is the one that the variable KERF_STANDIN_NCCL (a number, from 1)
/// lets fail.
bool fails() {
  static const char *const chosen = std::getenv("KERF_STANDIN_NCCL");
  static std::atomic<long> calls = 0;
  return chosen && ++calls == std::atol(chosen);
}

std::atomic<int64_t> collectives = 0; // calls of collectives in this process

thread_local bool groupFailed = false; // whether a call since ncclGroupStart has failed: then none of the group runs

int add(const Operation &operation) {
  if (fails()) {
    groupFailed = depth > 0;
    return kUnhandledCudaError;
  }
  if (operation.peer < 0 || operation.peer >= operation.communicator->group->ranks || operation.combine < 0 ||
      operation.combine > 3 || kerf::standin::nccl::bytesOf(operation.type) == 0)
    return kInvalidArgument;
  collectives += operation.kind != Kind::Send && operation.kind != Kind::Receive;
  if (depth == 0)
    return enqueue({operation});
  pending.push_back(operation);
  return kSuccess;
}
} // namespace

extern "C" {
int ncclGetVersion(int *version) {
  *version = 22809;
  return kSuccess;
}
const char *ncclGetErrorString(int result) {
  return result == kSuccess           ? "no error"
         : result == kInvalidArgument ? "invalid argument"
         : result == kRemoteError     ? "remote process exited or there was a network error"
                                      : "unhandled cuda error";
}
int ncclGetUniqueId(Id *id) {
  std::lock_guard lock(registryMutex);
  *id = {};
  // The time tells apart processes that have the same number one after the other.
  std::snprintf(id->bytes, sizeof id->bytes, "kerf-nccl-%d-%lld-%llu", int(getpid()),
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()),
                static_cast<unsigned long long>(++ids));
  return kSuccess;
}
int ncclCommInitRank(void **made, int ranks, Id id, int rank) {
  const std::string name(id.bytes, strnlen(id.bytes, sizeof id.bytes));
  kerf::standin::killAtCall("KERF_STANDIN_NCCL_KILL");
  if (name.empty() || rank < 0 || rank >= ranks)
    return kInvalidArgument;
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
  auto areAllHere = [&](std::chrono::milliseconds most) {
    std::unique_lock lock(group->mutex);
    return group->changed.wait_for(lock, most, [&] { return group->joined == ranks; });
  };
  // NCCL waits for as long as it takes.
  auto wire = kerf::standin::Wire::join(name, ranks, rank, areAllHere, std::chrono::steady_clock::time_point::max());
  if (wire) {
    group = std::make_shared<Group>();
    group->ranks = ranks;
  }
  *made = new Communicator{group, rank, std::move(wire)};
  return kSuccess;
}
int ncclCommDestroy(void *communicator) {
  waitForGraphs(*static_cast<Communicator *>(communicator));
  delete static_cast<Communicator *>(communicator);
  return kSuccess;
}
// The communicator itself stays: work on streams may still look at it.
int ncclCommAbort(void *communicator) {
  Group &group = *static_cast<Communicator *>(communicator)->group;
  {
    std::lock_guard lock(group.mutex);
    group.aborted = true;
    group.changed.notify_all();
  }
  if (auto &wire = static_cast<Communicator *>(communicator)->wire)
    wire->abort();
  waitForGraphs(*static_cast<Communicator *>(communicator));
  return kSuccess;
}
int ncclCommGetAsyncError(void *communicator, int *error) {
  const auto &wire = static_cast<Communicator *>(communicator)->wire;
  *error = wire && wire->hasLostPeer() ? kRemoteError : kSuccess;
  return kSuccess;
}
// The only type of elements that Kerf sends is bytes (ncclInt8, number 0).
int ncclSend(const void *bytes, size_t count, int type, int peer, void *communicator, void *stream) {
  if (type != 0)
    return kInvalidArgument;
  return add({static_cast<Communicator *>(communicator), stream, Kind::Send, bytes, nullptr, count, type, peer});
}
int ncclRecv(void *bytes, size_t count, int type, int peer, void *communicator, void *stream) {
  if (type != 0)
    return kInvalidArgument;
  return add({static_cast<Communicator *>(communicator), stream, Kind::Receive, nullptr, bytes, count, type, peer});
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int combine, void *communicator, void *stream) {
  return add({static_cast<Communicator *>(communicator), stream, Kind::AllReduce, from, to, count, type, 0, combine});
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int combine, void *communicator,
                      void *stream) {
  return add(
      {static_cast<Communicator *>(communicator), stream, Kind::ReduceScatter, from, to, count, type, 0, combine});
}
int ncclAllGather(const void *from, void *to, size_t count, int type, void *communicator, void *stream) {
  return add({static_cast<Communicator *>(communicator), stream, Kind::AllGather, from, to, count, type});
}
/// For tests: returns the number of calls of collectives.
int64_t kerfStandinNcclCollectives() { return collectives; }
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (--depth > 0)
    return kSuccess;
  std::vector<Operation> operations = std::exchange(pending, {});
  return std::exchange(groupFailed, false) ? kUnhandledCudaError : enqueue(std::move(operations));
}
}
