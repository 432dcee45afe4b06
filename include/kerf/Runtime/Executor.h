// SPDX-License-Identifier: Apache-2.0
// Executes the program of one rank. Loading a program plans and allocates its memory and binds its kernels and
// collectives; a step then only launches them.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Device.h"
#include <map>

namespace kerf::runtime {

/// Memory of one rank in bytes. Gradients and activations are counted at the moment of the step at which most
/// bytes are alive.
struct MemoryReport {
  int64_t parametersBytes = 0; // parameters, buffers and constants
  int64_t statesBytes = 0;     // optimizer states
  int64_t inputsBytes = 0;    // the batch (and the next one, if it is copied ahead), the learning rate, the step number
  int64_t gradientsBytes = 0; // gradients that the optimizer's updates consume
  int64_t activationsBytes = 0; // everything else that is alive in the arena, scratch memory included
  int64_t peakLiveBytes = 0;    // most bytes alive at one moment in the arena: a lower bound of the arena's size
  int64_t arenaBytes = 0;       // actual size of the arena, the memory that the values of a step share
  int64_t persistentBytes = 0;  // actual size of the memory whose content stays from step to step
  int64_t hostBytes = 0;        // activations offloaded to host memory; not part of the total
  /// Returns the device memory that the rank allocates, in bytes.
  int64_t totalBytes() const { return arenaBytes + persistentBytes; }
};

/// Time of one collective or message of the program on one rank, summed over all measured steps and microbatches so
/// far. A message between pipeline stages has the op "send" on one rank and "receive" on the other.
struct CollectiveTime {
  std::string op; // the collective's op, "send" or "receive"
  /// Name of the model's node that the collective belongs to; for a bucket, the first node's name and "and N more".
  std::string name;
  std::string cause;      // why the partitioner inserted the collective; empty where the program does not say
  std::string stream;     // name of the stream that ran the collective
  int64_t bytes = 0;      // bytes of the operands on this rank, in one microbatch
  int64_t calls = 0;      // number of runs of the collective
  double seconds = 0;     // seconds from start to end on the stream, including waiting for slower ranks
  double waitSeconds = 0; // seconds in which the compute stream was idle because it waited for the collective
};
/// Time of all kernels of one op on one rank, summed over all measured steps so far.
struct KernelTime {
  std::string op;     // the op, for example "dot_general"
  int64_t calls = 0;  // number of runs of kernels of this op
  double seconds = 0; // seconds of all these runs together
};
/// Times of one rank, summed over all steps so far. Evaluations are not counted. The seconds of kernels, collectives
/// and waits are sums over the measured steps.
struct TimeReport {
  int64_t steps = 0;                       // number of training steps that the executor has run so far
  int64_t measuredSteps = 0;               // number of these steps whose instructions were measured one by one
  double stepSeconds = 0;                  // seconds of all these steps together, the first one included
  double computeSeconds = 0;               // seconds in kernels
  double waitSeconds = 0;                  // seconds in which the compute stream was idle, waiting for communication
  std::vector<KernelTime> kernels;         // kernels, the slowest op first
  std::vector<CollectiveTime> collectives; // communication, in the order of the program
  /// The reason why the device enqueued every step instruction by instruction although it can record steps; empty if
  /// there is none.
  std::string notRecorded;
};

/// Time of collectives and messages, and the part of that time that was hidden behind (overlapped with) computation. A
/// moment is hidden if the compute stream was not idle waiting for communication.
struct OverlapTimes {
  double seconds = 0;       // seconds of communication
  double hiddenSeconds = 0; // the part of `seconds` that was hidden behind computation
  /// Returns the communication time during which the compute stream was idle.
  double exposedSeconds() const { return seconds - hiddenSeconds; }
};
/// Computes the overlap of each stream's communication with computation, keyed by the stream's name. Communication on
/// the compute stream itself is never hidden.
std::map<std::string, OverlapTimes> overlapOf(const TimeReport &times);
/// Returns the sum of the overlap times of all streams.
OverlapTimes sumOf(const std::map<std::string, OverlapTimes> &streams);

/// One instruction of the last step on the timeline of a rank.
struct Span {
  std::string name;       // name of the model's node that the instruction came from; the op if there is none
  std::string op;         // the instruction's op, "send", "receive" or "wait"
  std::string stream;     // name of the stream that ran the instruction; a wait is always on "compute"
  int64_t microbatch = 0; // index of the microbatch in which the instruction ran, from 0
  double start = 0;       // start of the instruction, in seconds of the machine's steady clock
  double seconds = 0;     // duration of the instruction in seconds
};

/// How an executor runs a program. The results are the same with all options (sums of collectives up to rounding).
struct ExecutorOptions {
  /// False: each value gets memory of its own instead of sharing the arena. Tests of the memory plan
  /// compare against this.
  bool reuseMemory = true;
  /// False: the package's compiled kernels are not used, and their ops run one by one. Tests of code generation
  /// compare against this.
  bool useNative = true;
  /// Whether the bits of collectives' sums must depend on nothing but their operands (CollectiveOptions::ordered).
  /// RunOptions::executor passes it to the device too (DeviceOptions::deterministic).
  bool deterministic = false;
  /// Whether a device that can record steps (Device::record) records them after the first few. The instructions of
  /// recorded steps are not measured.
  bool record = true;
};

/// A rank's local tensor of one argument of the program. An input that is split into microbatches has one piece for
/// each microbatch; any other argument has one piece.
struct ArgumentPiece {
  size_t arg = 0;         // index into Program::args
  int64_t microbatch = 0; // the microbatch of the piece; 0 for an argument that is not split
  TensorView tensor;
};

/// The part of a step that Executor::step runs.
enum class StepKind {
  Step, // the whole step, including the optimizer's update
  /// The part that gradient accumulation needs for each batch of a step except the last one: the loss, the accumulated
  /// gradients and the model's buffers.
  Batch,
  Evaluation // the loss and the other results that replace no argument; no argument changes
};

/// Runs the steps of one rank's program. Executor::create makes one.
class Executor {
public:
  /// Loads the program on a device. The program must have passed checkProgram and have its lists of steps. The program,
  /// the device and the communicator must outlive the executor. Fails if the memory does not suffice, an instruction
  /// cannot be bound, or the number of ranks is not the program's.
  static Result<std::unique_ptr<Executor>> create(const package::Program &program, Device &device,
                                                  Communicator &communicator, const ExecutorOptions &options = {});
  /// Does the same, and puts the executor into `made` where it fails, too. It must live until the ranks have agreed
  /// that the run ends: the communicators that it makes wait for other ranks, and end when the run is aborted.
  static Status createInto(std::unique_ptr<Executor> &made, const package::Program &program, Device &device,
                           Communicator &communicator, const ExecutorOptions &options);
  virtual ~Executor() = default;

  /// Returns the rank's local tensors of the arguments that its pipeline stage has, in the program's order. Their
  /// content stays between steps, and steps update it.
  virtual std::vector<ArgumentPiece> arguments() = 0;
  /// Returns the rank's local tensor of the program's result number `index` after a step; nothing if another pipeline
  /// stage has it.
  virtual std::optional<TensorView> result(size_t index) = 0;
  /// Copies host memory to an argument before the next step starts. `host` must come from Device::allocateHost and must
  /// not change until that step has ended.
  virtual Status feed(const TensorView &argument, const void *host) = 0;

  /// Begins to copy host memory to an input; the input has it after finishFeeds. `host` must come from
  /// Device::allocateHost and must not change before the next waitForFeeds, or the end of the next step, whichever
  /// comes first. Where feedsAhead, the copy runs next to the present step.
  virtual Status startFeed(const TensorView &input, const void *host) = 0;
  /// Makes what startFeed has copied since the last call the content of the inputs, before the next step starts.
  virtual Status finishFeeds() = 0;
  /// Waits until the copies that startFeed has begun have ended.
  virtual Status waitForFeeds() = 0;
  /// Returns whether startFeed may be called while a step runs (Device::copiesBatchesAhead).
  virtual bool feedsAhead() const = 0;

  /// Runs a step, or the part of it that `kind` selects, once. A failure ends the run on all ranks. `meanwhile`, if
  /// there is one, is called after the device has got its work and before this function waits for it.
  virtual Status step(StepKind kind = StepKind::Step, const std::function<void()> &meanwhile = nullptr) = 0;

  /// Returns the memory that this rank uses.
  virtual const MemoryReport &memory() const = 0;
  /// Returns the times of all steps so far.
  virtual TimeReport times() const = 0;
  /// Returns the timeline of the last measured step, by start time.
  virtual std::vector<Span> lastStep() const = 0;
  /// Returns the communication time of the last measured step, and the part of it that was hidden behind computation.
  virtual OverlapTimes lastOverlap() const = 0;
};

/// Computes, without allocating memory, the memory report of a rank of pipeline stage `stage`. The machine that will
/// run the plan need not be present; it is assumed to run all of the program's compiled kernels. The alignment, scratch
/// memory and in-place rules are those of `hardware`. Fails if the program has no such stage.
Result<MemoryReport> planMemory(const package::Program &program, int64_t stage = 0,
                                const PlannedHardware &hardware = {});

} // namespace kerf::runtime
