// SPDX-License-Identifier: Apache-2.0
// Prediction of one training step: its seconds and where they go, the memory of each pipeline stage, and a timeline.
// Each stage has a compute stream and a communication stream and runs the microbatches in the order of a pipeline
// schedule. Formulas: docs/cost-model.md.
#pragma once

#include "kerf/Compression/Sync.h"
#include "kerf/CostModel/Pipeline.h"
#include "kerf/CostModel/Recompute.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/CostModel/Uncertainty.h"
#include "kerf/Schedule/Schedule.h"
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kerf {

/// Bytes of memory per parameter element on one rank, before optimizer sharding.
struct StateBytes {
  double weight = 2;     // bytes of the weight that the kernels read
  double gradient = 4;   // bytes of the accumulated gradient
  double states = 12;    // bytes of the optimizer's states on the device: f32 master weight and moments
  double hostStates = 0; // bytes of the optimizer's states in the host's memory, where the host updates them
  /// Whether the update reads gradients in their own type, and the 16-bit weights in place of a part of the master
  /// weights (every OptimizerStates but Device).
  bool readsWeights = false;
};
/// Returns the bytes per parameter element for training in the element type `dtype` with an optimizer that keeps
/// `momentsPerElement` moments (2 for Adam). In f32 and f64, weight, gradient and moments have the size of the
/// type. In bf16, f16 and f8, weights have 2 bytes, master weights and moments are f32, and gradients have
/// `gradientDtype` (Rajbhandari et al. 2020, section 3.1: 2 + 12 bytes with Adam; Korthikanti et al. 2022: with f32
/// gradients 18 bytes). `states` other than Device are for the types of 16 bits.
StateBytes stateBytes(std::string_view dtype, std::string_view gradientDtype, double momentsPerElement,
                      OptimizerStates states = OptimizerStates::Device);
/// Returns the seconds in which a device's gradients of `elements` elements go to the host, the host updates the states
/// there, and the weights come back. The copies run beside the update.
double hostUpdateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes);
/// Returns the seconds in which the optimizer updates `elements` elements on a device by memory traffic, with
/// hostUpdateSeconds where states are in the host's memory.
double updateSeconds(const DeviceSpec &device, double elements, const StateBytes &bytes, const UpdateKernel &update);
/// Returns the seconds in which `launches` kernels add one microbatch's gradients, `elements` elements in all, to the
/// gradients that are accumulated so far. `bytes` gives the bytes of an element of a weight and of a gradient.
double accumulationSeconds(const DeviceSpec &device, double elements, double launches, const StateBytes &bytes);
/// Returns the seconds by which `computeSeconds` of kernels become slower when `communicationSeconds` of collectives
/// run beside them (docs/cost-model.md, "The step").
double contentionSeconds(double computeSeconds, double communicationSeconds);
/// Returns the share of a stage's forwards that run beside a backward of another microbatch under Overlap::experts, and
/// as many backwards: all but those that fill and drain the pipeline (the first stage's), or the first forward
/// without a pipeline.
double pairedShare(const ScheduleOptions &schedule);

/// How each gradient of a part is synchronized.
using GradientChoices = std::vector<compression::SyncChoice>;

/// The decisions of a plan that the cost of a step depends on, besides the sharding that the StepWork already contains.
struct StepPlan {
  ScheduleOptions schedule;              // pipeline schedule; simulate() fills in its durations
  const Schedule *order = nullptr;       // the order of its tasks, if it is known; null: simulate() computes it
  Recompute recompute = Recompute::None; // recomputation mode of all layers, unless `recomputeOfPart` is set
  /// Recomputation modes of the layers of each part; chunk c of stage s is part c * stages + s. Empty: see `recompute`.
  std::vector<LayerModes> recomputeOfPart;
  int optimizerSharding = 0; // ZeRO stage, 0 to 3, of all pipeline stages, unless `optimizerShardingOfStage` is set
  std::vector<int> optimizerShardingOfStage; // ZeRO stage of each pipeline stage; empty: see `optimizerSharding`
  /// Mesh axes over which ZeRO shards the states, a subset of the axes over which gradients are summed; ranks along the
  /// other axes keep copies. Not set: all axes over which gradients are summed.
  std::optional<std::vector<AxisRef>> shardingAxes = {};
  /// As `shardingAxes`, one entry for each pipeline stage. Set only if the stages have meshes of their own.
  std::vector<std::optional<std::vector<AxisRef>>> shardingAxesOfStage = {};
  Overlap overlap;       // communication that runs at the same time as compute
  StateBytes bytes;      // bytes per parameter element
  TrainerPrices trainer; // costs that the training program adds to those of the hardware; the default adds none
  /// How the gradients of each part are synchronized; chunk c of stage s is part c * stages + s, and its entry has one
  /// element for each gradient, in the order of gradientsOf() (CompressedGradients.h). Empty: nothing is compressed.
  std::vector<GradientChoices> compressionOfPart = {};

  /// Returns the recomputation modes of the layers of chunk `chunk` of stage `stage`.
  LayerModes recomputeAt(int64_t stage, int64_t chunk) const {
    if (recomputeOfPart.empty())
      return {{recompute, std::numeric_limits<int64_t>::max()}};
    return recomputeOfPart[chunk * schedule.stages + stage];
  }
  /// Returns how the gradients of chunk `chunk` of stage `stage` are synchronized; null: none is compressed.
  const GradientChoices *compressionAt(int64_t stage, int64_t chunk) const {
    return compressionOfPart.empty() ? nullptr : &compressionOfPart[chunk * schedule.stages + stage];
  }
  /// Returns the ZeRO stage (0 to 3) of pipeline stage `stage`.
  int optimizerShardingAt(int64_t stage) const {
    return optimizerShardingOfStage.empty() ? optimizerSharding : optimizerShardingOfStage[stage];
  }
  /// Returns the mesh axes over which pipeline stage `stage` shards optimizer states; see `shardingAxes`.
  const std::optional<std::vector<AxisRef>> &shardingAxesAt(int64_t stage) const {
    return shardingAxesOfStage.empty() ? shardingAxes : shardingAxesOfStage[stage];
  }
};

/// The seconds of a step by cause, on the busiest pipeline stage.
struct Breakdown {
  double forward = 0, backward = 0, recompute = 0, optimizer = 0; // compute seconds; recompute: recomputed forwards
  /// Seconds of collectives and messages, overlapped or not, by the mesh axes they run over ("data", "model", "stage").
  std::map<std::string, double> collectives;
  /// Seconds of collectives and messages during which no kernel runs, by the mesh axes as in `collectives`.
  std::map<std::string, double> exposed;
  double bubble = 0; // remaining seconds of the step, in which the stage waits for other stages
};

/// The memory of one rank of a pipeline stage, in bytes, at the moment at which the stage needs the most.
struct StageMemory {
  double weights = 0, gradients = 0, states = 0; // bytes that stay allocated for the complete step
  double activations = 0;                        // activations of the microbatches in flight
  double workspace = 0;     // temporary tensors of the running pass, recomputed activations and gathered parameters
  double peakBytes = 0;     // allocated bytes: the sum of the five fields above
  double reservedBytes = 0; // peakBytes plus what the allocator loses to fragmentation
  double deviceBytes = 0;   // reservedBytes plus the memory of driver and libraries: what the device must have
  double limitBytes = 0;    // bytes that the stage's device has
  std::string moment;       // the task that runs at the peak: "backward of microbatch 3"
  std::vector<std::pair<std::string, double>> largest; // largest tensors at the peak with their bytes, largest first
};

/// One event of the timeline.
struct TraceEvent {
  int64_t stage = 0;             // pipeline stage
  bool communication = false;    // whether the event is on the communication stream; false: on the compute stream
  std::string name;              // label of the event, for example "F3" or "send F3"
  double start = 0, seconds = 0; // seconds from the start of the step, and duration in seconds
  std::optional<Task> task = {}; // the schedule's task; not set for other events. The fields below belong to a task
  double recompute = 0;          // seconds of the event that recompute forward kernels
  double waiting = 0;            // seconds of the event in which no kernel runs
  double bytesDuring = 0;        // largest number of bytes that the device must have while the task runs
  double bytesAfter = 0;         // bytes that the device must have when the task has ended
};

/// The predicted training step.
struct Simulation {
  double stepSeconds = 0;                 // seconds of one step
  Breakdown breakdown;                    // the seconds of the step by cause
  std::vector<StageMemory> memory;        // memory of each pipeline stage
  bool fits = true;                       // whether every stage needs at most the memory that its device has
  double tokensPerSecond = 0;             // tokens of a global batch divided by the seconds of a step
  double modelFlopsUtilization = 0;       // model FLOPs utilization: a share of the peak FLOP/s of all ranks, 0 to 1
  std::vector<TraceEvent> trace;          // the timeline; empty unless it was requested
  Schedule schedule;                      // the order of the tasks of each stage that the figures are for
  std::optional<Uncertainty> uncertainty; // how sure the prediction is; simulate() does not compute it
};

/// Returns the largest StageMemory::deviceBytes of all pipeline stages.
double maxDeviceBytes(const Simulation &simulation);

/// Whether simulate() records the timeline.
enum class Trace { No, Yes };

/// Predicts one training step. Fails if the plan contradicts the work (for example in its number of stages or chunks),
/// or if its schedule is impossible. Where the schedule's order is searched for, it also fails as soon as it is clear
/// that the step takes at least `below` seconds; a step that takes less is the same for every `below`.
Result<Simulation> simulate(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                            Trace trace = Trace::No, double below = std::numeric_limits<double>::infinity());
/// Predicts one training step on a cluster where all ranks have the same device; fails as the function above does.
inline Result<Simulation> simulate(const StepWork &work, const StepPlan &plan, const CollectiveModel &collectives,
                                   Trace trace = Trace::No) {
  return simulate(work, plan, PipelineModel(collectives), trace);
}

/// Returns the microbatches that each stage of a schedule whose order is searched may hold (ScheduleOptions::inFlight)
/// within `memoryLimits`, the bytes of each stage's device: as many as fit, and at least those that the schedule
/// promises (minInFlight). Empty where all that the schedule may hold fit.
std::vector<int64_t> inFlightThatFits(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                                      std::span<const double> memoryLimits);

/// Returns the seconds of a message from pipeline stage `from` to stage `to`, including the collectives with which the
/// receiving ranks gather what each of them received.
double messageSeconds(const PipelineModel &pipeline, int64_t from, int64_t to, const StageMessage &message);

/// Computes lower bounds of Simulation::stepSeconds without a simulation of the schedule, for a plan under several
/// choices of what it recomputes. The object prices what these choices share only once.
class StepBounds {
public:
  /// The references must outlive the object.
  StepBounds(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline);
  ~StepBounds();
  /// Returns the bound for the plan as it is now; only its `recompute` and `recomputeOfPart` may have changed since the
  /// object was made. The bound is the maximum over all stages of: the time until the first microbatch arrives, all
  /// tasks of the stage, the way of the last microbatch back to the first stage, and what follows the last task.
  /// Returns 0 if simulate() would fail. `memoryLimits` has the bytes that the plan may use on the device of each
  /// stage; empty: any number. The bound holds only for plans that fit.
  double seconds(std::span<const double> memoryLimits = {});

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The seconds of one pipeline stage that the lower bound of a step is computed from. Values that are too small still
/// give a valid lower bound.
struct StageSeconds {
  double busy = 0;     // seconds of all tasks of the stage
  double forward = 0;  // seconds of the forward of one microbatch on chunk 0
  double backward = 0; // seconds of the backward of one microbatch on chunk 0, up to its input gradient
  double warmup = 0;   // seconds of the forwards before the first backward, at most; infinity: not known
  /// The largest number of microbatches at once whose forward has begun and whose backward, up to its input gradient,
  /// has not ended, for stages of one chunk; infinity: not known.
  double inFlight = std::numeric_limits<double>::infinity();
  /// A limit of the microbatches that a stage of one chunk holds.
  struct Holding {
    double most = std::numeric_limits<double>::infinity(); // microbatches; infinity: not known
    /// Seconds of the weight gradient of one microbatch, multiplied by what a microbatch that waits for it counts.
    /// Before its input gradient each microbatch counts as one.
    double waiting = 0;
  };
  Holding ofMemory, ofSchedule; // the limit of the stage's memory, and that of a schedule whose order is searched
  double sendForward = 0;       // seconds of a message with activations to the next stage
  double sendBackward = 0;      // seconds of a message with gradients to the previous stage
  double after = 0;             // seconds of the reductions of gradients that still run after the stage's last task
};
/// Returns the limit of a schedule whose order is searched; `schedule` has the activations. `waitingShare` is as
/// ScheduleOptions::weightGradientShare, and `weightGradient` are the seconds of a weight gradient.
StageSeconds::Holding holdingOfSchedule(const ScheduleOptions &schedule, int64_t stage, double waitingShare,
                                        double weightGradient);
/// Returns a lower bound of the seconds of a pipeline's tasks and messages, without the optimizer. `stages` has one
/// entry for each stage. `sendsOverlap` says whether messages run at the same time as compute.
double pipelineSecondsLowerBound(const std::vector<StageSeconds> &stages, const ScheduleOptions &schedule,
                                 bool sendsOverlap);

/// Returns the timeline in Chrome's trace format (for chrome://tracing or Perfetto), in microseconds, with a process
/// for each pipeline stage and a thread for each of its two streams.
std::string chromeTrace(const Simulation &simulation);

} // namespace kerf
