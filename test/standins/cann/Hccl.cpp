// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in of libhccl.so. They check their arguments and enqueue what HcclRanks.h runs.
#include "HcclRanks.h"
#include "Tensors.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace kerf::standin::cann {

namespace {
struct RootInfo {
  char bytes[4108];
};

std::mutex registryMutex;
std::map<std::string, std::weak_ptr<Group>> registry;
uint64_t roots = 0;
bool isDeterministic = false;

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
