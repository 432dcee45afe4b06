// SPDX-License-Identifier: Apache-2.0
// Enqueues what Exchanges.h has planned, and messages between pipeline stages. Every collective of the dialect, of any
// shape, gives the bits that the CPU gives, except for sums whose order need not be that of the ranks.
#include "Collectives.h"
#include "Exchanges.h"
#include "Launches.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace kerf::runtime::ascend {

namespace {
/// The objects that collectives and messages of one rank share.
struct Links {
  std::shared_ptr<Context> context;
  Communicator &communicator;
  const Hccl *hccl = nullptr; // null for one rank
  std::optional<HcclCommunicators> communicators;
};

/// A bound collective.
class AscendCollective {
public:
  struct Step {
    std::vector<Launch> before, after;
    std::vector<std::vector<HcclItem>> messages;         // for each collective of the bucket
    std::vector<std::optional<NativeCollective>> native; // empty, or one element for each collective
  };
  using Groups = std::vector<HcclCommunicators::MemberOf>;
  AscendCollective(std::vector<Step> steps, Links &links, Groups groups, std::string what)
      : steps(std::move(steps)), links(links), groups(std::move(groups)), what(std::move(what)) {}

  Status launch(AscendStream &on) {
    for (Step &step : steps) {
      if (Status status = launchAll(step.before, on); !status)
        return status;
      if (Status status = exchange(step, on); !status)
        return status;
      if (Status status = launchAll(step.after, on); !status)
        return status;
    }
    return ok();
  }

private:
  Status exchange(Step &step, AscendStream &on) {
    for (size_t c = 0; c < groups.size(); ++c) {
      bool isNative = c < step.native.size() && step.native[c];
      if (!isNative && step.messages[c].empty())
        continue;
      auto entered = links.communicators->enter(*groups[c], on);
      if (!entered)
        return entered.error();
      HcclCommunicator group = *entered;
      HcclResult result = isNative ? enqueue(*step.native[c], group, on.stream)
                                   : links.hccl->batchSendRecv(step.messages[c].data(),
                                                               uint32_t(step.messages[c].size()), group, on.stream);
      if (result != 0)
        return hcclError(*links.hccl, *links.context, result, what);
      if (Status left = links.communicators->leave(*groups[c], on); !left)
        return left;
    }
    return ok();
  }

  HcclResult enqueue(const NativeCollective &native, HcclCommunicator group, AclStream stream) const {
    const Hccl &hccl = *links.hccl;
    switch (native.kind) {
    case NativeCollective::Kind::AllReduce:
      return hccl.allReduce(native.from, native.to, native.count, native.type, native.combine, group, stream);
    case NativeCollective::Kind::ReduceScatter:
      return hccl.reduceScatter(native.from, native.to, native.count, native.type, native.combine, group, stream);
    case NativeCollective::Kind::AllGather:
      break;
    }
    return hccl.allGather(native.from, native.to, native.count, native.type, group, stream);
  }

  std::vector<Step> steps;
  Links &links;
  Groups groups; // for each collective of the bucket; null for a group of one rank
  std::string what;
};

/// A message that is sent on a stream beside the sender's, which goes on. Messages of one tag to one rank share the
/// stream, because HCCL runs the calls of a communicator in the order of its stream only.
struct Sending {
  std::shared_ptr<Context> context;
  std::shared_ptr<AscendStream> stream;
  AclEvent ready = nullptr, sent = nullptr;
  ~Sending() {
    context->prepareRelease();
    for (AclEvent event : {ready, sent})
      if (event)
        context->acl.destroyEvent(event);
  }
};

/// A kernel that calls a function with the stream. A failure ends the run on all ranks, because others may be waiting
/// for this one.
template <typename Act> class CallingKernel : public BoundKernel {
public:
  CallingKernel(Links &links, Act act) : links(links), act(std::move(act)) {}
  Status launch(Stream &stream) override {
    auto &on = static_cast<AscendStream &>(stream);
    Status status = on.context->use();
    if (status)
      status = act(on);
    if (!status && !links.communicator.failure())
      links.communicator.abort(
          {fmt::format("rank {}: {}", links.communicator.rank(), status.error().message), status.error().status});
    return status;
  }

private:
  Links &links;
  Act act;
};

class AscendCollectives : public CollectiveBackend {
public:
  AscendCollectives(std::shared_ptr<Context> context, Communicator &communicator, const Hccl *hccl,
                    CollectiveOptions options)
      : links{std::move(context), communicator, hccl, {}}, options(options) {
    if (!hccl)
      return;
    links.communicators.emplace(links.context, *hccl, communicator);
    links.context->peerFailure = [this]() -> std::optional<Error> {
      std::optional<Error> failure = links.communicator.failure();
      if (!failure)
        failure = links.communicators->error();
      if (failure) {
        links.communicators->abandon();
        links.context->isAbandoned = true;
      }
      return failure;
    };
  }
  ~AscendCollectives() override {
    if (links.context->peerFailure)
      (void)links.context->peerFailure(); // before streams of messages are destroyed
    links.context->peerFailure = nullptr;
  }

  bool ordered() const override { return options.ordered; }
  void reserve(size_t) override {} // HCCL has its own buffers

  Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) override;

private:
  /// Returns the state of a message.
  Result<std::shared_ptr<Sending>> sendingOf(const MessageRequest &request);
  template <typename Act> std::unique_ptr<BoundKernel> calling(Act act) {
    return std::make_unique<CallingKernel<Act>>(links, std::move(act));
  }
  Links links;
  const CollectiveOptions options;
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<AscendStream>> sendStreams;  // by peer and tag
  std::map<std::tuple<void *, int64_t, int64_t>, std::shared_ptr<Sending>> sendings; // by data, peer and tag
};

Result<std::unique_ptr<BoundKernel>> AscendCollectives::bind(const CollectiveRequest &request) {
  auto plan = npuExchanges(request, options);
  if (!plan)
    return plan.error();
  std::vector<AscendCollective::Step> steps;
  for (Round &round : plan->rounds) {
    auto before = launchesOf(links.context, std::move(round.before)),
         after = launchesOf(links.context, std::move(round.after));
    if (!before || !after)
      return before ? after.error() : before.error();
    AscendCollective::Step step{std::move(*before), std::move(*after), {}, {}};
    step.messages.resize(plan->groups.size());
    for (const auto &[list, kind] : {std::pair(&round.sends, kSendItem), std::pair(&round.receives, kReceiveItem)})
      for (const Message &one : *list)
        step.messages[one.group].push_back({kind, one.data, uint64_t(one.bytes), kHcclBytes, uint32_t(one.peer)});
    if (steps.empty())
      step.native = std::move(plan->native);
    steps.push_back(std::move(step));
  }
  AscendCollective::Groups handles(plan->groups.size());
  for (size_t g = 0; g < plan->groups.size(); ++g)
    if (plan->groups[g].size() > 1) {
      auto made = links.communicators->ofGroup(plan->groups[g], request.tag);
      if (!made)
        return made.error();
      handles[g] = *made;
    }
  return calling([collective = AscendCollective(std::move(steps), links, std::move(handles),
                                                fmt::format("run {}", request.bind.instruction.op))](
                     AscendStream &on) mutable { return collective.launch(on); });
}

Result<std::shared_ptr<Sending>> AscendCollectives::sendingOf(const MessageRequest &request) {
  auto [found, isNew] = sendings.try_emplace({request.tensor.data, request.peer, request.tag}, nullptr);
  if (!isNew)
    return found->second;
  auto sending = std::make_shared<Sending>();
  sending->context = links.context;
  std::shared_ptr<AscendStream> &shared = sendStreams[{request.peer, request.tag}];
  if (!shared) {
    auto stream = AscendStream::create(links.context);
    if (!stream)
      return stream.error();
    shared = std::move(*stream);
  }
  sending->stream = shared;
  for (AclEvent *event : {&sending->ready, &sending->sent}) {
    auto made = makeEvent(*links.context);
    if (!made)
      return made.error();
    *event = *made;
  }
  return found->second = sending;
}

Result<std::unique_ptr<BoundKernel>> AscendCollectives::bindSend(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  auto pair = links.communicators->ofMessage(links.communicator.rank(), request.peer, request.tag);
  if (!pair)
    return pair.error();
  return calling([this, sending = *sending, pair = *pair, view = request.tensor](AscendStream &on) -> Status {
    const Acl &acl = links.context->acl;
    AclStream own = sending->stream->stream;
    AclResult result = acl.recordEvent(sending->ready, on.stream);
    if (result == 0)
      result = acl.streamWaitEvent(own, sending->ready);
    if (result != 0)
      return links.context->check(result, "order a message");
    if (view.bytes() > 0) {
      auto entered = links.communicators->enter(*pair, *sending->stream);
      if (!entered)
        return entered.error();
      if (HcclResult sent = links.hccl->send(view.data, uint64_t(view.bytes()), kHcclBytes, 1, *entered, own))
        return hcclError(*links.hccl, *links.context, sent, "send a message");
    }
    return links.context->check(acl.recordEvent(sending->sent, own), "order a message");
  });
}

Result<std::unique_ptr<BoundKernel>> AscendCollectives::bindSent(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  return calling([this, sending = *sending](AscendStream &on) {
    return links.context->check(links.context->acl.streamWaitEvent(on.stream, sending->sent), "wait for a message");
  });
}

Result<std::unique_ptr<BoundKernel>> AscendCollectives::bindReceive(const MessageRequest &request) {
  auto pair = links.communicators->ofMessage(request.peer, links.communicator.rank(), request.tag);
  if (!pair)
    return pair.error();
  return calling([this, pair = *pair, view = request.tensor](AscendStream &on) -> Status {
    if (view.bytes() == 0)
      return ok();
    auto entered = links.communicators->enter(*pair, on);
    if (!entered)
      return entered.error();
    if (HcclResult result = links.hccl->recv(view.data, uint64_t(view.bytes()), kHcclBytes, 0, *entered, on.stream))
      return hcclError(*links.hccl, *links.context, result, "receive a message");
    return links.communicators->leave(*pair, on);
  });
}
} // namespace

Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) {
  auto plan = npuExchanges(request, options);
  if (!plan)
    return plan.error();
  return plan->scratchBytes;
}

Result<std::unique_ptr<CollectiveBackend>> createAscendCollectives(const std::shared_ptr<Context> &context,
                                                                   Communicator &communicator,
                                                                   const CollectiveOptions &options,
                                                                   bool deterministic) {
  const Hccl *hccl = nullptr;
  if (communicator.size() > 1) {
    auto loaded = loadHccl();
    if (!loaded)
      return loaded.error();
    hccl = *loaded;
    if (deterministic)
      if (HcclResult result = hccl->setConfig(kHcclDeterministic, {1}))
        return hcclError(*hccl, *context, result, "add in the same order in all runs");
  }
  CollectiveOptions chosen = options;
  chosen.ordered = options.ordered || !hccl;
  return std::unique_ptr<CollectiveBackend>(std::make_unique<AscendCollectives>(context, communicator, hccl, chosen));
}

} // namespace kerf::runtime::ascend
