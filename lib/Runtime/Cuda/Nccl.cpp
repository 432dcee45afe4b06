// SPDX-License-Identifier: Apache-2.0
#include "Nccl.h"
#include "Library.h"

#include <cstring>
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

namespace {
/// Returns the functions of NCCL by which ranks get a communicator.
CommunicatorLibrary libraryOf(const std::shared_ptr<Context> &context, const Nccl &nccl) {
  auto makeRoot = [context, &nccl](std::span<std::byte> root) -> Status {
    NcclId id = {};
    if (NcclResult result = nccl.getUniqueId(&id))
      return ncclError(nccl, result, context->number(), "make a number for a communicator");
    std::memcpy(root.data(), id.bytes, sizeof id.bytes);
    return ok();
  };
  auto join = [context, &nccl](std::span<std::byte> root, int64_t ranks, int64_t rank) -> Result<void *> {
    if (Status status = context->use(); !status)
      return status.error();
    NcclId id = {};
    std::memcpy(id.bytes, root.data(), sizeof id.bytes);
    void *communicator = nullptr;
    if (NcclResult result = nccl.commInitRank(&communicator, int(ranks), id, int(rank)))
      return ncclError(nccl, result, context->number(), fmt::format("join a communicator of {} ranks", ranks));
    return communicator;
  };
  return {sizeof(NcclId), makeRoot, join};
}
} // namespace

NcclCommunicators::NcclCommunicators(std::shared_ptr<Context> of, const Nccl &nccl, Communicator &messages)
    : groups(libraryOf(of, nccl), messages), context(std::move(of)), nccl(nccl) {}

NcclCommunicators::~NcclCommunicators() {
  groups.waitForAll(); // a thread that waits in NCCL for a rank that has ended stays to the end of this process
  if (!aborted && !context->keepsGraphs && context->use())
    groups.each([&](void *communicator) { nccl.commDestroy(communicator); });
}

std::optional<Error> NcclCommunicators::error() const {
  std::optional<Error> first;
  if (!aborted)
    groups.each([&](void *communicator) {
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
  groups.each([&](void *communicator) {
    threads.emplace_back([this, communicator] {
      if (context->use())
        nccl.commAbort(communicator);
    });
  });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace kerf::runtime::cuda
