// SPDX-License-Identifier: Apache-2.0
// Enqueues what Exchanges.h has planned, and messages between pipeline stages. Every collective of the dialect, of any
// shape, gives the bits that the CPU gives, except for sums whose order need not be that of the ranks.
#include "Collectives.h"
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
/// A bound collective.
class CudaCollective {
public:
  struct Step {
    std::vector<Launch> before, after;
    std::vector<Message> sends, receives;
    NativeCalls native; // empty, or one element for each collective of the bucket
  };
  using Groups = std::vector<NcclCommunicators::Handle>;
  CudaCollective(std::vector<Step> steps, const Nccl *nccl, const NcclCommunicators *communicators, Groups groups,
                 std::string what)
      : steps(std::move(steps)), nccl(nccl), communicators(communicators), groups(std::move(groups)),
        what(std::move(what)) {}

  Status launch(CudaStream &on) {
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
  Status exchange(const Step &step, CudaStream &on) {
    bool hasNative = std::any_of(step.native.begin(), step.native.end(), [](const auto &call) { return call; });
    if (step.sends.empty() && step.receives.empty() && !hasNative)
      return ok();
    for (const NcclCommunicators::Handle &group : groups)
      if (group.valid())
        if (Status made = communicators->waitFor(group); !made)
          return made;
    NcclResult result = nccl->groupStart();
    for (size_t c = 0; c < step.native.size(); ++c)
      if (step.native[c] && result == 0)
        result = enqueue(*nccl, *step.native[c], *groups[c].get(), on.stream);
    for (const Message &one : step.sends)
      if (result == 0)
        result = nccl->send(one.data, size_t(one.bytes), kNcclBytes, one.peer, *groups[one.group].get(), on.stream);
    for (const Message &one : step.receives)
      if (result == 0)
        result = nccl->recv(one.data, size_t(one.bytes), kNcclBytes, one.peer, *groups[one.group].get(), on.stream);
    if (NcclResult ended = nccl->groupEnd(); result == 0)
      result = ended;
    return result == 0 ? ok() : Status(ncclError(*nccl, result, on.context->number(), what));
  }

  std::vector<Step> steps;
  const Nccl *nccl;                       // null for one rank
  const NcclCommunicators *communicators; // null for one rank
  Groups groups;                          // for each collective of the bucket; invalid for a group of one rank
  std::string what;
};

/// A message that is sent on a stream of its own, so that the sender's stream goes on.
struct Sending {
  std::unique_ptr<CudaStream> stream;
  DriverEvent ready = nullptr, sent = nullptr;
  std::shared_ptr<Context> context;
  ~Sending() {
    if (context->use()) {
      context->driver.eventDestroy(ready);
      context->driver.eventDestroy(sent);
    }
  }
};

/// The time for which a rank whose NCCL has met an error waits for the host's communicator to say which rank has ended.
/// NCCL notices that too, often sooner, but does not name the rank.
constexpr auto kTimeToName = std::chrono::seconds(3);

/// A kernel that calls a function with the stream. A failure ends the run on all ranks, because others may be waiting
/// for this one. Nobody waits for work that is only recorded.
template <typename Act> class CallingKernel : public BoundKernel {
public:
  CallingKernel(Communicator &communicator, NcclCommunicators *communicators, Act act)
      : communicator(communicator), communicators(communicators), act(std::move(act)) {}
  Status launch(Stream &stream) override {
    auto &on = static_cast<CudaStream &>(stream);
    Status status = on.context->use();
    if (status)
      status = act(on);
    if (!status && communicators && communicators->error())
      for (auto end = Clock::now() + kTimeToName; !communicator.failure() && Clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!status && !on.context->recording && !communicator.failure())
      communicator.abort(
          {fmt::format("rank {}: {}", communicator.rank(), status.error().message), status.error().status});
    return status;
  }

private:
  using Clock = std::chrono::steady_clock;
  Communicator &communicator;
  NcclCommunicators *communicators; // null for one rank
  Act act;
};

class CudaCollectives : public CollectiveBackend {
public:
  CudaCollectives(std::shared_ptr<Context> context, Modules &modules, Communicator &communicator, const Nccl *nccl,
                  CollectiveOptions options)
      : context(std::move(context)), modules(modules), communicator(communicator), nccl(nccl), options(options) {
    if (!nccl)
      return;
    communicators.emplace(this->context, *nccl, communicator);
    this->context->peerFailure = [this]() -> std::optional<Error> {
      std::optional<Error> failure = this->communicator.failure();
      if (!failure && communicators->error()) {
        auto now = std::chrono::steady_clock::now();
        if (now >= firstError.value_or(now) + kTimeToName)
          failure = communicators->error();
        firstError = firstError.value_or(now);
      }
      if (failure) {
        for (CudaGraph *graph : this->context->graphs)
          graph->release();
        communicators->abort();
      }
      return failure;
    };
  }
  ~CudaCollectives() override { context->peerFailure = nullptr; }

  bool ordered() const override { return options.ordered; }
  void reserve(size_t) override {} // NCCL has its own buffers

  Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) override;
  Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) override;

private:
  /// Returns the state of a message, by its tag and peer. Messages of one pair share a stream.
  Result<std::shared_ptr<Sending>> sendingOf(const MessageRequest &request);
  std::shared_ptr<Context> context;
  Modules &modules;
  Communicator &communicator;
  const Nccl *nccl; // null for one rank
  const CollectiveOptions options;
  std::optional<std::chrono::steady_clock::time_point> firstError; // when NCCL's first error was found
  template <typename Act> std::unique_ptr<BoundKernel> calling(Act act) {
    return std::make_unique<CallingKernel<Act>>(communicator, communicators ? &*communicators : nullptr,
                                                std::move(act));
  }
  std::optional<NcclCommunicators> communicators;
  std::map<std::tuple<void *, int64_t, int64_t>, std::shared_ptr<Sending>> sendings;
};

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bind(const CollectiveRequest &request) {
  auto plan = gpuExchanges(request, options);
  if (!plan)
    return plan.error();
  std::vector<CudaCollective::Step> steps;
  for (Round &round : plan->rounds) {
    auto before = launchesOf(modules, std::move(round.before)), after = launchesOf(modules, std::move(round.after));
    if (!before || !after)
      return before ? after.error() : before.error();
    steps.push_back({std::move(*before), std::move(*after), std::move(round.sends), std::move(round.receives),
                     steps.empty() ? std::move(plan->native) : NativeCalls()});
  }
  CudaCollective::Groups handles(plan->groups.size());
  for (size_t g = 0; g < plan->groups.size(); ++g)
    if (plan->groups[g].size() > 1) {
      auto made = communicators->ofGroup(plan->groups[g], request.tag);
      if (!made)
        return made.error();
      handles[g] = *made;
    }
  return calling([collective = CudaCollective(std::move(steps), nccl, communicators ? &*communicators : nullptr,
                                              std::move(handles), fmt::format("run {}", request.bind.instruction.op))](
                     CudaStream &on) mutable { return collective.launch(on); });
}

Result<std::shared_ptr<Sending>> CudaCollectives::sendingOf(const MessageRequest &request) {
  auto [found, isNew] = sendings.try_emplace({request.tensor.data, request.peer, request.tag}, nullptr);
  if (!isNew)
    return found->second;
  auto sending = std::make_shared<Sending>();
  sending->context = context;
  auto stream = CudaStream::create(context);
  if (!stream)
    return stream.error();
  sending->stream = std::move(*stream);
  for (DriverEvent *event : {&sending->ready, &sending->sent})
    if (Status status = context->check(context->driver.eventCreate(event, 0), "make an event"); !status)
      return status.error();
  return found->second = sending;
}

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bindSend(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  auto pair = communicators->ofMessage(communicator.rank(), request.peer, request.tag);
  if (!pair)
    return pair.error();
  return calling([this, sending = *sending, pair = *pair, view = request.tensor](CudaStream &on) -> Status {
    if (Status made = communicators->waitFor(pair); !made)
      return made;
    const Driver &driver = context->driver;
    DriverResult result = driver.eventRecord(sending->ready, on.stream);
    if (result == 0)
      result = driver.streamWaitEvent(sending->stream->stream, sending->ready, 0);
    if (result != 0)
      return context->check(result, "order a message");
    if (NcclResult sent =
            nccl->send(view.data, size_t(view.bytes()), kNcclBytes, 1, *pair.get(), sending->stream->stream))
      return ncclError(*nccl, sent, context->number(), "send a message");
    return context->check(driver.eventRecord(sending->sent, sending->stream->stream), "order a message");
  });
}

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bindSent(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  return calling([this, sending = *sending](CudaStream &on) {
    return context->check(context->driver.streamWaitEvent(on.stream, sending->sent, 0), "wait for a message");
  });
}

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bindReceive(const MessageRequest &request) {
  auto pair = communicators->ofMessage(request.peer, communicator.rank(), request.tag);
  if (!pair)
    return pair.error();
  return calling([this, pair = *pair, view = request.tensor](CudaStream &on) -> Status {
    if (Status made = communicators->waitFor(pair); !made)
      return made;
    if (NcclResult result = nccl->recv(view.data, size_t(view.bytes()), kNcclBytes, 0, *pair.get(), on.stream))
      return ncclError(*nccl, result, context->number(), "receive a message");
    return ok();
  });
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
