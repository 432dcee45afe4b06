// SPDX-License-Identifier: Apache-2.0
// Loading: flatten, plan memory, bind, list the actions of a step. A step walks the list. A collective that is waited
// for at once runs on the compute stream; any other is started on its own and waited for by an event. Between stages a
// send is begun, a receive and the wait for a send block, all on the compute stream.
#include "kerf/Runtime/Executor.h"
#include "RankTimes.h"
#include "StepParts.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr size_t kCallsToStart = 3; // of a stream, to start a collective: wait, enqueue, record

struct Action {
  enum class Kind { Compute, Start, Wait } kind = Kind::Compute;
  Kernel kernel;
  Timer *timer = nullptr; // of a wait, as `ran`; kernels know theirs
  Ran *ran = nullptr;
  Stream *stream = nullptr;
  Event *ready = nullptr, *done = nullptr;
  int64_t instruction = -1, copy = -1; // of the flat program, or of the copies at its end
};

/// A part of the step, ready to run.
struct PreparedPart {
  std::vector<bool> runs;                                      // of each action
  std::vector<std::pair<int, std::vector<std::byte>>> putBack; // buffers, and room for their content
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
      auto loaded = loadNative(program);
      if (!loaded)
        return loaded.error();
      native = std::move(*loaded);
    }
    auto planned = planRank(program, communicator.rank(), device, options, native.get());
    if (!planned)
      return planned.error();
    plan = std::move(*planned);
    if (Status status = allocate(); !status)
      return status;
    compute = device.createComputeStream();
    timers.resize(size_t(flat.origins));
    ran.resize(flat.body.size());
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (Status status = bind(i); !status)
        return Error{fmt::format("{}: {}", place(*flat.body[i].source), status.error().message), status.error().status};
    for (auto &[value, started] :
         pending) // what nobody waits for reads its operand all the same, which a copy may overwrite
      if (!started.waited)
        addWait(started, nullptr);
    for (size_t c = 0; c < buffers.copies.size(); ++c)
      addCopy(buffers.copies[c].from, buffers.copies[c].to, int64_t(c));
    reserve();
    return ok();
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
  const MemoryReport &memory() const override { return plan.memory; }

  Status step(StepKind kind) override {
    Clock::time_point start = Clock::now();
    PreparedPart *part = kind == StepKind::Step ? nullptr : &prepared(kind);
    measures = kind != StepKind::Evaluation;
    if (part)
      for (auto &[buffer, content] : part->putBack)
        device.copyOut(content.data(), memories[size_t(buffer)], int64_t(content.size()));
    for (size_t i = 0; i < actions.size(); ++i)
      if (!part || part->runs[i])
        if (Status status = run(actions[i]); !status)
          break;
    // After a failure too: nothing may still work on memory that the caller is about to free.
    Status status = compute->synchronize();
    for (auto &[name, stream] : streams)
      if (Status other = stream->synchronize(); !other && status)
        status = other;
    if (part)
      for (auto &[buffer, content] : part->putBack)
        device.copyIn(memories[size_t(buffer)], content.data(), int64_t(content.size()));
    steps += kind == StepKind::Step;
    if (measures)
      stepSeconds += secondsSince(start);
    measures = true;
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
  BindRequest request(size_t index) const { return bindRequest(program, plan, index, communicator.rank(), memories); }

  CollectiveRequest collectiveRequest(size_t index) {
    return {request(index), &communicator, firstCollectiveTag() + 2 * collectivesBound, flat.body[index].others};
  }
  /// Transfers have the tags before.
  int64_t firstCollectiveTag() const { return kFirstCollectiveTag + flat.messages; }

  Status allocate() {
    auto kept = device.allocate(plan.memory.persistentBytes), shared = device.allocate(plan.memory.arenaBytes),
         outside = device.allocateInHost(plan.memory.hostBytes);
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

  /// The kernel with its time measured and its failure told to all ranks.
  Kernel wrapped(Kernel kernel, size_t index, bool waits) {
    return [this, kernel = std::move(kernel), &instruction = *flat.body[index].source, timer = timerOf(index),
            ran = &ran[index], waits]() -> Status {
      Clock::time_point start = Clock::now();
      Status status = kernel();
      double seconds = secondsSince(start);
      if (measures) {
        *ran = {start, seconds};
        ++timer->calls;
        timer->seconds += seconds;
        if (waits)
          timer->waitSeconds += seconds;
      }
      if (status)
        return status;
      if (auto ended = communicator.failure())
        return *ended;
      Error error{fmt::format("rank {}: {}: {}", communicator.rank(), place(instruction), status.error().message),
                  status.error().status};
      communicator.abort(error);
      return error;
    };
  }

  Status bind(size_t index) {
    const package::Instruction &instruction = *flat.body[index].source;
    if (flat.body[index].kind != FlatInstruction::Kind::Op)
      return bindTransfer(index);
    if (instruction.op == "wait")
      return bindWait(index);
    if (isView(flat, flat.body[index]))
      return ok();
    if (package::isCollective(instruction.op))
      return bindCollectiveAt(index);
    if (package::isHostCopy(instruction.op)) {
      TensorView from = view(flat.body[index].operands[0]), to = view(flat.body[index].results[0]);
      addAsynchronous(index, device.bindCopy(static_cast<std::byte *>(to.data),
                                             static_cast<const std::byte *>(from.data), from.bytes()));
      return ok();
    }
    auto kernel = device.bind(request(index));
    if (!kernel)
      return kernel.error();
    if (keptConstant(index))
      return (*kernel)();
    addCompute(index, std::move(*kernel), false);
    return ok();
  }

  Timer *timerOf(size_t index) { return &timers[size_t(flat.body[index].origin)]; }

  void addCompute(size_t index, Kernel kernel, bool waits) {
    Action action;
    action.kernel = wrapped(std::move(kernel), index, waits);
    action.instruction = int64_t(index);
    actions.push_back(std::move(action));
  }

  /// One side of a transfer, or the wait for its send.
  Status bindTransfer(size_t index) {
    const FlatInstruction &transfer = flat.body[index];
    int64_t tag = kFirstCollectiveTag + transfer.message;
    if (Status status = checkTag(tag); !status)
      return status;
    if (transfer.kind == FlatInstruction::Kind::WaitForSend) {
      addCompute(index, [this, tag] { return communicator.finishSends(tag); }, true);
      return ok();
    }
    int64_t peer = package::rankOnStage(program, communicator.rank(), transfer.peerStage);
    if (transfer.kind == FlatInstruction::Kind::Send) {
      TensorView sent = view(transfer.operands[0]);
      std::span<const std::byte> bytes(static_cast<const std::byte *>(sent.data), size_t(sent.bytes()));
      addCompute(index, [this, bytes, peer, tag] { return communicator.startSend(bytes, peer, tag); }, false);
      return ok();
    }
    TensorView received = view(transfer.results[0]);
    std::span<std::byte> bytes(static_cast<std::byte *>(received.data), size_t(received.bytes()));
    addCompute(index, [this, bytes, peer, tag] { return communicator.receive(bytes, peer, tag); }, true);
    return ok();
  }

  Status checkTag(int64_t tag) const {
    if (tag <= communicator.maxTag())
      return ok();
    return Error{fmt::format("tag {} of this message is above {}, the largest that this MPI allows: fewer microbatches",
                             tag, communicator.maxTag())};
  }

  bool keptConstant(size_t index) const {
    const std::vector<int> &results = flat.body[index].results;
    return !results.empty() &&
           buffers.buffers[size_t(buffers.bufferOf[size_t(results[0])])].kind == BufferKind::Constant;
  }

  Status bindCollectiveAt(size_t index) {
    CollectiveRequest request = collectiveRequest(index);
    ++collectivesBound;
    if (Status status = checkTag(request.tag + 1); !status)
      return status;
    auto kernel = bindCollective(request);
    if (!kernel)
      return kernel.error();
    addAsynchronous(index, std::move(*kernel));
    return ok();
  }

  /// On its own stream, or where it is waited for at once on that of kernels.
  void addAsynchronous(size_t index, Kernel kernel) {
    std::string name = streamOf(plan, index);
    if (name == kComputeStream) {
      addCompute(index, std::move(kernel), true);
      return;
    }
    auto &stream = streams[name];
    if (!stream)
      stream = device.createStream();
    Action start;
    start.kind = Action::Kind::Start;
    start.kernel = wrapped(std::move(kernel), index, false);
    start.stream = stream.get();
    start.ready = newEvent();
    start.done = newEvent();
    start.instruction = int64_t(index);
    for (int result : flat.body[index].results)
      pending[result] = {start.done, timerOf(index), int64_t(index), false};
    actions.push_back(std::move(start));
  }

  struct Pending {
    Event *done;
    Timer *timer;
    int64_t instruction; // that started it
    bool waited;
  };

  void addWait(Pending &started, Ran *ran) {
    Action wait;
    wait.instruction = started.instruction; // they run together
    wait.kind = Action::Kind::Wait;
    wait.timer = started.timer;
    wait.ran = ran;
    wait.done = started.done;
    actions.push_back(std::move(wait));
    started.waited = true;
  }

  Status bindWait(size_t index) {
    auto found = pending.find(flat.body[index].operands[0]);
    if (found == pending.end())
      return ok(); // ran on the compute stream
    addWait(found->second, &ran[index]);
    return ok();
  }

  /// What waits in line during a step: how much at once depends on which rank is ahead, so there is room for all of it.
  void reserve() {
    for (auto &[name, stream] : streams) {
      auto starts = std::count_if(actions.begin(), actions.end(),
                                  [&](const Action &action) { return action.stream == stream.get(); });
      stream->reserve(kCallsToStart * size_t(starts));
    }
    size_t peers = size_t(communicator.size() - 1), most = 1, // of collectives that are one
        atOnce = streams.size() + 1;                          // one on each stream, that of kernels included
    for (const FlatInstruction &instruction : flat.body)
      most = std::max(most, 1 + instruction.others.size());
    auto transfers = std::count_if(flat.body.begin(), flat.body.end(), [](const FlatInstruction &instruction) {
      return instruction.kind == FlatInstruction::Kind::Send || instruction.kind == FlatInstruction::Kind::Receive;
    });
    communicator.reserve(kMessagesToPeer * peers * most * atOnce + size_t(transfers));
  }

  Event *newEvent() {
    events.push_back(device.createEvent());
    return events.back().get();
  }

  PreparedPart &prepared(StepKind kind) {
    auto [found, isNew] = parts.try_emplace(kind);
    if (!isNew)
      return found->second;
    StepPart part =
        partOf(program, plan, kind == StepKind::Batch ? accumulatedResults(program) : evaluatedResults(program));
    for (const Action &action : actions)
      found->second.runs.push_back(action.copy >= 0
                                       ? std::count(part.copies.begin(), part.copies.end(), action.copy) > 0
                                       : part.runs[size_t(action.instruction)]);
    for (int buffer : part.putBack)
      found->second.putBack.emplace_back(
          buffer, std::vector<std::byte>(size_t(buffers.buffers[size_t(buffer)].lifetime.bytes)));
    return found->second;
  }

  void addCopy(int from, int to, int64_t number) {
    Action copy;
    copy.copy = number;
    copy.kernel =
        device.bindCopy(memories[size_t(to)], memories[size_t(from)], buffers.buffers[size_t(to)].lifetime.bytes);
    actions.push_back(std::move(copy));
  }

  Status run(const Action &action) {
    switch (action.kind) {
    case Action::Kind::Compute:
      return compute->enqueue(action.kernel);
    case Action::Kind::Start:
      compute->record(*action.ready);
      if (Status status = action.stream->wait(*action.ready); !status)
        return status;
      if (Status status = action.stream->enqueue(action.kernel); !status)
        return status;
      action.stream->record(*action.done);
      return ok();
    case Action::Kind::Wait: {
      Clock::time_point start = Clock::now();
      Status status = compute->wait(*action.done);
      double seconds = secondsSince(start);
      if (measures) {
        action.timer->waitSeconds += seconds;
        if (action.ran)
          *action.ran = {start, seconds};
      }
      return status;
    }
    }
    return ok();
  }

  const package::Program &program;
  Device &device;
  Communicator &communicator;
  std::shared_ptr<const NativeKernels> native;
  RankPlan plan;
  const FlatProgram &flat = plan.flat;
  const BufferPlan &buffers = plan.buffers;
  std::shared_ptr<std::byte> persistent, arena, inHost;
  Memories memories;
  int64_t collectivesBound = 0;
  std::map<int, Pending> pending; // [value]: started on a stream
  std::vector<Timer> timers;      // of each origin
  std::vector<Ran> ran;           // of each instruction
  std::vector<Action> actions;
  std::map<StepKind, PreparedPart> parts;
  bool measures = true; // times of what runs count; streams read it between two steps' ends
  int64_t steps = 0;
  double stepSeconds = 0;
  std::unique_ptr<Stream> compute;
  std::vector<std::unique_ptr<Event>> events;
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
