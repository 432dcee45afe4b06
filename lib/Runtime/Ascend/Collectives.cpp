// SPDX-License-Identifier: Apache-2.0
// Enqueues what Exchanges.h has planned, and messages between pipeline stages. Every collective of the dialect, of any
// shape, gives the bits that the CPU gives, except for sums whose order need not be that of the ranks.
#include "Collectives.h"
#include "../Accelerator/StreamCollectives.h"
#include "Exchanges.h"
#include "Launches.h"

#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
/// One group of sends and receives of a bound collective, with the calls before and after it.
struct Step {
  std::vector<Launch> before, after;
  std::vector<std::vector<HcclItem>> messages;         // for each collective of the bucket
  std::vector<std::optional<NativeCollective>> native; // empty, or one element for each collective
};

class AscendCollectives : public StreamCollectives {
public:
  AscendCollectives(std::shared_ptr<Context> of, Communicator &messages, const Hccl *hccl, CollectiveOptions options)
      : StreamCollectives(messages, options), context(std::move(of)), hccl(hccl) {
    if (!hccl)
      return;
    made.emplace(context, *hccl, messages);
    context->peerFailure = [this]() -> std::optional<Error> {
      std::optional<Error> failure = this->messages.failure();
      if (!failure)
        failure = made->error();
      if (failure) {
        made->abandon();
        context->isAbandoned = true;
      }
      return failure;
    };
  }
  ~AscendCollectives() override {
    if (made && messages.failure()) { // before streams of messages are destroyed
      made->abandon();
      context->isAbandoned = true;
    }
    context->peerFailure = nullptr;
    endMessages();
  }

  Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) override;

protected:
  Result<std::unique_ptr<Stream>> newStream() override { return asBase<Stream>(AscendStream::create(context)); }
  Result<std::unique_ptr<Event>> newEvent() override { return asBase<Event>(AscendEvent::create(context, nullptr)); }
  GroupCommunicators &communicators() override { return made->groups; }
  Status use() override { return context->use(); }
  Status send(const Handle &pair, const TensorView &tensor, Stream &on) override {
    return within(pair, static_cast<AscendStream &>(on), "send a message",
                  [&](HcclCommunicator group, AclStream stream) {
                    return hccl->send(tensor.data, uint64_t(tensor.bytes()), kHcclBytes, 1, group, stream);
                  });
  }
  Status receive(const Handle &pair, const TensorView &tensor, Stream &on) override {
    return within(pair, static_cast<AscendStream &>(on), "receive a message",
                  [&](HcclCommunicator group, AclStream stream) {
                    return hccl->recv(tensor.data, uint64_t(tensor.bytes()), kHcclBytes, 0, group, stream);
                  });
  }

private:
  /// Makes a call of HCCL in its order among the calls of the communicator.
  template <typename Call>
  Status within(const Handle &handle, AscendStream &on, std::string_view what, const Call &call) {
    auto group = made->enter(handle, on);
    if (!group)
      return group.error();
    if (HcclResult result = call(*group, on.stream))
      return hcclError(*hccl, *context, result, what);
    return made->leave(*group, on);
  }
  Status exchange(Step &step, const std::vector<Handle> &groups, const std::string &what, AscendStream &on);

  std::shared_ptr<Context> context;
  const Hccl *hccl; // null for one rank
  std::optional<HcclCommunicators> made;
};

Status AscendCollectives::exchange(Step &step, const std::vector<Handle> &groups, const std::string &what,
                                   AscendStream &on) {
  for (size_t c = 0; c < groups.size(); ++c) {
    bool isNative = c < step.native.size() && step.native[c];
    if (!isNative && step.messages[c].empty())
      continue;
    auto call = [&](HcclCommunicator group, AclStream stream) {
      std::vector<HcclItem> &items = step.messages[c];
      return isNative ? enqueueNative(*hccl, *step.native[c], group, stream)
                      : hccl->batchSendRecv(items.data(), uint32_t(items.size()), group, stream);
    };
    if (Status status = within(groups[c], on, what, call); !status)
      return status;
  }
  return ok();
}

Result<std::unique_ptr<BoundKernel>> AscendCollectives::bind(const CollectiveRequest &request) {
  auto plan = npuExchanges(request, options);
  if (!plan)
    return plan.error();
  std::vector<Step> steps;
  for (Round &round : plan->rounds) {
    auto before = launchesOf(context, std::move(round.before)), after = launchesOf(context, std::move(round.after));
    if (!before || !after)
      return before ? after.error() : before.error();
    Step step{std::move(*before), std::move(*after), {}, {}};
    step.messages.resize(plan->groups.size());
    for (const auto &[list, kind] : {std::pair(&round.sends, kSendItem), std::pair(&round.receives, kReceiveItem)})
      for (const Message &one : *list)
        step.messages[one.group].push_back({kind, one.data, uint64_t(one.bytes), kHcclBytes, uint32_t(one.peer)});
    if (steps.empty())
      step.native = std::move(plan->native);
    steps.push_back(std::move(step));
  }
  return stepping<AscendStream>(std::move(steps), plan->groups, request,
                                [this](auto &&...of) { return exchange(of...); });
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
