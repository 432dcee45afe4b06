// SPDX-License-Identifier: Apache-2.0
#include "Hccl.h"
#include "Library.h"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <fmt/format.h>
#include <thread>

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
    void *found = dlsym(*library, exported);
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

template <typename F> void HcclCommunicators::each(F visit) {
  for (const Making &making : makings)
    if (making.member->handle.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      if (const Result<HcclCommunicator> &made = making.member->handle.get())
        visit(*made);
}

HcclCommunicators::~HcclCommunicators() {
  // A thread that waits for a rank that has ended is left alone: HCCL gives up after HCCL_CONNECT_TIMEOUT.
  for (const Making &making : makings) {
    making.hasRoot.wait();
    (void)waitFor(making.member->handle);
  }
  context->prepareRelease();
  for (const Making &making : makings)
    if (making.member->done)
      context->acl.destroyEvent(making.member->done);
  if (!isAbandoned && !messages.failure())
    each([&](HcclCommunicator communicator) { hccl.commDestroy(communicator); });
}

Status HcclCommunicators::waitFor(const Handle &handle) const {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  while (handle.wait_for(kBetweenLooks) != std::future_status::ready)
    if (std::optional<Error> failure = messages.failure())
      return *failure;
  const Result<HcclCommunicator> &made = handle.get();
  return made ? ok() : Status(made.error());
}

Result<HcclCommunicator> HcclCommunicators::enter(Member &member, AscendStream &on) const {
  if (Status made = waitFor(member.handle); !made)
    return made.error();
  // Work that was enqueued before a capture began is done before the captured work.
  if (member.stream && member.stream != on.stream && member.capture == context->captures)
    if (Status ordered = context->check(context->acl.streamWaitEvent(on.stream, member.done), "order collectives");
        !ordered)
      return ordered.error();
  return *member.handle.get();
}

Status HcclCommunicators::leave(Member &member, AscendStream &on) const {
  if (!member.done) {
    auto event = makeEvent(*context);
    if (!event)
      return event.error();
    member.done = *event;
  }
  member.stream = on.stream;
  member.capture = context->captures;
  return context->check(context->acl.recordEvent(member.done, on.stream), "order collectives");
}

std::optional<Error> HcclCommunicators::error() {
  std::optional<Error> first;
  if (!isAbandoned)
    each([&](HcclCommunicator communicator) {
      HcclResult result = 0;
      if (HcclResult asked = hccl.getCommAsyncError(communicator, &result))
        result = asked;
      if (result != 0 && !first)
        first = hcclError(hccl, *context, result, "reach the other ranks");
    });
  return first;
}

HcclCommunicators::MemberOf HcclCommunicators::start(std::shared_ptr<HcclRootInfo> root, From from, uint32_t ranks,
                                                     uint32_t rank, std::shared_future<void> after) {
  auto rooted = std::make_shared<std::promise<void>>();
  auto made = std::make_shared<std::promise<Result<HcclCommunicator>>>();
  auto member = std::make_shared<Member>();
  member->handle = made->get_future().share();
  makings.push_back({rooted->get_future().share(), member});
  std::thread([&hccl = hccl, &messages = messages, context = context, rooted, made, root, from, ranks, rank, after] {
    std::shared_ptr<HcclRootInfo> shared = root;
    Status status = ok();
    if (!shared) {
      if (after.valid())
        after.wait();
      shared = std::make_shared<HcclRootInfo>();
      status = messages.receive(std::as_writable_bytes(std::span(shared->bytes)), from.rank, from.tag);
    }
    rooted->set_value(); // from here on nothing of this object is used
    if (status)
      status = context->use();
    if (!status)
      return made->set_value(status.error());
    HcclCommunicator communicator = nullptr;
    if (HcclResult result = hccl.commInitRootInfo(ranks, shared.get(), rank, &communicator))
      return made->set_value(hcclError(hccl, *context, result, fmt::format("join a communicator of {} ranks", ranks)));
    made->set_value(communicator);
  }).detach();
  return member;
}

Result<std::shared_ptr<HcclRootInfo>> HcclCommunicators::newRoot() const {
  if (Status status = context->use(); !status)
    return status.error();
  auto root = std::make_shared<HcclRootInfo>();
  if (HcclResult result = hccl.getRootInfo(root.get()))
    return hcclError(hccl, *context, result, "make the root information of a communicator");
  return root;
}

Status HcclCommunicators::sendRoot(const std::shared_ptr<HcclRootInfo> &root, int64_t to, int64_t tag) {
  sentRoots.push_back(root);
  return messages.startSend(std::as_bytes(std::span(root->bytes)), to, tag);
}

Result<HcclCommunicators::MemberOf> HcclCommunicators::ofGroup(const std::vector<int64_t> &members, int64_t tag) {
  if (auto found = groups.find(members); found != groups.end())
    return found->second;
  std::shared_ptr<HcclRootInfo> root;
  if (messages.rank() == members[0]) {
    auto made = newRoot();
    if (!made)
      return made.error();
    root = *made;
    for (size_t i = 1; i < members.size(); ++i)
      if (Status sent = sendRoot(root, members[i], tag); !sent)
        return sent.error();
  }
  auto rank = uint32_t(std::find(members.begin(), members.end(), messages.rank()) - members.begin());
  MemberOf member = start(root, {members[0], tag}, uint32_t(members.size()), rank, lastGroupHasRoot);
  if (!root)
    lastGroupHasRoot = makings.back().hasRoot;
  return groups.emplace(members, member).first->second;
}

Result<HcclCommunicators::MemberOf> HcclCommunicators::ofMessage(int64_t from, int64_t to, int64_t tag) {
  auto [found, isNew] = pairs.try_emplace({from, to, tag});
  if (!isNew)
    return found->second;
  if (messages.rank() == to) // the sender may bind later: the thread waits for its root information
    return found->second = start(nullptr, {from, tag}, 2, 1);
  auto root = newRoot();
  if (!root)
    return root.error();
  if (Status sent = sendRoot(*root, to, tag); !sent)
    return sent.error();
  return found->second = start(*root, {from, tag}, 2, 0);
}

} // namespace kerf::runtime::ascend
