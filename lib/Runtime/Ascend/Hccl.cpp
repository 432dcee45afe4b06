// SPDX-License-Identifier: Apache-2.0
#include "Hccl.h"
#include "Library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
Result<Hccl> load() {
  auto library = openLibrary("libhccl.so");
  if (!library)
    return Error{
        fmt::format("HCCL, which moves data between Ascend NPUs, cannot be loaded ({}); install CANN and source "
                    "its set_env.sh, or name the library's folder in KERF_ASCEND_LIBRARIES",
                    library.error().message),
        ExitStatus::Infeasible};
  Hccl hccl;
  std::string missing;
  auto find = [&](const char *exported) {
    void *found = dlsym(library->handle, exported);
    if (!found && missing.empty())
      missing = exported;
    return found;
  };
#define KERF_LOAD(name, exported, ...) hccl.name = reinterpret_cast<decltype(hccl.name)>(find(exported));
  KERF_HCCL_FUNCTIONS(KERF_LOAD)
  KERF_LOAD(getErrorString, "HcclGetErrorString")
#undef KERF_LOAD
  if (!missing.empty())
    return Error{fmt::format("HCCL has no function {}, which Kerf needs; install CANN 8.1 or newer", missing),
                 ExitStatus::Infeasible};
  return hccl;
}
} // namespace

Result<const Hccl *> loadHccl() {
  static const Result<Hccl> hccl = load();
  if (!hccl)
    return hccl.error();
  return &*hccl;
}

Error hcclError(const Hccl &hccl, const Context &context, HcclResult result, std::string_view what) {
  const char *recent = context.acl.getRecentErrMsg(), *text = hccl.getErrorString(result);
  return {fmt::format("NPU {} cannot {}: HCCL says '{}' ({}){}; the log files of CANN (~/ascend/log) have more",
                      context.number, what, text ? text : "an unknown error", result,
                      recent && *recent ? fmt::format(": {}", recent) : "")};
}

namespace {
/// Returns the functions of HCCL by which ranks get a communicator.
CommunicatorLibrary libraryOf(const std::shared_ptr<Context> &context, const Hccl &hccl) {
  auto makeRoot = [context, &hccl](std::span<std::byte> root) -> Status {
    if (Status status = context->use(); !status)
      return status;
    if (HcclResult result = hccl.getRootInfo(reinterpret_cast<HcclRootInfo *>(root.data())))
      return hcclError(hccl, *context, result, "make the root information of a communicator");
    return ok();
  };
  auto join = [context, &hccl](std::span<std::byte> root, int64_t ranks, int64_t rank) -> Result<void *> {
    if (Status status = context->use(); !status)
      return status.error();
    HcclCommunicator communicator = nullptr;
    if (HcclResult result = hccl.commInitRootInfo(uint32_t(ranks), reinterpret_cast<HcclRootInfo *>(root.data()),
                                                  uint32_t(rank), &communicator))
      return hcclError(hccl, *context, result, fmt::format("join a communicator of {} ranks", ranks));
    return communicator;
  };
  return {sizeof(HcclRootInfo), makeRoot, join};
}
} // namespace

HcclCommunicators::HcclCommunicators(std::shared_ptr<Context> of, const Hccl &hccl, Communicator &messages)
    : groups(libraryOf(of, hccl), messages), context(std::move(of)), hccl(hccl), messages(messages) {}

HcclCommunicators::~HcclCommunicators() {
  groups.waitForAll(); // a thread that is left alone ends after HCCL_CONNECT_TIMEOUT
  context->prepareRelease();
  for (const auto &[communicator, last] : lastCalls)
    if (last.done)
      context->acl.destroyEvent(last.done);
  if (!isAbandoned && !messages.failure())
    groups.each([&](HcclCommunicator communicator) { hccl.commDestroy(communicator); });
}

Result<HcclCommunicator> HcclCommunicators::enter(const GroupCommunicators::Handle &handle, AscendStream &on) {
  auto made = groups.waitFor(handle);
  if (!made)
    return made.error();
  // Work that was enqueued before a capture began is done before the captured work.
  const LastCall &last = lastCalls[*made];
  if (last.stream && last.stream != on.stream && last.capture == context->captures)
    if (Status ordered = context->check(context->acl.streamWaitEvent(on.stream, last.done), "order collectives");
        !ordered)
      return ordered.error();
  return *made;
}

Status HcclCommunicators::leave(HcclCommunicator communicator, AscendStream &on) {
  LastCall &last = lastCalls[communicator];
  if (!last.done) {
    auto event = makeEvent(*context);
    if (!event)
      return event.error();
    last.done = *event;
  }
  last.stream = on.stream;
  streams.insert(on.stream);
  last.capture = context->captures;
  return context->check(context->acl.recordEvent(last.done, on.stream), "order collectives");
}

std::optional<Error> HcclCommunicators::error() const {
  std::optional<Error> first;
  if (!isAbandoned)
    groups.each([&](HcclCommunicator communicator) {
      HcclResult result = 0;
      if (HcclResult asked = hccl.getCommAsyncError(communicator, &result))
        result = asked;
      if (result != 0 && !first)
        first = hcclError(hccl, *context, result, "reach the other ranks");
    });
  // A stream that has failed sends nothing more, and the streams that are waited for may wait for it or for other
  // ranks.
  if (!isAbandoned)
    for (AclStream stream : streams) {
      int state = 0;
      if (AclResult failed = context->acl.streamQuery(stream, &state); failed != 0 && !first)
        first = context->check(failed, "finish its collectives").error();
    }
  return first;
}

} // namespace kerf::runtime::ascend
