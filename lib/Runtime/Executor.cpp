// SPDX-License-Identifier: Apache-2.0
// Loading a program reads the stage's list of steps, plans memory, binds every instruction and makes the list of
// a step's actions. A step then enqueues these actions. An instruction for which the list of steps names a
// stream is started on that stream, and a wait in the list waits for an event. Sends begin, and are waited for,
// on the compute stream.
#include "kerf/Runtime/Executor.h"
#include "FeedsAhead.h"
#include "LimitedCollective.h"
#include "RankTimes.h"
#include "StepParts.h"
#include "StepRecordings.h"
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

// Most calls of a stream for one action: on the compute stream, and on the stream of a start.
constexpr size_t kCallsOfAction = 3, kCallsToStart = 4;

/// One thing that a step enqueues. `Compute` runs on the compute stream, `Start` runs on another stream, and `Wait`
/// makes the compute stream wait for a start.
struct Action {
  enum class Kind { Compute, Start, Wait } kind = Kind::Compute;
  std::unique_ptr<BoundKernel> kernel;    // what runs; null for a wait
  Stream *stream = nullptr;               // the stream of a start; null: the compute stream
  Event *ready = nullptr;                 // for a start: recorded when its operands are ready
  Event *done = nullptr;                  // for a wait: the event that it waits for
  Event *begin = nullptr, *end = nullptr; // recorded around the action to measure its time; null: not measured
  bool stalls = false;                    // whether the compute stream is idle while the action runs
  bool ofProgram = true;                  // for a wait: whether the program has an instruction for it
  int64_t instruction = -1; // number in the flat program (for a wait, of the instruction started); -1: a copy
  int64_t copy = -1;        // index into BufferPlan::copies; -1: the action is not a copy at the end of the step
  int64_t waitedFor = -1;   // for a wait: number of the waiting instruction; of the started one if there is none
};

/// A copy between fixed addresses.
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

/// A buffer whose content a part of a step must not change, and the host memory that keeps the content while
/// the part runs.
struct PreservedContent {
  void *buffer = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<std::byte> host;
};

/// Whether the actions' times are measured.
enum class Timing { Measured, Unmeasured };

/// A part of the step, ready to run.
struct PreparedPart {
  std::vector<bool> runs; // for each action: whether it belongs to the part
  std::vector<PreservedContent> preserved;
};

class ProgramExecutor : public Executor {
public:
  ProgramExecutor(const package::Program &program, Device &device, Communicator &communicator)
      : program(program), device(device), communicator(communicator) {}

  ~ProgramExecutor() override {
    (void)ahead.wait(); // the caller frees the host memory that is read
  }

  Status load(const ExecutorOptions &options) {
    if (int64_t ranks = package::ranksOf(program); communicator.size() != ranks)
      return Error{fmt::format("the program is for {} ranks, but there are {}; start {} ranks", ranks,
                               communicator.size(), ranks)};
    if (options.useNative) {
      auto loaded = device.loadCode(program, CodeUse::Run);
      if (!loaded)
        return loaded.error();
      code = std::move(*loaded);
    }
    if (!options.record)
      recordings.turnOff();
    auto backend = device.createCollectives(communicator, collectiveOptions(options));
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
    if (Status status = prepareFeeds(); !status)
      return status;
    if (Status status = limits.prepare(device, program, flat, tensorOf); !status)
      return status;
    if (limits.any())
      recordings.turnOff();
    timers.resize(size_t(flat.origins));
    lastTimes.resize(flat.body.size());
    if (Status status = bindAll(); !status)
      return status;
    reserve();
    return compute->synchronize(); // until the constants are computed
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
    tensor.data = addresses[size_t(buffers.resultBuffers[index])];
    return tensor;
  }
  Status feed(const TensorView &argument, const void *host) override {
    limits.read(argument, host);
    return compute->copy(argument.data, host, argument.bytes(), CopyKind::ToDevice);
  }
  Status startFeed(const TensorView &input, const void *host) override {
    return feedsAhead() ? ahead.start(input, host) : feed(input, host);
  }
  Status finishFeeds() override { return ahead.finish(); }
  Status waitForFeeds() override { return ahead.wait(); }
  bool feedsAhead() const override { return !plan.ahead.empty(); }
  const MemoryReport &memory() const override { return plan.memory; }

  Status step(StepKind kind, const std::function<void()> &meanwhile) override {
    Clock::time_point start = Clock::now();
    const PreparedPart *part = nullptr;
    if (kind != StepKind::Step) {
      auto found = prepared(kind);
      if (!found)
        return found.error();
      part = *found;
    }
    BoundKernel *recorded = recordings.find(kind, *compute, [this, part] { return enqueue(part, Timing::Unmeasured); });
    Status status = recorded ? recorded->launch(*compute) : enqueue(part, Timing::Measured);
    if (status && meanwhile)
      meanwhile();
    status = finish(status);
    bool isWhole = kind == StepKind::Step;
    steps += isWhole;
    if (!status)
      return status;
    if (!recorded) {
      measuredSteps += isWhole;
      recordings.countEnqueued(kind);
      if (kind != StepKind::Evaluation)
        status = collectTimes(part);
    }
    stepSeconds += kind == StepKind::Evaluation ? 0 : secondsSince(start);
    return status;
  }

  TimeReport times() const override {
    TimeReport report = timeReport(plan, timers);
    report.steps = steps;
    report.measuredSteps = measuredSteps;
    report.notRecorded = recordings.reason();
    report.stepSeconds = stepSeconds;
    return report;
  }
  std::vector<Span> lastStep() const override { return spansOf(plan, lastTimes); }
  OverlapTimes lastOverlap() const override { return overlapOf(plan, lastTimes); }

private:
  TensorView view(int value) const { return viewOf(plan, value, addresses); }
  KernelRequest request(size_t index) const {
    return kernelRequest(program, plan, index, communicator.rank(), addresses, code.get());
  }

  Status allocate() {
    auto newPersistent = device.allocate(plan.memory.persistentBytes),
         newArena = device.allocate(plan.memory.arenaBytes), newHost = device.allocateHost(plan.memory.hostBytes);
    if (!newPersistent)
      return newPersistent.error();
    if (!newArena)
      return newArena.error();
    if (!newHost)
      return newHost.error();
    persistent = *newPersistent, arena = *newArena, inHost = *newHost;
    for (size_t b = 0; b < plan.offsets.size(); ++b) {
      BufferKind kind = buffers.buffers[b].kind;
      std::byte *memory = kind == BufferKind::Working ? arena.get()
                          : kind == BufferKind::Host  ? inHost.get()
                                                      : persistent.get();
      addresses.push_back(memory + plan.offsets[b]);
    }
    return ok();
  }

  Status prepareFeeds() {
    if (!feedsAhead())
      return ok();
    auto arrived = newEvent(), taken = newEvent();
    if (!arrived)
      return arrived.error();
    if (!taken)
      return taken.error();
    std::map<const void *, std::byte *> memory;
    for (const auto &[value, offset] : plan.ahead)
      memory[view(value).data] = persistent.get() + offset;
    return ahead.prepare(device, *compute, **arrived, **taken, std::move(memory));
  }

  Status bindAll() {
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (Status status = bind(i); !status)
        return Error{fmt::format("{}: {}", instructionText(*flat.body[i].source), status.error().message),
                     status.error().status};
    // A started collective without a wait still reads its operand, which a copy at the end of the step may overwrite.
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

  /// Adds an instruction's action with events that measure its time.
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

  /// Binds one side of a message between stages, or the wait for a send.
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

  /// Binds a collective. Its tags follow those of the messages between stages.
  Status bindCollectiveAt(size_t index) {
    int64_t tag = kFirstCollectiveTag + flat.messages + 2 * collectivesBound++;
    auto kernel = collectives->bind({request(index), tag, laterBucketMembers(flat.body[index])});
    if (!kernel)
      return kernel.error();
    auto limited = limits.limited(std::move(*kernel), flat.body[index], tensorOf);
    if (!limited)
      return limited.error();
    return addAsynchronous(index, std::move(*limited));
  }

  /// Adds an instruction that runs on the stream that the program names. If that is the compute stream, kernels wait
  /// for the instruction.
  Status addAsynchronous(size_t index, std::unique_ptr<BoundKernel> kernel) {
    std::string name = streamOf(plan, index);
    if (name == kComputeStream)
      return addCompute(index, std::move(kernel), true);
    auto &stream = streams[name];
    if (!stream) {
      auto created = device.createStream(StreamKind::Auxiliary);
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

  /// A value that a started instruction computes.
  struct Pending {
    Event *done;
    int64_t instruction; // number of the started instruction
    bool waited;         // whether an action waits for it
  };

  /// Adds the wait for a started instruction. `index` is the number of the program's instruction that waits, if any.
  Status addWait(Pending &started, std::optional<size_t> index) {
    Action wait;
    wait.kind = Action::Kind::Wait;
    wait.instruction = started.instruction; // so that parts of a step contain both or neither
    wait.waitedFor = index ? int64_t(*index) : started.instruction;
    wait.ofProgram = index.has_value();
    wait.done = started.done;
    started.waited = true;
    return add(std::move(wait));
  }

  Status bindWait(size_t index) {
    auto found = pending.find(flat.body[index].operands[0]);
    if (found == pending.end())
      return ok(); // the instruction was not started on a stream of its own
    return addWait(found->second, index);
  }

  void addEndCopy(size_t number) {
    auto [from, to] = buffers.copies[number];
    Action copy;
    copy.copy = int64_t(number);
    copy.kernel = std::make_unique<BoundCopy>(addresses[size_t(to)], addresses[size_t(from)],
                                              buffers.buffers[size_t(to)].lifetime.bytes, CopyKind::OnDevice);
    actions.push_back(std::move(copy));
  }

  /// Reserves room for everything that a step enqueues and sends. How much of that is in flight at once depends on
  /// which rank is ahead, so there is room for all of it.
  void reserve() {
    for (auto &[name, stream] : streams) {
      auto starts = std::count_if(actions.begin(), actions.end(),
                                  [&](const Action &action) { return action.stream == stream.get(); });
      stream->reserve((kCallsToStart + limits.mostResults()) * size_t(starts));
    }
    // Each argument may be fed, saved and restored; feeds are waited for, and recorded.
    compute->reserve((kCallsOfAction + limits.mostResults()) * actions.size() + 3 * flat.args.size() + 2);
    size_t peers = size_t(communicator.size() - 1), largestBucket = 1;
    size_t atOnce = streams.size() + 1; // collectives at a time: one on each stream
    for (const FlatInstruction &instruction : flat.body)
      largestBucket = std::max(largestBucket, 1 + instruction.others.size());
    auto transfers = std::count_if(flat.body.begin(), flat.body.end(), [](const FlatInstruction &instruction) {
      return instruction.kind == FlatInstruction::Kind::Send || instruction.kind == FlatInstruction::Kind::Receive;
    });
    collectives->reserve(kMessagesToPeer * peers * largestBucket * atOnce + size_t(transfers));
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
    for (int buffer : part.restoredBuffers) {
      int64_t bytes = buffers.buffers[size_t(buffer)].lifetime.bytes;
      auto host = device.allocateHost(bytes);
      if (!host)
        return host.error();
      ready.preserved.push_back({addresses[size_t(buffer)], bytes, std::move(*host)});
    }
    return &parts.emplace(kind, std::move(ready)).first->second;
  }

  Status enqueue(const PreparedPart *part, Timing timing) {
    if (part)
      for (const PreservedContent &kept : part->preserved)
        if (Status status = compute->copy(kept.host.get(), kept.buffer, kept.bytes, CopyKind::ToHost); !status)
          return status;
    for (size_t i = 0; i < actions.size(); ++i)
      if (!part || part->runs[i])
        if (Status status = enqueue(actions[i], timing); !status)
          return status;
    if (part)
      for (const PreservedContent &kept : part->preserved)
        if (Status status = compute->copy(kept.buffer, kept.host.get(), kept.bytes, CopyKind::ToDevice); !status)
          return status;
    return ok();
  }

  Status enqueue(const Action &action, Timing timing) {
    if (action.kind == Action::Kind::Start) {
      if (Status status = compute->record(*action.ready); !status)
        return status;
      if (Status status = action.stream->wait(*action.ready); !status)
        return status;
    }
    Stream &stream = action.stream ? *action.stream : *compute;
    bool isMeasured = timing == Timing::Measured;
    if (action.begin && isMeasured)
      if (Status status = stream.record(*action.begin); !status)
        return status;
    Status status = action.kernel ? action.kernel->launch(stream) : stream.wait(*action.done);
    if (status && action.end && (isMeasured || action.kind == Action::Kind::Start)) // a wait waits for a start's end
      status = stream.record(*action.end);
    return status;
  }

  /// Waits for all streams, after a failure as well, because the caller may free the memory that they use. The compute
  /// stream comes first: if it has failed, the other ranks must be told before a stream here waits for them.
  Status finish(Status status) {
    Status computed = compute->synchronize();
    if (status && !computed)
      status = computed;
    bool isTold = !status;
    if (isTold)
      status = endRun(status.error());
    for (auto &[name, stream] : streams)
      if (Status other = stream->synchronize(); !other && !isTold) {
        status = endRun(other.error());
        isTold = true;
      }
    if (!isTold) // a kernel that goes on after a fault leaves only the fault
      if (auto fault = device.takeFault())
        status = endRun(*fault);
    return status;
  }

  /// Ends the run on all ranks with an error, unless it has ended already. Returns the error that ended the run.
  Error endRun(Error error) {
    if (auto fault = device.takeFault(); fault && fault->number >= 0)
      return endRun(*fault);
    if (auto ended = communicator.failure())
      return *ended;
    error.message = fmt::format("rank {}: {}", communicator.rank(), error.message);
    communicator.abort(error);
    return error;
  }
  Error endRun(const Fault &fault) {
    if (fault.number < 0) // the device could not say whether a kernel has met a fault
      return endRun(fault.error);
    if (auto ended = communicator.failure())
      return *ended;
    Error error = fault.error;
    error.message = rankMessage(communicator.rank(), *flat.body[size_t(fault.number)].source, error.message);
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
      InstructionTimes &times = lastTimes[size_t(action.instruction)];
      times.start = start, times.seconds = seconds;
      ++timer.calls;
      timer.seconds += seconds;
      timer.waitSeconds += action.stalls ? seconds : 0;
      return;
    }
    timer.waitSeconds += seconds;
    InstructionTimes &times = lastTimes[size_t(action.waitedFor)];
    if (action.ofProgram)
      times.start = start, times.seconds = seconds;
    else
      times.waitStart = start, times.waitSeconds = seconds;
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
  BufferAddresses addresses;
  int64_t collectivesBound = 0;
  CollectiveLimits limits;
  const CollectiveLimits::ViewOf tensorOf = [this](int value) { return view(value); };
  std::map<int, Pending> pending;          // flat values that started instructions compute
  std::vector<Timer> timers;               // for each origin
  std::vector<InstructionTimes> lastTimes; // for each instruction
  std::vector<std::unique_ptr<BoundKernel>> constants;
  std::vector<Action> actions;
  std::map<StepKind, PreparedPart> parts;
  int64_t steps = 0, measuredSteps = 0;
  double stepSeconds = 0;
  std::vector<std::unique_ptr<Event>> events;
  std::unique_ptr<Stream> compute;
  StepRecordings recordings{device, communicator}; // end before the collectives, whose calls they hold
  FeedsAhead ahead;
  std::map<std::string, std::unique_ptr<Stream>> streams; // the last member, so that the streams' threads end first
};
} // namespace

Result<std::unique_ptr<Executor>> Executor::create(const package::Program &program, Device &device,
                                                   Communicator &communicator, const ExecutorOptions &options) {
  std::unique_ptr<Executor> made;
  if (Status status = createInto(made, program, device, communicator, options); !status)
    return status.error();
  return made;
}

Status Executor::createInto(std::unique_ptr<Executor> &made, const package::Program &program, Device &device,
                            Communicator &communicator, const ExecutorOptions &options) {
  auto executor = std::make_unique<ProgramExecutor>(program, device, communicator);
  ProgramExecutor &loading = *executor;
  made = std::move(executor);
  return loading.load(options);
}

} // namespace kerf::runtime
