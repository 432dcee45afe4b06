// SPDX-License-Identifier: Apache-2.0
// One rank's program, loaded: its memory planned and allocated, its kernels and collectives bound. A step then only
// runs them.
#pragma once

#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Device.h"
#include <map>

namespace kerf::runtime {

/// Bytes on one rank. Gradients and activations are what is alive at the step's fullest moment.
struct MemoryReport {
  int64_t parametersBytes = 0;  // parameters, buffers and constants
  int64_t statesBytes = 0;      // of the optimizer
  int64_t inputsBytes = 0;      // the batch, learning rate and step
  int64_t gradientsBytes = 0;   // what optimizer updates consume
  int64_t activationsBytes = 0; // everything else in the arena, scratch included
  int64_t peakLiveBytes = 0;    // of the arena: no plan could need less
  int64_t arenaBytes = 0;       // its real size
  int64_t persistentBytes = 0;  // real size of what stays between steps
  int64_t hostBytes = 0;        // of activations in the host's memory; no part of the total
  int64_t totalBytes() const { return arenaBytes + persistentBytes; }
};

/// Sums over the steps so far (and the microbatches of each), on one rank. What a stage sends another is told as
/// "send", on the other side as "receive".
struct CollectiveTime {
  std::string op, name, cause, stream;
  int64_t bytes = 0; // of the operands, in one microbatch
  int64_t calls = 0;
  double seconds = 0;     // from its start on its stream to its end: waiting for slower ranks included
  double waitSeconds = 0; // in which the compute stream stood still for it
};
struct KernelTime {
  std::string op;
  int64_t calls = 0;
  double seconds = 0;
};
struct TimeReport {
  int64_t steps = 0;
  double stepSeconds = 0, computeSeconds = 0, waitSeconds = 0;
  std::vector<KernelTime> kernels;         // by op, slowest first
  std::vector<CollectiveTime> collectives; // in order of the program
};

/// Seconds of collectives and messages between stages: under way, and of these hidden, in which the compute stream did
/// not stand still for them.
struct Overlap {
  double seconds = 0, hiddenSeconds = 0;
  double exposedSeconds() const { return seconds - hiddenSeconds; }
};
/// By stream. What the compute stream does itself is not hidden.
std::map<std::string, Overlap> overlapOf(const TimeReport &times);
Overlap sumOf(const std::map<std::string, Overlap> &streams);

/// One instruction of the last step, as it ran.
struct Span {
  std::string name, op, stream; // stream: "compute" or a collective's; a wait for one is on "compute"
  int64_t microbatch = 0;
  double start = 0, seconds = 0; // by the machine's steady clock
};

struct ExecutorOptions {
  /// Off: every value has memory of its own. The oracle of the memory plan's tests.
  bool reuseMemory = true;
  /// Off: kernels run op by op although there is code for them. The oracle of its tests.
  bool useNative = true;
  /// Sums of collectives have bits that depend on nothing but their operands (CollectiveOptions::ordered).
  bool deterministic = false;
};

/// An argument that a rank has: one tensor, or one for each microbatch of an input that is cut by them.
struct ArgumentPiece {
  size_t arg = 0; // of the program
  int64_t microbatch = 0;
  TensorView tensor;
};

/// How much of a step is run: all of it (Step); of a step of several batches what a batch before the last one needs
/// (the loss, the sums of gradients, the model's buffers); the loss and other results that replace no argument alone.
enum class StepKind { Step, Batch, Evaluation };

class Executor {
public:
  /// `program` must have passed checkProgram and have its lists of steps; it, `device` and `communicator` must outlive
  /// the executor.
  static Result<std::unique_ptr<Executor>> create(const package::Program &program, Device &device,
                                                  Communicator &communicator, const ExecutorOptions &options = {});
  virtual ~Executor() = default;

  /// The rank's local tensors of the arguments that its stage has, in the program's order. Their content stays, and is
  /// updated by steps.
  virtual std::vector<ArgumentPiece> arguments() = 0;
  /// The rank's local tensor of a result after a step; none where another stage has it.
  virtual std::optional<TensorView> result(size_t index) = 0;
  /// Copies to an argument before the next step does anything. `host` is memory of Device::allocateHost, which stays as
  /// it is until that step has ended.
  virtual Status feed(const TensorView &argument, const void *host) = 0;
  /// Runs the instructions of that kind of step once, and the updates of arguments that belong to it. A failure has
  /// ended the other ranks too. Times of evaluations are not counted.
  virtual Status step(StepKind kind = StepKind::Step) = 0;

  virtual const MemoryReport &memory() const = 0;
  virtual TimeReport times() const = 0;
  virtual std::vector<Span> lastStep() const = 0;
  virtual Overlap lastOverlap() const = 0;
};

/// Returns what the memory report of the executor of a stage's ranks will say, without its memory: for plans of
/// machines that are not here, whose processors run the program's code. `device`: as createDevice takes it; its
/// alignment, scratch and in-place rules count.
Result<MemoryReport> planMemory(const package::Program &program, int64_t stage = 0,
                                std::string_view device = kDefaultDevice);

} // namespace kerf::runtime
