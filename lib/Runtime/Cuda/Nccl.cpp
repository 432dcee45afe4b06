// SPDX-License-Identifier: Apache-2.0
#include "Nccl.h"
#include "Library.h"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <fmt/format.h>
#include <thread>
#include <utility>

namespace kerf::runtime::cuda {

namespace {
Result<Nccl> load() {
  auto library = openLibrary("libnccl.so.2");
  if (!library)
    return Error{fmt::format("NCCL, which moves data between GPUs, cannot be loaded ({}); install it (pip install "
                             "nvidia-nccl-cu13), or name its folder in KERF_CUDA_LIBRARIES",
                             library.error().message),
                 ExitStatus::Infeasible};
  Nccl nccl;
  bool whole = true;
#define KERF_LOAD(name, exported, ...)                                                                                 \
  nccl.name = reinterpret_cast<decltype(nccl.name)>(dlsym(library->handle, exported));                                 \
  whole = whole && nccl.name;
  KERF_NCCL_FUNCTIONS(KERF_LOAD)
#undef KERF_LOAD
  nccl.getErrorString = reinterpret_cast<decltype(nccl.getErrorString)>(dlsym(library->handle, "ncclGetErrorString"));
  if (!whole || !nccl.getErrorString || nccl.getVersion(&nccl.version) != 0 || nccl.version < kLowestNccl)
    return Error{fmt::format("NCCL at {} has version {}, but {} (2.18) is the lowest that Kerf runs with; install a "
                             "newer one",
                             library->file, nccl.version, kLowestNccl),
                 ExitStatus::Infeasible};
  return nccl;
}
} // namespace

Result<const Nccl *> loadNccl() {
  static const Result<Nccl> nccl = load();
  if (!nccl)
    return nccl.error();
  return &*nccl;
}

Error ncclError(const Nccl &nccl, NcclResult result, int device, std::string_view what) {
  return {fmt::format("GPU {} cannot {}: NCCL says '{}' ({}); run with NCCL_DEBUG=WARN to see its reasons", device,
                      what, nccl.getErrorString(result), result)};
}

template <typename F> void NcclCommunicators::each(F visit) {
  auto ready = [&](const Handle &handle) {
    if (handle.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      if (const Result<void *> &made = handle.get())
        visit(*made);
  };
  for (auto &[members, handle] : groups)
    ready(handle);
  for (auto &[pair, handle] : pairs)
    ready(handle);
}

NcclCommunicators::~NcclCommunicators() {
  for (auto &[members, handle] : groups)
    handle.wait();
  for (auto &[pair, handle] : pairs)
    handle.wait();
  if (!aborted && !context->keepsGraphs && context->use())
    each([&](void *communicator) { nccl.commDestroy(communicator); });
}

std::optional<Error> NcclCommunicators::error() {
  std::optional<Error> first;
  if (!aborted)
    each([&](void *communicator) {
      NcclResult result = 0;
      if (nccl.commGetAsyncError(communicator, &result) != 0 || (result != 0 && result != kNcclInProgress))
        first = first ? first : ncclError(nccl, result, context->number(), "reach the other ranks");
    });
  return first;
}

void NcclCommunicators::abort() {
  if (std::exchange(aborted, true))
    return;
  if (context->keepsGraphs)
    return;
  // Each in a thread of its own: NCCL ends a communicator when no graph holds calls of it, and a graph that is under
  // way may wait for the other communicators.
  std::vector<std::thread> threads;
  each([&](void *communicator) {
    threads.emplace_back([this, communicator] {
      if (context->use())
        nccl.commAbort(communicator);
    });
  });
  for (std::thread &thread : threads)
    thread.join();
}

NcclCommunicators::Handle NcclCommunicators::start(std::optional<NcclId> id, From from, int ranks, int rank) {
  return std::async(std::launch::async,
                    [this, id, from, ranks, rank]() -> Result<void *> {
                      NcclId shared = id.value_or(NcclId());
                      if (!id) {
                        auto bytes = std::as_writable_bytes(std::span(shared.bytes));
                        Status received = messages.receive(bytes, from.rank, from.tag);
                        if (!received)
                          return received.error();
                      }
                      if (Status status = context->use(); !status)
                        return status.error();
                      void *made = nullptr;
                      if (NcclResult result = nccl.commInitRank(&made, ranks, shared, rank))
                        return ncclError(nccl, result, context->number(),
                                         fmt::format("join a communicator of {} ranks", ranks));
                      return made;
                    })
      .share();
}

Result<NcclId> NcclCommunicators::newId() const {
  NcclId id = {};
  if (NcclResult result = nccl.getUniqueId(&id))
    return ncclError(nccl, result, context->number(), "make a number for a communicator");
  return id;
}

Status NcclCommunicators::sendId(const NcclId &id, int64_t to, int64_t tag) {
  sentIds.push_back(std::make_shared<NcclId>(id));
  return messages.startSend(std::as_bytes(std::span(sentIds.back()->bytes)), to, tag);
}

Result<NcclCommunicators::Handle> NcclCommunicators::ofGroup(const std::vector<int64_t> &members, int64_t tag) {
  if (auto found = groups.find(members); found != groups.end())
    return found->second;
  NcclId id = {};
  if (messages.rank() == members[0]) {
    auto made = newId();
    if (!made)
      return made.error();
    id = *made;
    for (size_t i = 1; i < members.size(); ++i)
      if (Status sent = sendId(id, members[i], tag); !sent)
        return sent.error();
  } else if (Status got = messages.receive(std::as_writable_bytes(std::span(id.bytes)), members[0], tag); !got) {
    return got.error(); // at once, so that the numbers of a bucket's groups come in order
  }
  int rank = int(std::find(members.begin(), members.end(), messages.rank()) - members.begin());
  return groups.emplace(members, start(id, {members[0], tag}, int(members.size()), rank)).first->second;
}

Result<NcclCommunicators::Handle> NcclCommunicators::ofMessage(int64_t from, int64_t to, int64_t tag) {
  auto [found, isNew] = pairs.try_emplace({from, to, tag});
  if (!isNew)
    return found->second;
  if (messages.rank() == to) // the sender may bind later: the thread waits for its number
    return found->second = start(std::nullopt, {from, tag}, 2, 1);
  auto id = newId();
  if (!id)
    return id.error();
  if (Status sent = sendId(*id, to, tag); !sent)
    return sent.error();
  return found->second = start(*id, {from, tag}, 2, 0);
}

} // namespace kerf::runtime::cuda
