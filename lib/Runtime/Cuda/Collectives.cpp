// SPDX-License-Identifier: Apache-2.0
// A collective that NCCL computes with the same result is one call of NCCL (NativeCollectives.h). Any other has the
// phases that the host's collectives have (Cpu/CollectivePhases.h): boxes of the operand are packed, NCCL exchanges
// them in one group of sends and receives, and they are unpacked or added in the order of the ranks. So every
// collective of the dialect, of any shape, gives the bits that the CPU gives, except for sums whose order need not be
// that of the ranks.
#include "Collectives.h"
#include "../Attributes.h"
#include "../Cpu/CollectivePhases.h"
#include "Graph.h"
#include "Launches.h"
#include "NativeCollectives.h"
#include "kerf/Runtime/Cpu/Collectives.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
/// One message of a phase: bytes of the device's memory and the peer's position in the process group. The collectives
/// of a bucket may have different groups.
struct Message {
  std::byte *data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  size_t group = 0; // number of the collective in the bucket, whose group it is
};

/// One exchange of a collective, with the kernels before and after it. A reduction that is followed by a movement has
/// two exchanges.
struct Exchange {
  std::vector<Message> sends, receives;
  std::vector<Call> before, after; // pack, and unpack or add
};

/// Hands out scratch memory behind that of the host's phases. With a null base the bytes are only counted.
class ScratchBehind {
public:
  ScratchBehind(void *base, int64_t begin) : base(static_cast<std::byte *>(base)), used((begin + 255) / 256 * 256) {}
  std::byte *take(int64_t bytes) {
    std::byte *piece = base ? base + used : nullptr;
    used += (bytes + 255) / 256 * 256;
    return piece;
  }
  int64_t bytes() const { return used; }

private:
  std::byte *base;
  int64_t used;
};

/// Adds the copy of a box as a kernel. Fails if the box has too many dimensions.
Status addBoxCopy(std::vector<Call> &calls, const BoxCopy &box, const std::byte *from, std::byte *to) {
  if (box.bytes() == 0)
    return ok();
  std::vector<BoxCopy::Loop> loops = box.allLoops();
  if (loops.size() > size_t(kMostDims))
    return Error{fmt::format("the GPU's kernels walk over up to {} dimensions that cannot be merged, and a collective "
                             "asks for {}; reshape the tensor in the model",
                             kMostDims, loops.size())};
  int64_t unit = 8;
  auto divides = [&](int64_t bytes) { return bytes % unit == 0; };
  while (unit > 1 && !(divides(box.fromOffset()) && divides(box.toOffset()) && divides(loops.back().count) &&
                       std::all_of(loops.begin(), loops.end() - 1, [&](const BoxCopy::Loop &loop) {
                         return divides(loop.fromStride) && divides(loop.toStride);
                       })))
    unit /= 2;
  CopyParameters p{from, to, box.fromOffset() / unit, box.toOffset() / unit, box.bytes() / unit, int32_t(unit), 0, {},
                   {},   {}};
  for (size_t l = 0; l < loops.size(); ++l, ++p.rank) {
    bool isRun = l + 1 == loops.size();
    p.sizes[l] = isRun ? loops[l].count / unit : loops[l].count;
    p.fromStrides[l] = isRun ? 1 : loops[l].fromStride / unit;
    p.toStrides[l] = isRun ? 1 : loops[l].toStride / unit;
  }
  calls.push_back(elementCall("Shape", DType::I64, "copy", p.n, p));
  return ok();
}

/// The calls that compute collectives of a bucket as a whole; for each collective, nothing if it has phases instead.
using NativeCalls = std::vector<std::optional<NativeCollective>>;

/// Turns the phases of the host's plan into exchanges.
class Planner {
public:
  Planner(const CollectivePlan &plan, std::vector<std::vector<int64_t>> groups, int64_t self, ScratchBehind scratch)
      : plan(plan), groups(std::move(groups)), self(self), scratch(scratch) {}

  Exchange first, second;
  int64_t scratchBytes() const { return scratch.bytes(); }

  /// Plans all collectives but those for which `native` has a call.
  Status run(const NativeCalls &native = {}) {
    for (const PlannedCollective &one : plan.collectives) {
      if (group < native.size() && native[group]) {
        ++group;
        continue;
      }
      if (one.zeroFirst)
        first.before.push_back(elementCall("Shape", DType::I64, "fill", one.result.bytes(),
                                           FillParameters{nullptr, 0, one.result.data, one.result.bytes(), 1}));
      if (one.reduce)
        addReduce(*one.reduce, one.result.dtype);
      if (one.move)
        addMove(*one.move, one.reduce ? second : first);
      ++group;
    }
    return failure ? Status(*failure) : ok();
  }

private:
  int positionOf(int64_t rank) const {
    const std::vector<int64_t> &members = groups[group];
    return int(std::find(members.begin(), members.end(), rank) - members.begin());
  }

  /// Adds the copy of a box, or keeps the first failure.
  void copyBox(std::vector<Call> &calls, const BoxCopy &box, const std::byte *from, std::byte *to) {
    if (Status status = addBoxCopy(calls, box, from, to); !status && !failure)
      failure = status.error();
  }

  void addSends(const Phase &phase, Exchange &exchange) {
    const std::byte *packed = nullptr;
    for (const Outgoing &out : phase.outgoing) {
      if (out.pack.bytes() == 0)
        continue;
      auto *data = const_cast<std::byte *>(phase.source) + out.pack.fromOffset();
      if (!out.pack.contiguous()) {
        if (!packed || packed != out.packed) // an all_gather packs one box and sends it to all
          copyBox(exchange.before, out.pack, phase.source, out.packed);
        packed = data = out.packed;
      }
      exchange.sends.push_back({data, out.pack.bytes(), positionOf(out.peer), group});
    }
  }

  void addMove(const MovePhase &phase, Exchange &exchange) {
    addSends(phase, exchange);
    for (const MovePhase::Incoming &in : phase.incoming) {
      if (in.unpack.bytes() == 0)
        continue;
      if (in.peer == self) {
        copyBox(exchange.after, in.unpack, phase.source, phase.result);
        continue;
      }
      bool straight = in.unpack.contiguous();
      std::byte *to = straight ? phase.result + in.unpack.toOffset() : scratch.take(in.unpack.bytes());
      exchange.receives.push_back({to, in.unpack.bytes(), positionOf(in.peer), group});
      if (!straight)
        copyBox(exchange.after, in.unpack, to, phase.result);
    }
  }

  void addReduce(const ReducePhase &phase, DType dtype) {
    addSends(phase, first);
    if (phase.elements == 0)
      return;
    const std::byte *own = phase.source + phase.packOwn.fromOffset();
    if (!phase.packOwn.contiguous()) {
      copyBox(first.after, phase.packOwn, phase.source, phase.own); // the bucket's other collectives use `own` too
      own = phase.own;
    }
    int64_t bytes = phase.packOwn.bytes(), apart = (bytes + 255) / 256 * 256;
    std::byte *received = scratch.take(apart * int64_t(phase.members.size()));
    OrderedReduceParameters p{Reduction(phase.reducer.kind()),
                              int32_t(phase.members.size()),
                              0,
                              own,
                              received,
                              apart,
                              phase.unpack.contiguous() ? phase.result + phase.unpack.toOffset() : phase.sum,
                              phase.elements};
    for (size_t i = 0; i < phase.members.size(); ++i)
      if (phase.members[i] == self)
        p.own = int32_t(i);
      else
        first.receives.push_back({received + int64_t(i) * apart, bytes, positionOf(phase.members[i]), group});
    first.after.push_back(elementCall("Reduce", dtype, "addInOrder", phase.elements, p));
    if (!phase.unpack.contiguous())
      copyBox(first.after, phase.unpack, phase.sum, phase.result);
  }

  const CollectivePlan &plan;
  std::vector<std::vector<int64_t>> groups; // for each collective: ranks of its group, in the order of their positions
  size_t group = 0;                         // number of the collective that is being planned
  int64_t self;                             // number of this rank
  std::optional<Error> failure;             // the first box that could not be copied
  ScratchBehind scratch;
};

/// Returns, for each collective of a bucket, the ranks of its process group.
Result<std::vector<std::vector<int64_t>>> groupsOf(const CollectiveRequest &request) {
  const KernelRequest &bind = request.bind;
  std::vector<const package::Instruction *> instructions = {&bind.instruction};
  instructions.insert(instructions.end(), request.others.begin(), request.others.end());
  std::vector<std::vector<int64_t>> groups;
  for (const package::Instruction *instruction : instructions) {
    auto axes = axesAttribute(*instruction, "axes", bind.mesh);
    if (!axes)
      return axes.error();
    groups.push_back(groupOf(bind.mesh, *axes, bind.rank));
    for (int64_t &rank : groups.back())
      rank = package::realRank(bind.mesh, rank);
  }
  return groups;
}

/// Returns the calls that compute the bucket's collectives as a whole. The request has been checked.
NativeCalls nativeCalls(const CollectiveRequest &request, const std::vector<std::vector<int64_t>> &groups,
                        bool ordered) {
  NativeCalls calls;
  for (size_t c = 0; c < groups.size(); ++c) {
    const package::Instruction &instruction = c == 0 ? request.bind.instruction : *request.others[c - 1];
    calls.push_back(nativeCollective(
        {instruction, request.bind.operands[c], request.bind.results[c], int64_t(groups[c].size())}, ordered));
  }
  return calls;
}

/// A bound collective.
class CudaCollective {
public:
  struct Step {
    std::vector<Launch> before, after;
    std::vector<Message> sends, receives;
    NativeCalls native; // empty, or one element for each collective of the bucket
  };
  using Groups = std::vector<NcclCommunicators::Handle>;
  CudaCollective(std::vector<Step> steps, const Nccl *nccl, Groups groups, std::string what)
      : steps(std::move(steps)), nccl(nccl), groups(std::move(groups)), what(std::move(what)) {}

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
        if (const Result<void *> &made = group.get(); !made)
          return made.error();
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
  const Nccl *nccl;
  Groups groups; // for each collective of the bucket; invalid for a group of one rank
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

/// A kernel that calls a function with the stream. A failure ends the run on all ranks, because others may be waiting
/// for this one. Nobody waits for work that is only recorded.
template <typename Act> class CallingKernel : public BoundKernel {
public:
  CallingKernel(Communicator &communicator, Act act) : communicator(communicator), act(std::move(act)) {}
  Status launch(Stream &stream) override {
    auto &on = static_cast<CudaStream &>(stream);
    Status status = on.context->use();
    if (status)
      status = act(on);
    if (!status && !on.context->recording && !communicator.failure())
      communicator.abort(
          {fmt::format("rank {}: {}", communicator.rank(), status.error().message), status.error().status});
    return status;
  }

private:
  Communicator &communicator;
  Act act;
};

class CudaCollectives : public CollectiveBackend {
public:
  CudaCollectives(std::shared_ptr<Context> context, Modules &modules, Communicator &communicator, const Nccl *nccl,
                  bool isOrdered)
      : context(std::move(context)), modules(modules), communicator(communicator), nccl(nccl), isOrdered(isOrdered) {
    if (!nccl)
      return;
    communicators.emplace(this->context, *nccl, communicator);
    this->context->peerFailure = [this]() -> std::optional<Error> {
      std::optional<Error> failure = this->communicator.failure();
      if (!failure)
        failure = communicators->error();
      if (failure) {
        for (CudaGraph *graph : this->context->graphs)
          graph->release();
        communicators->abort();
      }
      return failure;
    };
  }
  ~CudaCollectives() override { context->peerFailure = nullptr; }

  bool ordered() const override { return isOrdered; }
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
  bool isOrdered;   // whether sums are added in the order of the ranks
  template <typename Act> std::unique_ptr<BoundKernel> calling(Act act) {
    return std::make_unique<CallingKernel<Act>>(communicator, std::move(act));
  }
  std::optional<NcclCommunicators> communicators;
  std::map<std::tuple<void *, int64_t, int64_t>, std::shared_ptr<Sending>> sendings;
};

Result<std::unique_ptr<BoundKernel>> CudaCollectives::bind(const CollectiveRequest &request) {
  auto hostBytes = kerf::runtime::collectiveScratchBytes(request);
  if (!hostBytes)
    return hostBytes.error();
  auto groups = groupsOf(request);
  if (!groups)
    return groups.error();
  auto plan = planCollective(request, &communicator);
  if (!plan)
    return plan.error();
  Planner planner(*plan, *groups, communicator.rank(), {request.bind.scratch, *hostBytes});
  NativeCalls native = nativeCalls(request, *groups, isOrdered);
  if (Status status = planner.run(native); !status)
    return status.error();
  std::vector<CudaCollective::Step> steps;
  for (Exchange *exchange : {&planner.first, &planner.second}) {
    auto before = launchesOf(modules, std::move(exchange->before)),
         after = launchesOf(modules, std::move(exchange->after));
    if (!before || !after)
      return before ? after.error() : before.error();
    steps.push_back({std::move(*before), std::move(*after), std::move(exchange->sends), std::move(exchange->receives),
                     exchange == &planner.first ? std::move(native) : NativeCalls()});
  }
  CudaCollective::Groups handles(groups->size());
  for (size_t g = 0; g < groups->size(); ++g)
    if ((*groups)[g].size() > 1) {
      auto made = communicators->ofGroup((*groups)[g], request.tag);
      if (!made)
        return made.error();
      handles[g] = *made;
    }
  return calling([collective = CudaCollective(std::move(steps), nccl, std::move(handles),
                                              fmt::format("run {}", request.bind.instruction.op))](
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
    const Result<void *> &made = pair.get();
    if (!made)
      return made.error();
    const Driver &driver = context->driver;
    DriverResult result = driver.eventRecord(sending->ready, on.stream);
    if (result == 0)
      result = driver.streamWaitEvent(sending->stream->stream, sending->ready, 0);
    if (result != 0)
      return context->check(result, "order a message");
    if (NcclResult sent = nccl->send(view.data, size_t(view.bytes()), kNcclBytes, 1, *made, sending->stream->stream))
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
    const Result<void *> &made = pair.get();
    if (!made)
      return made.error();
    if (NcclResult result = nccl->recv(view.data, size_t(view.bytes()), kNcclBytes, 0, *made, on.stream))
      return ncclError(*nccl, result, context->number(), "receive a message");
    return ok();
  });
}
} // namespace

Result<int64_t> collectiveScratchBytes(const CollectiveRequest &request) {
  auto hostBytes = kerf::runtime::collectiveScratchBytes(request);
  if (!hostBytes)
    return hostBytes.error();
  auto groups = groupsOf(request);
  if (!groups)
    return groups.error();
  auto plan = planCollective(request);
  if (!plan)
    return plan.error();
  Planner planner(*plan, *groups, package::realRank(request.bind.mesh, request.bind.rank), {nullptr, *hostBytes});
  if (Status status = planner.run(); !status)
    return status.error();
  return planner.scratchBytes();
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
  return std::unique_ptr<CollectiveBackend>(
      std::make_unique<CudaCollectives>(context, modules, communicator, nccl, options.ordered || !nccl));
}

} // namespace kerf::runtime::cuda
