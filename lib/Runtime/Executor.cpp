// SPDX-License-Identifier: Apache-2.0
// Loading: read the program's list of steps, plan memory, bind, list the actions of a step. A step enqueues these.
// An instruction for which the list names a stream is started on that stream. Where the list waits, an event is waited
// for. Sends begin and are waited for on the compute stream.
#include "kerf/Runtime/Executor.h"
#include "RankTimes.h"
#include "StepParts.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Calls of a stream for an action: three on its own stream, five on another.
constexpr size_t kCallsOfAction = 3, kCallsToStart = 4;

struct Action {
  enum class Kind { Compute, Start, Wait } kind = Kind::Compute;
  std::unique_ptr<BoundKernel> kernel;     // none of a wait
  Stream *stream = nullptr;                // of a start
  Event *ready = nullptr, *done = nullptr; // of a start: its operands are there; of a wait: what it waits for
  Event *begin = nullptr, *end = nullptr;  // measured where given
  bool stalls = false;                     // the compute stream stands still for it
  bool ofProgram = true;                   // of a wait: the program has an instruction for it
  int64_t instruction = -1, copy = -1;     // of the flat program, or of the copies at its end
  int64_t waitedFor = -1;                  // of a wait: the instruction that was started
};

/// A copy between fixed places.
class BoundCopy : public BoundKernel {
public:
  BoundCopy(void *to, const void *from, int64_t bytes, CopyKind kind) : to(to), from(from), bytes(bytes), kind(kind) {}
  Status launch(Stream &stream) override { return stream.copy(to, from, bytes, kind); }

private:
  void *to;
  const void *from;
  int64_t bytes;
  CopyKind kind;
};

/// Content of a buffer that a part of a step must not change, and its place in the host's memory meanwhile.
struct KeptContent {
  void *buffer = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<std::byte> host;
};

/// A part of the step, ready to run.
struct PreparedPart {
  std::vector<bool> runs; // of each action
  std::vector<KeptContent> putBack;
};

class ProgramExecutor : public Executor {
public:
  ProgramExecutor(const package::Program &program, Device &device, Communicator &communicator)
      : program(program), device(device), communicator(communicator) {}

  Status load(const ExecutorOptions &options) {
    if (int64_t ranks = package::ranksOf(program); communicator.size() != ranks)
      return Error{
          fmt::format("the program is for {} ranks, here are {}: start {}", ranks, communicator.size(), ranks)};
    if (options.useNative) {
      auto loaded = device.loadCode(program, CodeUse::Run);
      if (!loaded)
        return loaded.error();
      code = std::move(*loaded);
    }
    auto backend = device.createCollectives(communicator, {options.deterministic});
    if (!backend)
      return backend.error();
    collectives = std::move(*backend);
    auto planned = planRank(program, communicator.rank(), device, options, code.get());
    if (!planned)
      return planned.error();
    plan = std::move(*planned);
    if (Status status = allocate(); !status)
      return status;
    auto created = device.createStream(StreamKind::Compute);
    if (!created)
      return created.error();
    compute = std::move(*created);
    timers.resize(size_t(flat.origins));
    ran.resize(flat.body.size());
    if (Status status = bindAll(); !status)
      return status;
    reserve();
    return compute->synchronize(); // constants are there
  }

  std::vector<ArgumentPiece> arguments() override {
    std::vector<ArgumentPiece> pieces;
    for (const FlatArg &arg : flat.args)
      pieces.push_back({arg.arg, arg.microbatch, view(arg.value)});
    return pieces;
  }
  std::optional<TensorView> result(size_t index) override {
    if (flat.results[index] < 0)
      return std::nullopt;
    TensorView tensor = view(flat.results[index]);
    tensor.data = memories[size_t(buffers.resultBuffers[index])];
    return tensor;
  }
  Status feed(const TensorView &argument, const void *host) override {
    return compute->copy(argument.data, host, argument.bytes(), CopyKind::ToDevice);
  }
  const MemoryReport &memory() const override { return plan.memory; }

  Status step(StepKind kind) override {
    Clock::time_point start = Clock::now();
    const PreparedPart *part = nullptr;
    if (kind != StepKind::Step) {
      auto found = prepared(kind);
      if (!found)
        return found.error();
      part = *found;
    }
    Status status = enqueue(part);
    status = finish(std::move(status));
    steps += kind == StepKind::Step;
    if (status && kind != StepKind::Evaluation) {
      status = collectTimes(part);
      stepSeconds += secondsSince(start);
    }
    return status;
  }

  TimeReport times() const override {
    TimeReport report = timeReport(plan, timers);
    report.steps = steps;
    report.stepSeconds = stepSeconds;
    return report;
  }
  std::vector<Span> lastStep() const override { return spansOf(plan, ran); }
  Overlap lastOverlap() const override { return overlapOf(plan, ran); }

private:
  TensorView view(int value) const { return viewOf(plan, value, memories); }
  KernelRequest request(size_t index) const {
    return kernelRequest(program, plan, index, communicator.rank(), memories, code.get());
  }

  Status allocate() {
    auto kept = device.allocate(plan.memory.persistentBytes), shared = device.allocate(plan.memory.arenaBytes),
         outside = device.allocateHost(plan.memory.hostBytes);
    if (!kept)
      return kept.error();
    if (!shared)
      return shared.error();
    if (!outside)
      return outside.error();
    persistent = *kept, arena = *shared, inHost = *outside;
    for (size_t b = 0; b < plan.offsets.size(); ++b) {
      BufferKind kind = buffers.buffers[b].kind;
      std::byte *its = kind == BufferKind::Working ? arena.get()
                       : kind == BufferKind::Host  ? inHost.get()
                                                   : persistent.get();
      memories.push_back(its + plan.offsets[b]);
    }
    return ok();
  }

  Status bindAll() {
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (Status status = bind(i); !status)
        return Error{fmt::format("{}: {}", place(*flat.body[i].source), status.error().message), status.error().status};
    // A started collective that nobody waits for still reads its operand, which a later copy may overwrite.
    for (auto &[value, started] : pending)
      if (!started.waited)
        if (Status status = addWait(started, std::nullopt); !status)
          return status;
    for (size_t c = 0; c < buffers.copies.size(); ++c)
      addEndCopy(c);
    return ok();
  }

  Status bind(size_t index) {
    const FlatInstruction &instruction = flat.body[index];
    const package::Instruction &source = *instruction.source;
    if (package::isView(flat, instruction))
      return source.op == "wait" ? bindWait(index) : ok();
    if (instruction.kind == FlatInstruction::Kind::Received)
      return bindWait(index);
    if (instruction.kind != FlatInstruction::Kind::Op)
      return bindTransfer(index);
    if (package::isCollective(source.op))
      return bindCollectiveAt(index);
    if (package::isHostCopy(source.op)) {
      TensorView from = view(instruction.operands[0]), to = view(instruction.results[0]);
      CopyKind kind = source.op == package::kOffload ? CopyKind::ToHost : CopyKind::ToDevice;
      return addAsynchronous(index, std::make_unique<BoundCopy>(to.data, from.data, from.bytes(), kind));
    }
    auto kernel = device.bind(request(index));
    if (!kernel)
      return kernel.error();
    if (!keptConstant(index))
      return addCompute(index, std::move(*kernel), false);
    constants.push_back(std::move(*kernel));
    return constants.back()->launch(*compute);
  }

  Status addCompute(size_t index, std::unique_ptr<BoundKernel> kernel, bool stalls) {
    Action action;
    action.kernel = std::move(kernel);
    action.instruction = int64_t(index);
    action.stalls = stalls;
    return add(std::move(action));
  }

  /// Every action of an instruction is measured.
  Status add(Action action) {
    for (Event **event : {&action.begin, &action.end}) {
      auto created = newEvent();
      if (!created)
        return created.error();
      *event = *created;
    }
    actions.push_back(std::move(action));
    return ok();
  }

  /// One side of a transfer, or the wait for its send.
  Status bindTransfer(size_t index) {
    const FlatInstruction &transfer = flat.body[index];
    MessageRequest request;
    request.tag = kFirstCollectiveTag + transfer.message;
    request.peer = package::rankOnStage(program, communicator.rank(), transfer.peerStage);
    request.number = int64_t(index);
    request.instruction = transfer.source;
    bool receives = transfer.kind == FlatInstruction::Kind::Receive;
    request.tensor = view(receives ? transfer.results[0] : transfer.operands[0]);
    if (receives) {
      auto kernel = collectives->bindReceive(request);
      return kernel ? addAsynchronous(index, std::move(*kernel)) : Status(kernel.error());
    }
    bool waits = transfer.kind == FlatInstruction::Kind::Sent;
    auto kernel = waits ? collectives->bindSent(request) : collectives->bindSend(request);
    return kernel ? addCompute(index, std::move(*kernel), waits) : Status(kernel.error());
  }

  bool keptConstant(size_t index) const {
    const std::vector<int> &results = flat.body[index].results;
    return !results.empty() &&
           buffers.buffers[size_t(buffers.bufferOf[size_t(results[0])])].kind == BufferKind::Constant;
  }

  /// Transfers have the tags before.
  Status bindCollectiveAt(size_t index) {
    int64_t tag = kFirstCollectiveTag + flat.messages + 2 * collectivesBound++;
    auto kernel = collectives->bind({request(index), tag, othersOf(flat.body[index])});
    if (!kernel)
      return kernel.error();
    return addAsynchronous(index, std::move(*kernel));
  }

  /// On its own stream, or where it is waited for at once on that of kernels.
  Status addAsynchronous(size_t index, std::unique_ptr<BoundKernel> kernel) {
    std::string name = streamOf(plan, index);
    if (name == kComputeStream)
      return addCompute(index, std::move(kernel), true);
    auto &stream = streams[name];
    if (!stream) {
      auto created = device.createStream(StreamKind::Beside);
      if (!created)
        return created.error();
      stream = std::move(*created);
    }
    auto ready = newEvent();
    if (!ready)
      return ready.error();
    Action start;
    start.kind = Action::Kind::Start;
    start.kernel = std::move(kernel);
    start.stream = stream.get();
    start.ready = *ready;
    start.instruction = int64_t(index);
    if (Status status = add(std::move(start)); !status)
      return status;
    for (int result : flat.body[index].results)
      pending[result] = {actions.back().end, int64_t(index), false};
    return ok();
  }

  struct Pending {
    Event *done;
    int64_t instruction; // that started it
    bool waited;
  };

  /// `index`: the program's instruction that waits, where there is one.
  Status addWait(Pending &started, std::optional<size_t> index) {
    Action wait;
    wait.kind = Action::Kind::Wait;
    wait.instruction = started.instruction; // they run together
    wait.waitedFor = index ? int64_t(*index) : started.instruction;
    wait.ofProgram = index.has_value();
    wait.done = started.done;
    started.waited = true;
    return add(std::move(wait));
  }

  Status bindWait(size_t index) {
    auto found = pending.find(flat.body[index].operands[0]);
    if (found == pending.end())
      return ok(); // ran on the compute stream
    return addWait(found->second, index);
  }

  void addEndCopy(size_t number) {
    auto [from, to] = buffers.copies[number];
    Action copy;
    copy.copy = int64_t(number);
    copy.kernel = std::make_unique<BoundCopy>(memories[size_t(to)], memories[size_t(from)],
                                              buffers.buffers[size_t(to)].lifetime.bytes, CopyKind::OnDevice);
    actions.push_back(std::move(copy));
  }

  /// What waits in line during a step: how much at once depends on which rank is ahead, so there is room for all of it.
  void reserve() {
    for (auto &[name, stream] : streams) {
      auto starts = std::count_if(actions.begin(), actions.end(),
                                  [&](const Action &action) { return action.stream == stream.get(); });
      stream->reserve(kCallsToStart * size_t(starts));
    }
    compute->reserve(kCallsOfAction * actions.size() + 3 * flat.args.size()); // arguments are fed, kept and put back
    size_t peers = size_t(communicator.size() - 1), most = 1,                 // of collectives that are one
        atOnce = streams.size() + 1; // one on each stream, that of kernels included
    for (const FlatInstruction &instruction : flat.body)
      most = std::max(most, 1 + instruction.others.size());
    auto transfers = std::count_if(flat.body.begin(), flat.body.end(), [](const FlatInstruction &instruction) {
      return instruction.kind == FlatInstruction::Kind::Send || instruction.kind == FlatInstruction::Kind::Receive;
    });
    collectives->reserve(kMessagesToPeer * peers * most * atOnce + size_t(transfers));
  }

  Result<Event *> newEvent() {
    auto created = device.createEvent();
    if (!created)
      return created.error();
    events.push_back(std::move(*created));
    return events.back().get();
  }

  Result<const PreparedPart *> prepared(StepKind kind) {
    if (auto found = parts.find(kind); found != parts.end())
      return &found->second;
    PreparedPart ready;
    StepPart part =
        partOf(program, plan, kind == StepKind::Batch ? accumulatedResults(program) : evaluatedResults(program));
    for (const Action &action : actions)
      ready.runs.push_back(action.copy >= 0 ? std::count(part.copies.begin(), part.copies.end(), action.copy) > 0
                                            : part.runs[size_t(action.instruction)]);
    for (int buffer : part.putBack) {
      int64_t bytes = buffers.buffers[size_t(buffer)].lifetime.bytes;
      auto host = device.allocateHost(bytes);
      if (!host)
        return host.error();
      ready.putBack.push_back({memories[size_t(buffer)], bytes, std::move(*host)});
    }
    return &parts.emplace(kind, std::move(ready)).first->second;
  }

  Status enqueue(const PreparedPart *part) {
    if (part)
      for (const KeptContent &kept : part->putBack)
        if (Status status = compute->copy(kept.host.get(), kept.buffer, kept.bytes, CopyKind::ToHost); !status)
          return status;
    for (size_t i = 0; i < actions.size(); ++i)
      if (!part || part->runs[i])
        if (Status status = enqueue(actions[i]); !status)
          return status;
    if (part)
      for (const KeptContent &kept : part->putBack)
        if (Status status = compute->copy(kept.buffer, kept.host.get(), kept.bytes, CopyKind::ToDevice); !status)
          return status;
    return ok();
  }

  Status enqueue(const Action &action) {
    if (action.kind == Action::Kind::Start) {
      if (Status status = compute->record(*action.ready); !status)
        return status;
      if (Status status = action.stream->wait(*action.ready); !status)
        return status;
    }
    Stream &stream = action.stream ? *action.stream : *compute;
    if (action.begin)
      if (Status status = stream.record(*action.begin); !status)
        return status;
    Status status = action.kernel ? action.kernel->launch(stream) : stream.wait(*action.done);
    if (status && action.end)
      status = stream.record(*action.end);
    return status;
  }

  /// Waits for all streams: after a failure too, as nothing may still work on memory that the caller is about to free.
  /// The stream of kernels comes first: when it has failed the other ranks must know, before a stream here waits for
  /// them.
  Status finish(Status status) {
    Status computed = compute->synchronize();
    if (status && !computed)
      status = computed;
    bool isTold = !status;
    if (isTold)
      status = told(status.error());
    for (auto &[name, stream] : streams)
      if (Status other = stream->synchronize(); !other && !isTold) {
        status = told(other.error());
        isTold = true;
      }
    if (!isTold) // kernels that go on after a fault leave only the word
      if (auto fault = device.takeFault())
        status = told(*fault);
    return status;
  }

  /// Ends all ranks with an error, unless they have been ended already, and returns the error that they end with.
  Error told(Error error) {
    if (auto fault = device.takeFault())
      return told(*fault);
    if (auto ended = communicator.failure())
      return *ended;
    error.message = fmt::format("rank {}: {}", communicator.rank(), error.message);
    communicator.abort(error);
    return error;
  }
  Error told(const Fault &fault) {
    if (auto ended = communicator.failure())
      return *ended;
    Error error{placedMessage(communicator.rank(), *flat.body[size_t(fault.number)].source, fault.error.message),
                fault.error.status};
    communicator.abort(error);
    return error;
  }

  Status collectTimes(const PreparedPart *part) {
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action &action = actions[i];
      if (!action.begin || (part && !part->runs[i]))
        continue;
      auto begin = action.begin->seconds(), end = action.end->seconds();
      if (!begin || !end)
        return begin ? end.error() : begin.error();
      collect(action, *begin, *end - *begin);
    }
    return ok();
  }

  void collect(const Action &action, double start, double seconds) {
    Timer &timer = timers[size_t(flat.body[size_t(action.instruction)].origin)];
    if (action.kind != Action::Kind::Wait) {
      Ran &its = ran[size_t(action.instruction)];
      its.start = start, its.seconds = seconds;
      ++timer.calls;
      timer.seconds += seconds;
      timer.waitSeconds += action.stalls ? seconds : 0;
      return;
    }
    timer.waitSeconds += seconds;
    Ran &its = ran[size_t(action.waitedFor)];
    if (action.ofProgram)
      its.start = start, its.seconds = seconds;
    else
      its.waitStart = start, its.waitSeconds = seconds;
  }

  const package::Program &program;
  Device &device;
  Communicator &communicator;
  std::unique_ptr<CollectiveBackend> collectives;
  std::shared_ptr<const DeviceCode> code;
  RankPlan plan;
  const FlatProgram &flat = plan.flat;
  const BufferPlan &buffers = plan.buffers;
  std::shared_ptr<std::byte> persistent, arena, inHost;
  Memories memories;
  int64_t collectivesBound = 0;
  std::map<int, Pending> pending; // [value]: started on a stream
  std::vector<Timer> timers;      // of each origin
  std::vector<Ran> ran;           // of each instruction
  std::vector<std::unique_ptr<BoundKernel>> constants;
  std::vector<Action> actions;
  std::map<StepKind, PreparedPart> parts;
  int64_t steps = 0;
  double stepSeconds = 0;
  std::vector<std::unique_ptr<Event>> events;
  std::unique_ptr<Stream> compute;
  std::map<std::string, std::unique_ptr<Stream>> streams; // last: their threads end first
};
} // namespace

Result<std::unique_ptr<Executor>> Executor::create(const package::Program &program, Device &device,
                                                   Communicator &communicator, const ExecutorOptions &options) {
  auto executor = std::make_unique<ProgramExecutor>(program, device, communicator);
  if (Status status = executor->load(options); !status)
    return status.error();
  return std::unique_ptr<Executor>(std::move(executor));
}

} // namespace kerf::runtime
