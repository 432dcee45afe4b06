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
Result<Nccl> resolveNccl() {
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
  static const Result<Nccl> nccl = resolveNccl();
  if (!nccl)
    return nccl.error();
  return &*nccl;
}

Error ncclError(const Nccl &nccl, NcclResult result, int device, std::string_view what) {
  return {fmt::format("GPU {} cannot {}: NCCL says '{}' ({}); run with NCCL_DEBUG=WARN to see its reasons", device,
                      what, nccl.getErrorString(result), result)};
}

template <typename F> void NcclCommunicators::each(F visit) {
  for (const Making &making : makings)
    if (making.handle.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      if (const Result<void *> &made = making.handle.get())
        visit(*made);
}

NcclCommunicators::~NcclCommunicators() {
  // NCCL waits for ever for a rank that has ended. The thread that waits there is left to the end of this process.
  for (const Making &making : makings) {
    making.hasNumber.wait();
    (void)waitFor(making.handle);
  }
  if (!aborted && !context->keepsGraphs && context->use())
    each([&](void *communicator) { nccl.commDestroy(communicator); });
}

Status NcclCommunicators::waitFor(const Handle &handle) const {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  while (handle.wait_for(kBetweenLooks) != std::future_status::ready)
    if (std::optional<Error> failure = messages.failure())
      return *failure;
  const Result<void *> &made = handle.get();
  return made ? ok() : Status(made.error());
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

NcclCommunicators::Handle NcclCommunicators::start(std::optional<NcclId> id, From from, int ranks, int rank,
                                                   std::shared_future<void> after) {
  auto numbered = std::make_shared<std::promise<void>>();
  auto made = std::make_shared<std::promise<Result<void *>>>();
  Handle handle = made->get_future().share();
  makings.push_back({numbered->get_future().share(), handle});
  std::thread([&nccl = nccl, &messages = messages, context = context, numbered, made, id, from, ranks, rank, after] {
    NcclId shared = id.value_or(NcclId());
    Status status = ok();
    if (!id && after.valid())
      after.wait();
    if (!id)
      status = messages.receive(std::as_writable_bytes(std::span(shared.bytes)), from.rank, from.tag);
    numbered->set_value(); // from here on nothing of this object is used
    if (status)
      status = context->use();
    if (!status)
      return made->set_value(status.error());
    void *communicator = nullptr;
    if (NcclResult result = nccl.commInitRank(&communicator, ranks, shared, rank))
      return made->set_value(
          ncclError(nccl, result, context->number(), fmt::format("join a communicator of {} ranks", ranks)));
    made->set_value(communicator);
  }).detach();
  return handle;
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
  std::optional<NcclId> id;
  if (messages.rank() == members[0]) {
    auto made = newId();
    if (!made)
      return made.error();
    id = *made;
    for (size_t i = 1; i < members.size(); ++i)
      if (Status sent = sendId(*id, members[i], tag); !sent)
        return sent.error();
  }
  int rank = int(std::find(members.begin(), members.end(), messages.rank()) - members.begin());
  Handle handle = start(id, {members[0], tag}, int(members.size()), rank, lastGroupHasNumber);
  if (!id)
    lastGroupHasNumber = makings.back().hasNumber;
  return groups.emplace(members, handle).first->second;
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
