// SPDX-License-Identifier: Apache-2.0
// Enqueues what Exchanges.h has planned, and messages between pipeline stages. Every collective of the dialect, of any
// shape, gives the bits that the CPU gives, except for sums whose order need not be that of the ranks.
#include "Collectives.h"
#include "../Accelerator/StreamCollectives.h"
#include "Exchanges.h"
#include "Graph.h"
#include "Launches.h"
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace kerf::runtime::cuda {

namespace {
/// One group of sends and receives of a bound collective, with the launches before and after it.
struct Step {
  std::vector<Launch> before, after;
  std::vector<Message> sends, receives;
  NativeCalls native; // empty, or one element for each collective of the bucket
};

/// The time for which a rank whose NCCL has met an error waits for the host's communicator to say which rank has ended.
/// NCCL notices that too, often sooner, but does not name the rank.
constexpr auto kTimeToName = std::chrono::seconds(3);

class CudaCollectives : public StreamCollectives {
public:
  CudaCollectives(std::shared_ptr<Context> of, Modules &modules, Communicator &messages, const Nccl *nccl,
                  CollectiveOptions options)
      : StreamCollectives(messages, options), context(std::move(of)), modules(modules), nccl(nccl) {
    if (!nccl)
      return;
    made.emplace(context, *nccl, messages);
    context->peerFailure = [this]() -> std::optional<Error> {
      std::optional<Error> failure = this->messages.failure();
      if (!failure && made->error()) {
        auto now = Clock::now();
        if (now >= firstError.value_or(now) + kTimeToName)
          failure = made->error();
        firstError = firstError.value_or(now);
      }
      if (failure) {
        for (CudaGraph *graph : context->graphs)
          graph->release();
        made->abort();
      }
      return failure;
    };
  }
  ~CudaCollectives() override {
    context->peerFailure = nullptr;
    endMessages();
  }

  Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) override;

protected:
  Result<std::unique_ptr<Stream>> newStream() override { return asBase<Stream>(CudaStream::create(context)); }
  Result<std::unique_ptr<Event>> newEvent() override { return asBase<Event>(CudaEvent::create(context, nullptr)); }
  GroupCommunicators &communicators() override { return made->groups; }
  Status use() override { return context->use(); }
  Status send(const Handle &pair, const TensorView &tensor, Stream &on) override {
    auto group = made->groups.waitFor(pair);
    if (!group)
      return group.error();
    return check(nccl->send(tensor.data, size_t(tensor.bytes()), kNcclBytes, 1, *group, streamOf(on)),
                 "send a message");
  }
  Status receive(const Handle &pair, const TensorView &tensor, Stream &on) override {
    auto group = made->groups.waitFor(pair);
    if (!group)
      return group.error();
    return check(nccl->recv(tensor.data, size_t(tensor.bytes()), kNcclBytes, 0, *group, streamOf(on)),
                 "receive a message");
  }
  /// Nobody waits for work that is only recorded.
  bool endsRun() override {
    if (made && made->error())
      for (auto end = Clock::now() + kTimeToName; !messages.failure() && Clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !context->recording;
  }

private:
  using Clock = std::chrono::steady_clock;
  static DriverStream streamOf(Stream &stream) { return static_cast<CudaStream &>(stream).stream; }
  Status check(NcclResult result, std::string_view what) const {
    return result == 0 ? ok() : Status(ncclError(*nccl, result, context->number(), what));
  }
  Status exchange(const Step &step, const std::vector<Handle> &groups, const std::string &what, CudaStream &on);

  std::shared_ptr<Context> context;
  Modules &modules;
  const Nccl *nccl;                            // null for one rank
  std::optional<Clock::time_point> firstError; // when NCCL's first error was found
  std::optional<NcclCommunicators> made;
};

Status CudaCollectives::exchange(const Step &step, const std::vector<Handle> &groups, const std::string &what,
                                 CudaStream &on) {
  bool hasNative = std::any_of(step.native.begin(), step.native.end(), [](const auto &call) { return call; });
  if (step.sends.empty() && step.receives.empty() && !hasNative)
    return ok();
  for (const Handle &group : groups)
    if (group.valid())
      if (auto isMade = made->groups.waitFor(group); !isMade)
        return isMade.error();
  NcclResult result = nccl->groupStart();
  for (size_t c = 0; c < step.native.size(); ++c)
    if (step.native[c] && result == 0)
      result = enqueueNative(*nccl, *step.native[c], *groups[c].get(), on.stream);
  for (const Message &one : step.sends)
    if (result == 0)
      result = nccl->send(one.data, size_t(one.bytes), kNcclBytes, one.peer, *groups[one.group].get(), on.stream);
  for (const Message &one : step.receives)
    if (result == 0)
      result = nccl->recv(one.data, size_t(one.bytes), kNcclBytes, one.peer, *groups[one.group].get(), on.stream);
  if (NcclResult ended = nccl->groupEnd(); result == 0)
    result = ended;
  return check(result, what);
}

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bind(const CollectiveRequest &request) {
  auto plan = gpuExchanges(request, options);
  if (!plan)
    return plan.error();
  std::vector<Step> steps;
  for (Round &round : plan->rounds) {
    auto before = launchesOf(modules, std::move(round.before)), after = launchesOf(modules, std::move(round.after));
    if (!before || !after)
      return before ? after.error() : before.error();
    steps.push_back({std::move(*before), std::move(*after), std::move(round.sends), std::move(round.receives),
                     steps.empty() ? std::move(plan->native) : NativeCalls()});
  }
  return stepping<CudaStream>(std::move(steps), plan->groups, request,
                              [this](auto &&...of) { return exchange(of...); });
}
} // namespace

Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request, const CollectiveOptions &options) {
  auto plan = gpuExchanges(request, options);
  if (!plan)
    return plan.error();
  return plan->scratchBytes;
}

Result<std::unique_ptr<CollectiveBackend>> createCudaCollectives(const std::shared_ptr<Context> &context,
                                                                 Modules &modules, Communicator &communicator,
                                                                 const CollectiveOptions &options) {
  const Nccl *nccl = nullptr;
  if (communicator.size() > 1) {
    auto loaded = loadNccl();
    if (!loaded)
      return loaded.error();
    nccl = *loaded;
  }
  CollectiveOptions chosen = options;
  chosen.ordered = options.ordered || !nccl;
  return std::unique_ptr<CollectiveBackend>(
      std::make_unique<CudaCollectives>(context, modules, communicator, nccl, chosen));
}

} // namespace kerf::runtime::cuda
