// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's NCCL on machines without GPUs: ranks are threads of one process, and their GPUs those of the
// stand-in driver (../cuda). It keeps to what NCCL promises and no more: a send ends when its receive has taken the
// bytes, operations of one communicator run in the order in which they were enqueued, on whichever streams, and
// messages between two ranks are matched by their order. Where a stream is captured, the operations become nodes of
// the graph; a communicator does not end before such graphs do.
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
#include <utility>
#include <vector>

// From the stand-in driver.
extern "C" int kerfStandinEnqueue(void *stream, void (*function)(void *), void *data, void (*release)(void *),
                                  const void *chain);
extern "C" int cuStreamIsCapturing(void *stream, int *status);
extern "C" void *kerfStandinMemory(const void *address, size_t bytes); // null if the bytes are not device memory

namespace {
constexpr int kSuccess = 0, kUnhandledCudaError = 1, kInvalidArgument = 4;

struct Id {
  char bytes[128];
};

/// A message on its way between two ranks of a communicator.
struct Message {
  const void *bytes = nullptr;
  size_t size = 0;
  bool taken = false;
};

/// The state that all ranks of one communicator share.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, joined = 0;
  bool aborted = false; // by one of the ranks: nobody waits any more
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> messages; // by sender and receiver
};

/// One rank's end of a communicator.
struct Communicator {
  std::shared_ptr<Group> group;
  int rank = 0;
  // Guarded by group->mutex:
  uint64_t enqueued = 0, done = 0; // operations of this rank
  int64_t captured = 0;            // operations that graphs hold
};

/// One send or receive of a group call.
struct Operation {
  Communicator *communicator;
  void *stream;
  bool sends;
  void *bytes;
  size_t size;
  int peer;
};

/// The operations of one group call on one communicator and stream, which run as one.
struct Batch {
  Communicator *communicator;
  std::vector<Operation> operations;
  uint64_t number = 0; // position among the communicator's batches; in a graph, each launch gives one
  bool isCaptured = false;
};

std::mutex registryMutex;
std::map<uint64_t, std::weak_ptr<Group>> registry; // by the number in Id
uint64_t ids = 0;
thread_local int depth = 0;
thread_local std::vector<Operation> pending;

void run(Batch &batch) {
  Communicator &self = *batch.communicator;
  Group &group = *self.group;
  std::unique_lock lock(group.mutex);
  if (batch.isCaptured)
    batch.number = self.enqueued++;
  group.changed.wait(lock, [&] { return group.aborted || self.done == batch.number; });
  std::vector<std::shared_ptr<Message>> sent;
  for (const Operation &one : batch.operations)
    if (one.sends) {
      sent.push_back(std::make_shared<Message>(Message{one.bytes, one.size}));
      group.messages[{self.rank, one.peer}].push_back(sent.back());
    }
  group.changed.notify_all();
  for (const Operation &one : batch.operations) {
    if (one.sends)
      continue;
    auto &queue = group.messages[{one.peer, self.rank}];
    group.changed.wait(lock, [&] { return group.aborted || !queue.empty(); });
    if (group.aborted)
      return;
    std::shared_ptr<Message> message = queue.front();
    queue.pop_front();
    // Different sizes are a bug of the caller, which NCCL answers with a hang or with damage: this ends the test.
    if (message->size != one.size)
      std::abort();
    std::memcpy(one.bytes, message->bytes, one.size);
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
    one.bytes = one.size > 0 ? kerfStandinMemory(one.bytes, one.size) : nullptr;
    if (one.size > 0 && !one.bytes)
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

/// Whether this call of a send or receive is the one that the variable KERF_STANDIN_NCCL (a number, from 1) lets fail.
bool fails() {
  static const char *const chosen = std::getenv("KERF_STANDIN_NCCL");
  static std::atomic<long> calls = 0;
  return chosen && ++calls == std::atol(chosen);
}

int add(const Operation &operation) {
  if (fails())
    return kUnhandledCudaError;
  if (operation.peer < 0 || operation.peer >= operation.communicator->group->ranks)
    return kInvalidArgument;
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
  return result == kSuccess ? "no error" : result == kInvalidArgument ? "invalid argument" : "unhandled cuda error";
}
int ncclGetUniqueId(Id *id) {
  std::lock_guard lock(registryMutex);
  *id = {};
  uint64_t number = ++ids;
  std::memcpy(id->bytes, &number, sizeof number);
  return kSuccess;
}
int ncclCommInitRank(void **made, int ranks, Id id, int rank) {
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  if (number == 0 || rank < 0 || rank >= ranks)
    return kInvalidArgument;
  std::shared_ptr<Group> group;
  {
    std::lock_guard lock(registryMutex);
    group = registry[number].lock();
    if (!group)
      registry[number] = group = std::make_shared<Group>();
  }
  std::unique_lock lock(group->mutex);
  group->ranks = ranks;
  ++group->joined;
  group->changed.notify_all();
  group->changed.wait(lock, [&] { return group->joined == ranks; });
  *made = new Communicator{group, rank};
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
  waitForGraphs(*static_cast<Communicator *>(communicator));
  return kSuccess;
}
int ncclCommGetAsyncError(void *, int *error) {
  *error = kSuccess;
  return kSuccess;
}
// The only type of elements that Kerf sends is bytes (ncclInt8, number 0).
int ncclSend(const void *bytes, size_t count, int type, int peer, void *communicator, void *stream) {
  if (type != 0)
    return kInvalidArgument;
  return add({static_cast<Communicator *>(communicator), stream, true, const_cast<void *>(bytes), count, peer});
}
int ncclRecv(void *bytes, size_t count, int type, int peer, void *communicator, void *stream) {
  if (type != 0)
    return kInvalidArgument;
  return add({static_cast<Communicator *>(communicator), stream, false, bytes, count, peer});
}
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (--depth > 0)
    return kSuccess;
  return enqueue(std::exchange(pending, {}));
}
}
