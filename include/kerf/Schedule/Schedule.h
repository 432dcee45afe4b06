// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as plain data: the order in which each pipeline stage runs the forward and backward passes of the
// microbatches. The cost model prices a schedule, and the compiler and the runtime follow it (docs/cost-model.md).
//
//   1f1b, 2 stages, 3 microbatches        stage 0:  F0 F1 B0 F2 B1 B2        stage 1:  F0 B0 F1 B1 F2 B2
//
// With `chunks` > 1 the layers are cut into stages * chunks parts; part c * stages + s is chunk c of stage s.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// The kinds of tasks of a pipeline stage. A schedule either has Backward tasks, or splits each backward pass into an
/// InputGradient and a WeightGradient task.
enum class TaskKind : int8_t {
  Forward,        // forward pass
  Backward,       // complete backward pass: input gradient and weight gradient
  InputGradient,  // first half of a split backward: the gradient that the previous stage waits for
  WeightGradient, // second half of a split backward: gradients of the weights, which only the optimizer waits for
};
/// Returns the name of a kind of task: "forward", "backward", "input-gradient" or "weight-gradient".
std::string_view toString(TaskKind kind);

/// A unit of work of a pipeline stage: one pass of one microbatch through one chunk of the stage's layers.
struct Task {
  Task() = default;
  Task(TaskKind kind, int64_t microbatch, int64_t chunk)
      : microbatch(static_cast<int32_t>(microbatch)), chunk(static_cast<int16_t>(chunk)), kind(kind) {}
  // Schedules have millions of tasks; makeSchedule refuses numbers that these types do not hold.
  int32_t microbatch = 0;            // index of the microbatch, from 0
  int16_t chunk = 0;                 // index of the chunk of the stage, from 0
  TaskKind kind = TaskKind::Forward; // forward, backward, or half of a backward
  bool operator==(const Task &) const = default;
};
/// Returns a short name of a task: F (forward), B (backward), I (input gradient) or W (weight gradient), then the
/// microbatch and, if a stage has several chunks, the chunk. "F3.1" is the forward of microbatch 3 on chunk 1.
std::string toString(const Task &task, int64_t chunks);

/// The pipeline schedules that Kerf has. The records in lib/Schedule/Records.cpp describe each one.
enum class ScheduleKind { OneFOneB, Interleaved, ZeroBubbleH1, ZeroBubble1P, ZeroBubble2P, ZeroBubbleByMemory, GPipe };

/// Durations of the tasks of one microbatch, for which the zero-bubble schedules are optimized. Only their ratios
/// matter, so that any unit of time may be used.
struct PassDurations {
  double forward = 1;        // duration of the forward of one microbatch, in any unit of time that all fields share
  double inputGradient = 1;  // duration of the first half of a split backward, in the unit of `forward`
  double weightGradient = 1; // duration of the second half of a split backward, in the unit of `forward`
  double send = 0;           // duration of a message between neighbouring stages, in the unit of `forward`
};

/// The input of makeSchedule: the kind of schedule and its parameters.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::OneFOneB; // kind of schedule to compute
  int64_t stages = 1;                         // number of pipeline stages
  int64_t microbatches = 1;                   // number of microbatches of a step
  int64_t chunks = 1; // model chunks per stage; above 1 only for schedules whose record is `chunked`
  // The fields below are read only for schedules whose record is `searched`.
  /// Durations on each stage, for which the order is optimized. A single one is that of all stages.
  std::vector<PassDurations> durations = {PassDurations()};
  /// Activations on each stage that stay in memory between a microbatch's input gradient and its weight gradient,
  /// divided by those between its forward and its input gradient; above 1 where they are recomputed. A single share is
  /// that of all stages.
  std::vector<double> weightGradientShare = {1};
  /// Activation memory of one microbatch on each stage, divided by the mean over all stages; empty means that all
  /// stages need the same. The schedule's memory limit counts in units of this mean.
  std::vector<double> activations = {};
  /// The most microbatches whose activations each stage holds, besides the schedule's memory limit; a microbatch that
  /// waits for its weight gradient counts as `weightGradientShare`. A single number is that of all stages; empty: there
  /// is only the schedule's limit.
  std::vector<int64_t> inFlight = {};
  /// The longest time from the first to the last task of one stage, in the unit of `durations`, must be below this.
  /// The search ends as soon as it is clear that no order takes less.
  double shorterThan = std::numeric_limits<double>::infinity();
};

/// A pipeline schedule: the order of the tasks of every stage.
struct Schedule {
  ScheduleKind kind = ScheduleKind::OneFOneB;       // kind of the schedule
  int64_t stages = 1, microbatches = 1, chunks = 1; // pipeline stages, microbatches of a step, model chunks per stage
  /// Whether backward passes are split into input-gradient and weight-gradient tasks. If so, a stage starts its next
  /// step without waiting for the other stages, because the optimizer's global checks are made afterwards (Qi et al.
  /// 2023, section 4). The step then takes as long as the longest time from the first to the last task of one stage,
  /// instead of the time from the first task of the first stage to the last task of any stage.
  bool splitBackward = false;
  std::vector<std::vector<Task>> order; // by stage: its tasks in execution order
};

/// Whether a model in a single pipeline stage may be cut into microbatches and run under a
/// schedule (gradient accumulation).
enum class SingleStage {
  Searched,  // yes, and a search for the best plan tries it
  WhenNamed, // yes, but only if a plan names the schedule
  Never,     // no: the schedule needs two or more stages
};

/// Everything that Kerf needs to know about one schedule. A new schedule consists of a ScheduleKind, a record, and the
/// function that computes the order of its tasks.
struct ScheduleRecord {
  ScheduleKind kind = ScheduleKind::OneFOneB; // kind that the record describes
  std::string_view name;                      // the plan's "schedule": "1f1b", "interleaved", "zero-bubble", "gpipe"
  /// The plan's variant: "h1", "1p", "2p", "by-memory"; the first record of a name is its default.
  std::string_view variant = {};
  bool chunked = false;        // whether a stage holds two or more chunks of the model
  bool splitsBackward = false; // value of Schedule::splitBackward
  bool searched = false;       // whether the order is computed by a search for the durations of the tasks
  /// If so: microbatches that a stage may hold, divided by the number of stages; 0: as many as fit into its memory.
  int64_t heldPerStage = 0;
  bool whenNamed = false; // whether a search for the best plan tries it only if a plan names its variant
  bool steady = false;    // whether withFewMicrobatches may leave out microbatches
  SingleStage singleStage = SingleStage::Never; // whether a model in one stage may use the schedule
  /// Returns the tasks of each stage in execution order.
  std::vector<std::vector<Task>> (*order)(const ScheduleOptions &options) = nullptr;
  /// Returns the largest number of microbatches at once whose forward has begun on a stage of one chunk and whose
  /// backward, up to its input gradient, has not ended. Null: there is no limit.
  double (*maxInFlight)(const ScheduleOptions &options, int64_t stage) = nullptr;
  /// Returns a lower bound of the number of microbatches in flight on a chunk, at a moment that is the same for all
  /// chunks of the stage. Null: the bound is 1.
  int64_t (*minInFlight)(const ScheduleOptions &options, int64_t stage, int64_t chunk) = nullptr;
};

/// Returns the records of all schedules, in the order in which a search tries them.
std::span<const ScheduleRecord> schedules();
/// Returns the record of a kind of schedule.
const ScheduleRecord &recordOf(ScheduleKind kind);
/// Returns the record of the schedule with this name and variant, or null if there is none. An empty variant selects
/// the default variant of the name.
const ScheduleRecord *findSchedule(std::string_view name, std::string_view variant);
/// Returns the schedule of a pipeline for which a plan names none; `chunked` says whether a stage has several chunks.
const ScheduleRecord &defaultSchedule(bool chunked);
/// Returns the number of chunks per stage for a plan that names the schedule `name` but no number of chunks: 2 for
/// schedules that need chunks, otherwise 1.
int64_t defaultChunkCount(std::string_view name);
/// Returns the names of all schedules ("1f1b", "interleaved", ...), each once.
std::vector<std::string_view> scheduleNames();
/// Returns the variants of all schedules ("h1", "1p", ...), each once.
std::vector<std::string_view> scheduleVariants();
/// Returns the description of a schedule in reports: "zero-bubble 1p", "interleaved of 2 chunks".
std::string scheduleText(std::string_view name, std::string_view variant, int64_t chunks);

/// Returns the options of the schedule that a plan describes by these words and numbers. Fails if there is no schedule
/// of this name, or if the schedule has no such variant.
Result<ScheduleOptions> scheduleOptions(std::string_view name, std::string_view variant, int64_t stages,
                                        int64_t microbatches, int64_t chunks);
/// Returns the largest number of microbatches at once whose forward has begun on `stage` and whose backward, up to its
/// input gradient, has not ended; infinity if no limit is known. For stages of one chunk. For schedules that are
/// searched, the number depends on `options.activations`.
double maxInFlight(const ScheduleOptions &options, int64_t stage);
/// Returns the largest number of microbatches at once that a stage of a searched schedule may hold, in units of the
/// mean over all stages (ScheduleOptions::activations); infinity where only memory limits it.
double searchedLimit(const ScheduleOptions &options);
/// Returns a lower bound of the number of microbatches that are in flight on `chunk` of `stage`, at a moment that is
/// the same for all chunks of the stage. The bound is used to reject plans that cannot fit into memory. For schedules
/// that are searched, it is 1 as long as `options.activations` is empty.
int64_t minInFlight(const ScheduleOptions &options, int64_t stage, int64_t chunk);

/// Returns options with as few microbatches as show every situation of a stage's memory: with more, a steady schedule
/// only repeats them. Returns the options themselves for schedules that are not steady.
ScheduleOptions withFewMicrobatches(ScheduleOptions options);

/// Computes the order of all tasks. Fails if a number is out of range (for example 0 stages, or chunks for a schedule
/// that has none), if the schedule would have more than 16 million tasks, or if no order takes less time than
/// `options.shorterThan`. The returned schedule passes check().
Result<Schedule> makeSchedule(const ScheduleOptions &options);

/// One of the stages * chunks parts of the model: chunk `chunk` of stage `stage`.
struct StageChunk {
  int64_t stage = 0, chunk = 0; // indices of the pipeline stage and of its chunk, from 0
  bool operator==(const StageChunk &) const = default;
};
/// Returns the part of the model that comes directly before `part` (its forwards send activations to `part`), or
/// nothing for the first part.
std::optional<StageChunk> partBefore(const Schedule &schedule, StageChunk part);
/// Returns the part of the model that comes directly after `part`, or nothing for the last part.
std::optional<StageChunk> partAfter(const Schedule &schedule, StageChunk part);

/// The numbers that check() counts for each stage.
struct ScheduleCheck {
  /// By stage: the largest number of (microbatch, chunk) pairs whose activations are in memory at once, from the start
  /// of the forward to the end of the backward (of the weight gradient if the backward is split).
  std::vector<int64_t> inFlight;
  /// By stage: as `inFlight`, but only until the end of the input gradient. This counts the activations that
  /// recomputation, or the input gradient alone, needs.
  std::vector<int64_t> inFlightInputGradient;
};

/// Checks that a schedule is correct and counts its microbatches in flight. Fails unless every task occurs once, every
/// forward precedes its backward, the stages do not deadlock, and messages between two stages are received in the order
/// in which they are sent (there is one queue per direction and pair of chunks).
Result<ScheduleCheck> check(const Schedule &schedule);

/// The start and the end of one task in a timeline.
struct TaskTime {
  double start = 0, end = 0; // seconds after the start of the step
};
/// The timeline of a schedule.
struct ScheduleTimes {
  std::vector<std::vector<TaskTime>> tasks; // times of the tasks, indexed as Schedule::order
  double makespan = 0;                      // seconds from the first start to the last end over all stages
  double longestStageSpan = 0;              // seconds from first start to last end of the stage where this is longest
};
/// A function that returns the seconds that `stage` needs for `task`.
using TaskSeconds = std::function<double(int64_t stage, const Task &task)>;
/// A function that returns the seconds of the message that the part `from` sends after `task`: the output of a forward
/// goes to the part after, an input gradient to the part before. It is not called for messages within one stage.
using SendSeconds = std::function<double(StageChunk from, const Task &task)>;

/// Computes when each task starts and ends if every stage runs its tasks in order, each as soon as its input has
/// arrived. The schedule must pass check().
ScheduleTimes runSchedule(const Schedule &schedule, const TaskSeconds &task, const SendSeconds &send);

} // namespace kerf
