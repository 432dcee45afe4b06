// SPDX-License-Identifier: Apache-2.0
// Predicts one training step: seconds, where they go, memory by stage, and a trace. Two streams a stage (compute and
// communication), the microbatches in the order of a schedule. Formulas: docs/cost-model.md.
#pragma once

#include "kerf/CostModel/Pipeline.h"
#include "kerf/CostModel/Recompute.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Schedule/Schedule.h"
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Bytes per parameter element on one rank before optimizer sharding.
struct StateBytes {
  double weight = 2, gradient = 4, states = 12;
};
/// f32 or f64: weight, gradient and the optimizer's moments of the dtype. bf16 or f16: weights of 2 bytes, f32 master
/// weights and moments, gradients of `gradientDtype` (Rajbhandari et al. 2020, section 3.1: 2 + 12 with the two moments
/// of Adam; Korthikanti et al. 2022: f32 gradients, 18 in all).
StateBytes stateBytes(std::string_view dtype, std::string_view gradientDtype, double momentsPerElement);
/// Seconds in which `launches` kernels add a microbatch's gradients of `elements` elements to the sums so far.
double accumulationSeconds(const Device &device, double elements, double launches, const StateBytes &bytes);

struct StepPlan {
  ScheduleOptions schedule;                  // durations are filled in by the simulator
  Recompute recompute = Recompute::None;     // of all layers
  std::vector<LayerModes> recomputeOfPart;   // instead: chunk c of stage s is part c * stages + s
  int optimizerSharding = 0;                 // ZeRO stage 0 to 3
  std::vector<int> optimizerShardingOfStage; // instead, one for each stage
  /// Ranks that share states, of those over which a parameter's gradients are summed; the others have copies. None:
  /// all.
  std::optional<std::vector<AxisRef>> shardingAxes = {};
  /// Instead, where stages have meshes of their own: one for each stage.
  std::vector<std::optional<std::vector<AxisRef>>> shardingAxesOfStage = {};
  Overlap overlap;
  StateBytes bytes;
  TrainerPrices trainer; // of who runs it; the default adds nothing

  LayerModes recomputeAt(int64_t stage, int64_t chunk) const {
    if (recomputeOfPart.empty())
      return {{recompute, std::numeric_limits<int64_t>::max()}};
    return recomputeOfPart[chunk * schedule.stages + stage];
  }
  int optimizerShardingAt(int64_t stage) const {
    return optimizerShardingOfStage.empty() ? optimizerSharding : optimizerShardingOfStage[stage];
  }
  const std::optional<std::vector<AxisRef>> &shardingAxesAt(int64_t stage) const {
    return shardingAxesOfStage.empty() ? shardingAxes : shardingAxesOfStage[stage];
  }
};

struct Breakdown { // seconds of the stage that is busiest; collectives by axis names, "data", "model", "stage"
  double forward = 0, backward = 0, recompute = 0, optimizer = 0;
  std::map<std::string, double> collectives; // on the communication stream or between kernels
  std::map<std::string, double> exposed;     // of those, seconds in which no kernel ran
  double bubble = 0;                         // what is left of the step: waiting for other stages
};

struct StageMemory {
  double weights = 0, gradients = 0, states = 0; // all step long
  double activations = 0, workspace = 0;         // at the peak
  double peakBytes = 0;                          // allocated: the sum of the five
  double reservedBytes = 0;                      // with the allocator's allowance for fragmentation
  double deviceBytes = 0;                        // with what the driver and libraries keep: what the device must have
  double limitBytes = 0;                         // that the stage's device has
  std::string moment;                            // "backward of microbatch 3": when the peak is
  std::vector<std::pair<std::string, double>> largest; // tensors at the peak, the largest first
};

struct TraceEvent {
  int64_t stage = 0;
  bool communication = false; // stream
  std::string name;
  double start = 0, seconds = 0;
  // Of the compute stream's tasks of a microbatch:
  std::optional<Task> task = {};
  double recompute = 0, waiting = 0;      // of its seconds: computing again; no kernel running
  double bytesDuring = 0, bytesAfter = 0; // that the device must have at most while it runs, and when it is done
};

struct Simulation {
  double stepSeconds = 0;
  Breakdown breakdown;
  std::vector<StageMemory> memory; // by stage
  bool fits = true;
  double tokensPerSecond = 0;
  double modelFlopsUtilization = 0; // of all ranks' peak in the work's dtype
  std::vector<TraceEvent> trace;    // filled when asked for
};

/// Returns the bytes that the fullest device needs.
double mostBytes(const Simulation &simulation);

enum class Trace { No, Yes };

/// Refuses plans that contradict the work (stages, chunks) or a schedule that cannot be.
Result<Simulation> simulate(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                            Trace trace = Trace::No);
/// On ranks that are all alike.
inline Result<Simulation> simulate(const StepWork &work, const StepPlan &plan, const CollectiveModel &collectives,
                                   Trace trace = Trace::No) {
  return simulate(work, plan, PipelineModel(collectives), trace);
}

/// With what the receiver still gathers.
double messageSeconds(const PipelineModel &pipeline, int64_t from, int64_t to, const StageMessage &message);

/// A lower bound of Simulation::stepSeconds without walking through the schedule: every stage's tasks, the way of the
/// first microbatch to it and of the last one back, what follows. 0 for what `simulate` refuses.
double leastStepSeconds(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline);

/// What that bound takes of one stage; seconds that are too small leave it a bound.
struct StageSeconds {
  double busy = 0;                  // all its tasks
  double forward = 0, backward = 0; // of one microbatch on chunk 0 (backward: until its input gradient is there)
  double warmup = 0;                // most forwards before its first backward; infinite: not known
  double sendOn = 0, sendBack = 0;  // messages to the neighbours
  double after = 0;                 // that its last task leaves to be done
};
double leastPipelineSeconds(const std::vector<StageSeconds> &stages, const ScheduleOptions &schedule,
                            bool sendsOverlap);

/// Chrome's trace format (chrome://tracing, Perfetto): a process per stage, a thread per stream, microseconds.
std::string chromeTrace(const Simulation &simulation);

} // namespace kerf
