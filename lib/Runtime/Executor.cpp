// SPDX-License-Identifier: Apache-2.0
// Loading: flatten, plan memory, bind, list the actions of a step. A step walks the list. A collective that is waited
// for at once runs on the compute stream; any other is started on its own and waited for by an event. Between stages a
// send is begun, a receive and the wait for a send block, all on the compute stream.
#include "kerf/Runtime/Executor.h"
#include "BufferPlan.h"
#include "kerf/Runtime/Collectives.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr const char *kDefaultStream = "collective", *kComputeStream = "compute";
constexpr size_t kCallsToStart = 3; // of a stream, to start a collective: wait, enqueue, record

struct Timer {
  int64_t calls = 0;
  double seconds = 0, waitSeconds = 0;
};

/// When an instruction ran the last time.
struct Ran {
  Clock::time_point start;
  double seconds = -1; // not yet
};

struct Action {
  enum class Kind { Compute, Start, Wait } kind = Kind::Compute;
  Kernel kernel;
  Timer *timer = nullptr; // of a wait, as `ran`; kernels know theirs
  Ran *ran = nullptr;
  Stream *stream = nullptr;
  Event *ready = nullptr, *done = nullptr;
};

std::string textAttribute(const package::Instruction &instruction, const char *key, const char *otherwise) {
  auto found = instruction.attrs.find(key);
  return found != instruction.attrs.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

std::string place(const package::Instruction &instruction) {
  return instruction.name.empty() ? instruction.op : fmt::format("{} ({})", instruction.name, instruction.op);
}

class ProgramExecutor : public Executor {
public:
  ProgramExecutor(const package::Program &program, Device &device, Communicator &communicator)
      : program(program), device(device), communicator(communicator), ranks(package::ranksOf(program)),
        stage(package::stageOf(program, communicator.rank())) {}

  /// Everything that needs no memory: where each buffer will lie.
  Status plan(const ExecutorOptions &options) {
    auto flattened = flatten(program, stage);
    if (!flattened)
      return flattened.error();
    flat = std::move(*flattened);
    auto planned = planBuffers(program, flat, options.reuseMemory ? Sharing::InPlace : Sharing::Views);
    if (!planned)
      return planned.error();
    buffers = std::move(*planned);
    int64_t end = int64_t(flat.body.size());
    if (!options.reuseMemory)
      for (Buffer &buffer : buffers.buffers)
        buffer.lifetime.begin = 0, buffer.lifetime.end = end;
    if (Status status = planScratch(options.reuseMemory); !status)
      return status;
    placeAll();
    return ok();
  }

  Status load(const ExecutorOptions &options) {
    if (communicator.size() != ranks)
      return Error{
          fmt::format("the program is for {} ranks, here are {}: start {}", ranks, communicator.size(), ranks)};
    if (Status status = plan(options); !status)
      return status;
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
    for (const EndCopy &copy : buffers.copies)
      addCopy(copy.from, copy.to);
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
    tensor.data = memoryOf(buffers.resultBuffers[index]);
    return tensor;
  }
  const MemoryReport &memory() const override { return memoryReport; }

  Status step() override {
    Clock::time_point start = Clock::now();
    for (const Action &action : actions)
      if (Status status = run(action); !status)
        break;
    // After a failure too: nothing may still work on memory that the caller is about to free.
    Status status = compute->synchronize();
    for (auto &[name, stream] : streams)
      if (Status other = stream->synchronize(); !other && status)
        status = other;
    ++steps;
    stepSeconds += secondsSince(start);
    return status;
  }

  TimeReport times() const override {
    TimeReport report{steps, stepSeconds, 0, 0, {}, {}};
    std::map<std::string, KernelTime> byOp;
    std::vector<bool> told(timers.size(), false);
    for (const FlatInstruction &flatInstruction : flat.body) {
      if (told[size_t(flatInstruction.origin)])
        continue; // another microbatch's
      told[size_t(flatInstruction.origin)] = true;
      const package::Instruction &instruction = *flatInstruction.source;
      const Timer &timer = timers[size_t(flatInstruction.origin)];
      if (!communicates(flatInstruction)) {
        KernelTime &kernel = byOp[instruction.op];
        kernel.op = instruction.op;
        kernel.calls += timer.calls;
        kernel.seconds += timer.seconds;
        report.computeSeconds += timer.seconds;
        continue;
      }
      report.waitSeconds += timer.waitSeconds;
      report.collectives.push_back(communicationTime(flatInstruction, timer));
    }
    for (auto &[op, kernel] : byOp)
      if (kernel.calls > 0)
        report.kernels.push_back(kernel);
    std::stable_sort(report.kernels.begin(), report.kernels.end(),
                     [](const KernelTime &a, const KernelTime &b) { return a.seconds > b.seconds; });
    return report;
  }

  std::vector<Span> lastStep() const override {
    std::vector<Span> spans;
    for (size_t i = 0; i < flat.body.size(); ++i) {
      const package::Instruction &instruction = *flat.body[i].source;
      if (ran[i].seconds < 0)
        continue;
      std::string op = communicates(flat.body[i]) ? communicationTime(flat.body[i], {}).op : instruction.op;
      if (flat.body[i].kind == FlatInstruction::Kind::WaitForSend)
        op = "wait";
      bool started = package::isCollective(op) && buffers.waitedAt[i] != int64_t(i) + 1;
      spans.push_back({instruction.name.empty() ? op : instruction.name, op,
                       started ? textAttribute(instruction, "stream", kDefaultStream) : kComputeStream,
                       flat.body[i].microbatch, std::chrono::duration<double>(ran[i].start.time_since_epoch()).count(),
                       ran[i].seconds});
    }
    return spans;
  }

private:
  TensorView view(int value) const {
    const package::Value &type = flat.values[size_t(value)];
    return {memoryOf(buffers.bufferOf[size_t(value)]), type.dtype, type.shape};
  }
  std::byte *memoryOf(int buffer) const { return memories.empty() ? nullptr : memories[size_t(buffer)]; }

  static bool communicates(const FlatInstruction &instruction) {
    return instruction.kind != FlatInstruction::Kind::Op || package::isCollective(instruction.source->op);
  }

  CollectiveTime communicationTime(const FlatInstruction &instruction, const Timer &timer) const {
    bool receives = instruction.kind == FlatInstruction::Kind::Receive;
    const package::Value &moved = flat.values[size_t((receives ? instruction.results : instruction.operands)[0])];
    CollectiveTime time{instruction.source->op,
                        instruction.source->name,
                        textAttribute(*instruction.source, "cause", ""),
                        textAttribute(*instruction.source, "stream", kDefaultStream),
                        elementsOf(moved.shape) * bytesOf(moved.dtype),
                        timer.calls,
                        timer.seconds,
                        timer.waitSeconds};
    if (instruction.kind != FlatInstruction::Kind::Op) {
      time.op = receives ? "receive" : "send";
      time.stream = kComputeStream;
    }
    return time;
  }

  BindRequest request(size_t index) const {
    const FlatInstruction &instruction = flat.body[index];
    BindRequest request{*instruction.source,
                        {},
                        {},
                        program.mesh,
                        package::virtualRank(program, communicator.rank(), instruction.microbatch),
                        nullptr};
    for (int operand : flat.body[index].operands)
      request.operands.push_back(view(operand));
    for (int result : flat.body[index].results)
      request.results.push_back(view(result));
    if (!memories.empty() && scratchOf[index] >= 0)
      request.scratch = memoryOf(scratchOf[index]);
    return request;
  }

  CollectiveRequest collectiveRequest(size_t index) {
    return {request(index), &communicator, firstCollectiveTag() + 2 * collectivesBound,
            package::microbatchesOf(program)};
  }
  /// Transfers have the tags before.
  int64_t firstCollectiveTag() const { return kFirstCollectiveTag + flat.messages; }

  /// One more buffer for each instruction that needs scratch: alive while it runs.
  Status planScratch(bool reuse) {
    scratchOf.assign(flat.body.size(), -1);
    std::vector<int64_t> known(size_t(flat.origins), -1); // the same in each microbatch
    for (size_t i = 0; i < flat.body.size(); ++i) {
      const package::Instruction &instruction = *flat.body[i].source;
      if (flat.body[i].kind != FlatInstruction::Kind::Op || isView(flat, flat.body[i]))
        continue;
      bool collective = package::isCollective(instruction.op);
      int64_t &bytes = known[size_t(flat.body[i].origin)];
      if (bytes < 0) {
        auto asked = collective ? collectiveScratchBytes(collectiveRequest(i)) : device.scratchBytes(request(i));
        if (!asked)
          return Error{fmt::format("{}: {}", place(instruction), asked.error().message), asked.error().status};
        bytes = *asked;
      }
      if (bytes == 0)
        continue;
      scratchOf[i] = int(buffers.buffers.size());
      int64_t end = int64_t(flat.body.size());
      Lifetime lifetime{bytes, int64_t(i), collective ? buffers.waitedAt[i] : int64_t(i)};
      buffers.buffers.push_back({BufferKind::Working, reuse ? lifetime : Lifetime{bytes, 0, end}});
    }
    return ok();
  }

  void placeAll() {
    std::vector<Lifetime> working;
    std::vector<size_t> workingIndex;
    offsets.assign(buffers.buffers.size(), 0);
    for (size_t b = 0; b < buffers.buffers.size(); ++b) {
      const Buffer &buffer = buffers.buffers[b];
      if (buffer.kind == BufferKind::Working) {
        working.push_back(buffer.lifetime);
        workingIndex.push_back(b);
        continue;
      }
      offsets[b] = memoryReport.persistentBytes;
      memoryReport.persistentBytes += (std::max<int64_t>(buffer.lifetime.bytes, 1) + Device::kAlignment - 1) /
                                      Device::kAlignment * Device::kAlignment;
    }
    Placement placement = placeBuffers(working, Device::kAlignment);
    for (size_t w = 0; w < working.size(); ++w)
      offsets[workingIndex[w]] = placement.offsets[w];
    memoryReport.arenaBytes = placement.bytes;
    reportMemory(working, workingIndex);
  }

  Status allocate() {
    auto kept = device.allocate(memoryReport.persistentBytes), shared = device.allocate(memoryReport.arenaBytes);
    if (!kept)
      return kept.error();
    if (!shared)
      return shared.error();
    persistent = *kept, arena = *shared;
    for (size_t b = 0; b < offsets.size(); ++b)
      memories.push_back((buffers.buffers[b].kind == BufferKind::Working ? arena : persistent).get() + offsets[b]);
    return ok();
  }

  void reportMemory(const std::vector<Lifetime> &working, const std::vector<size_t> &workingIndex) {
    for (const FlatArg &arg : flat.args) {
      int64_t bytes = buffers.buffers[size_t(buffers.bufferOf[size_t(arg.value)])].lifetime.bytes;
      switch (program.args[arg.arg].kind) {
      case package::ArgKind::Parameter:
      case package::ArgKind::Buffer:
      case package::ArgKind::Constant:
        memoryReport.parametersBytes += bytes;
        break;
      case package::ArgKind::State:
        memoryReport.statesBytes += bytes;
        break;
      default:
        memoryReport.inputsBytes += bytes;
        break;
      }
    }
    std::vector<bool> isGradient(buffers.buffers.size(), false);
    for (const FlatInstruction &instruction : flat.body) {
      // Place of the gradient among the operands: the ops' definitions.
      size_t operand = instruction.source->op == "sgd" ? 2 : instruction.source->op == "adamw" ? 3 : SIZE_MAX;
      if (operand < instruction.operands.size())
        isGradient[size_t(buffers.bufferOf[size_t(instruction.operands[operand])])] = true;
    }
    std::vector<int64_t> live = liveBytes(working, int64_t(flat.body.size()) + 1, Device::kAlignment);
    int64_t fullest = std::max_element(live.begin(), live.end()) - live.begin();
    memoryReport.peakLiveBytes = live[size_t(fullest)];
    for (size_t w = 0; w < working.size(); ++w)
      if (isGradient[workingIndex[w]] && working[w].begin <= fullest && fullest <= working[w].end)
        memoryReport.gradientsBytes += working[w].bytes;
    memoryReport.activationsBytes = memoryReport.peakLiveBytes - memoryReport.gradientsBytes;
  }

  /// The kernel with its time measured and its failure told to all ranks.
  Kernel wrapped(Kernel kernel, size_t index, bool waits) {
    return [this, kernel = std::move(kernel), &instruction = *flat.body[index].source, timer = timerOf(index),
            ran = &ran[index], waits]() -> Status {
      Clock::time_point start = Clock::now();
      Status status = kernel();
      double seconds = secondsSince(start);
      *ran = {start, seconds};
      ++timer->calls;
      timer->seconds += seconds;
      if (waits)
        timer->waitSeconds += seconds;
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
    const package::Instruction &instruction = *flat.body[index].source;
    CollectiveRequest request = collectiveRequest(index);
    ++collectivesBound;
    if (Status status = checkTag(request.tag + 1); !status)
      return status;
    auto kernel = bindCollective(request);
    if (!kernel)
      return kernel.error();
    bool atOnce = buffers.waitedAt[index] == int64_t(index) + 1;
    if (atOnce) {
      addCompute(index, std::move(*kernel), true);
      return ok();
    }
    auto &stream = streams[textAttribute(instruction, "stream", kDefaultStream)];
    if (!stream)
      stream = device.createStream();
    Action start;
    start.kind = Action::Kind::Start;
    start.kernel = wrapped(std::move(*kernel), index, false);
    start.stream = stream.get();
    start.ready = newEvent();
    start.done = newEvent();
    pending[flat.body[index].results[0]] = {start.done, timerOf(index), false};
    actions.push_back(std::move(start));
    return ok();
  }

  struct Pending {
    Event *done;
    Timer *timer;
    bool waited;
  };

  void addWait(Pending &started, Ran *ran) {
    Action wait;
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
    size_t peers = size_t(communicator.size() - 1),
           atOnce = streams.size() + 1; // one on each stream, that of kernels included
    auto transfers = std::count_if(flat.body.begin(), flat.body.end(), [](const FlatInstruction &instruction) {
      return instruction.kind == FlatInstruction::Kind::Send || instruction.kind == FlatInstruction::Kind::Receive;
    });
    communicator.reserve(kMessagesToPeer * peers * atOnce + size_t(transfers));
  }

  Event *newEvent() {
    events.push_back(device.createEvent());
    return events.back().get();
  }

  void addCopy(int from, int to) {
    Action copy;
    copy.kernel = device.bindCopy(memoryOf(to), memoryOf(from), buffers.buffers[size_t(to)].lifetime.bytes);
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
      action.timer->waitSeconds += seconds;
      if (action.ran)
        *action.ran = {start, seconds};
      return status;
    }
    }
    return ok();
  }

  const package::Program &program;
  Device &device;
  Communicator &communicator;
  int64_t ranks, stage;
  FlatProgram flat;
  BufferPlan buffers;
  std::vector<int64_t> offsets; // of each buffer, in the arena or in what persists
  std::vector<int> scratchOf;   // buffer of each instruction's scratch, or -1
  std::shared_ptr<std::byte> persistent, arena;
  std::vector<std::byte *> memories; // of each buffer; empty until allocated
  int64_t collectivesBound = 0;
  std::map<int, Pending> pending; // [value]: started on a stream
  std::vector<Timer> timers;      // of each origin
  std::vector<Ran> ran;           // of each instruction
  std::vector<Action> actions;
  MemoryReport memoryReport;
  int64_t steps = 0;
  double stepSeconds = 0;
  std::unique_ptr<Stream> compute;
  std::vector<std::unique_ptr<Event>> events;
  std::map<std::string, std::unique_ptr<Stream>> streams; // last: their threads end first
};
/// Stands for a rank where nothing is sent.
class SilentCommunicator : public Communicator {
public:
  SilentCommunicator(int64_t rank, int64_t ranks) : self(rank), ranks(ranks) {}
  int64_t rank() const override { return self; }
  int64_t size() const override { return ranks; }
  void reserve(size_t) override {}
  Status startSend(std::span<const std::byte>, int64_t, int64_t) override { return silent(); }
  Status finishSends(int64_t) override { return silent(); }
  Status receive(std::span<std::byte>, int64_t, int64_t) override { return silent(); }
  void abort(const Error &) override {}
  std::optional<Error> failure() const override { return std::nullopt; }
  int64_t maxTag() const override { return INT64_MAX; }

private:
  static Status silent() {
    return Error{"a program whose memory is only planned sent a message", ExitStatus::InternalCheck};
  }
  int64_t self, ranks;
};

} // namespace

Result<MemoryReport> planMemory(const package::Program &program, int64_t stage) {
  if (stage < 0 || stage >= package::stagesOf(program))
    return Error{
        fmt::format("the memory of stage {} is asked for, the program has {}", stage, package::stagesOf(program))};
  auto device = createCpuDevice();
  SilentCommunicator communicator(package::rankOnStage(program, 0, stage), package::ranksOf(program));
  ProgramExecutor executor(program, *device, communicator);
  if (Status status = executor.plan({}); !status)
    return status.error();
  return executor.memory();
}

Result<std::unique_ptr<Executor>> Executor::create(const package::Program &program, Device &device,
                                                   Communicator &communicator, const ExecutorOptions &options) {
  auto executor = std::make_unique<ProgramExecutor>(program, device, communicator);
  if (Status status = executor->load(options); !status)
    return status.error();
  return std::unique_ptr<Executor>(std::move(executor));
}

} // namespace kerf::runtime
