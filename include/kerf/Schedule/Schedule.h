// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as plain data: in which order each stage runs which microbatch's forward and backward. The cost
// model prices them, passes and the runtime follow them (docs/cost-model.md).
//
//   1f1b, 2 stages, 3 microbatches        stage 0:  F0 F1 B0 F2 B1 B2        stage 1:  F0 B0 F1 B1 F2 B2
//
// With `chunks` > 1 the layers are cut into stages * chunks parts; part c * stages + s is chunk c of stage s.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

enum class TaskKind {
  Forward,
  Backward,       // input gradient and weight gradient in one
  InputGradient,  // what the stage before waits for
  WeightGradient, // nobody waits for it but the optimizer
};
std::string_view toString(TaskKind kind);

struct Task {
  TaskKind kind = TaskKind::Forward;
  int64_t microbatch = 0;
  int64_t chunk = 0;
  bool operator==(const Task &) const = default;
};
/// "F3" or, with more than one chunk, "F3.1": forward of microbatch 3 on chunk 1. B, I and W likewise.
std::string toString(const Task &task, int64_t chunks);

/// The record of each kind in lib/Schedule/Records.cpp says what it is.
enum class ScheduleKind { OneFOneB, Interleaved, ZeroBubbleH1, ZeroBubble1P, ZeroBubble2P, GPipe };

/// What the searched zero-bubble schedules are made for, in any unit; the send is between neighbouring stages.
struct PassDurations {
  double forward = 1, inputGradient = 1, weightGradient = 1, send = 0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int64_t stages = 1;
  int64_t microbatches = 1;
  int64_t chunks = 1; // above 1 for kinds that are `chunked` only
  // For kinds that are `searched` only.
  PassDurations durations;
  /// Of a microbatch's activations, the share that stays from the input gradient to the weight gradient (0 to 1).
  double keptForWeights = 1;
  /// Activations of one microbatch on each stage beside the mean of all; empty: alike. The limit is in means.
  std::vector<double> activations;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int64_t stages = 1, microbatches = 1, chunks = 1;
  /// Weight gradients are tasks of their own. Then a stage starts its next step without waiting for the others (the
  /// optimizer's global checks are made afterwards, Qi et al. 2023 section 4), so that a step takes as long as the
  /// busiest stage's first to last task, not as the first stage's start to the last one's end.
  bool splitBackward = false;
  std::vector<std::vector<Task>> order; // by stage
};

/// Says whether a model in one stage, cut into microbatches, may run under a schedule.
enum class SingleStage {
  Searched,  // a search tries it
  WhenNamed, // only where a plan names it
  Never,
};

/// Everything that the rooms need to know of a schedule. A new one is a kind, a record, and the function that makes its
/// orders.
struct ScheduleRecord {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  std::string_view name,
      variant = {};            // the words of a plan; of several variants of one name the first is the usual one
  bool chunked = false;        // a stage has two or more parts of the model
  bool splitsBackward = false; // as Schedule::splitBackward
  bool searched = false;       // its orders are made for the durations of the tasks
  SingleStage singleStage = SingleStage::Never;
  /// Makes the tasks of each stage, in the order in which it runs them.
  std::vector<std::vector<Task>> (*order)(const ScheduleOptions &options) = nullptr;
  /// Returns the most forwards that a stage runs before its first backward. Null: it may run all of them.
  double (*mostForwardsFirst)(const ScheduleOptions &options, int64_t stage) = nullptr;
  /// Returns how many microbatches a stage holds at least on a chunk, at a moment that is the same for all of its
  /// chunks. Null: one.
  int64_t (*leastInFlight)(const ScheduleOptions &options, int64_t stage, int64_t chunk) = nullptr;
};

/// All schedules, in the order in which a search tries them.
std::span<const ScheduleRecord> schedules();
const ScheduleRecord &recordOf(ScheduleKind kind);
/// Returns the record that has both words of a plan. Without a variant it is the first record of that name. Null: no
/// schedule has these words.
const ScheduleRecord *findSchedule(std::string_view name, std::string_view variant);
/// Returns the schedule of a pipeline for which a plan names none.
const ScheduleRecord &usualSchedule(bool chunked);
/// Returns the number of chunks of a schedule for which a plan says none.
int64_t usualChunks(std::string_view name);
/// Returns the names that a plan may use ("1f1b", "interleaved", ...), each once.
std::vector<std::string_view> scheduleNames();
/// Returns the variants of all schedules ("h1", "1p", ...), each once.
std::vector<std::string_view> scheduleVariants();
/// Returns a schedule as reports write it: "zero-bubble 1p", "interleaved of 2 chunks".
std::string scheduleText(std::string_view name, std::string_view variant, int64_t chunks);

/// Returns the options of the schedule that a plan names by these words; an error where there is no such schedule.
Result<ScheduleOptions> scheduleOptions(std::string_view name, std::string_view variant, int64_t stages,
                                        int64_t microbatches, int64_t chunks);
/// Returns the most forwards that `stage` runs before its first backward, infinity where no limit is known. How many
/// fit under a schedule that is searched depends on `options.activations`.
double mostForwardsFirst(const ScheduleOptions &options, int64_t stage);
/// Returns how many microbatches `stage` holds at least on `chunk`, at a moment that is the same for all its chunks.
int64_t leastInFlight(const ScheduleOptions &options, int64_t stage, int64_t chunk);

/// Always passes check().
Result<Schedule> makeSchedule(const ScheduleOptions &options);

/// Where a task's input comes from and its output goes.
struct StageChunk {
  int64_t stage = 0, chunk = 0;
  bool operator==(const StageChunk &) const = default;
};
std::optional<StageChunk> partBefore(const Schedule &schedule, StageChunk part);
std::optional<StageChunk> partAfter(const Schedule &schedule, StageChunk part);

/// What check() counts, by stage.
struct ScheduleCheck {
  /// Most microbatch-chunks whose activations are held at once: forward begun, backward (or weight gradient) not done.
  std::vector<int64_t> inFlight;
  /// The same until the input gradient is done: what recomputation or the input gradient alone needs.
  std::vector<int64_t> inFlightInputGradient;
};

/// Every task once, a forward before its backward, no deadlock, and between two stages messages are received in the
/// order in which they are sent (one queue per direction and pair of chunks).
Result<ScheduleCheck> check(const Schedule &schedule);

struct TaskTime {
  double start = 0, end = 0;
};
struct ScheduleTimes {
  std::vector<std::vector<TaskTime>> tasks; // as Schedule::order
  double makespan = 0;                      // first start to last end
  double longestStage = 0;                  // the longest of the stages' first start to last end
};
using TaskSeconds = std::function<double(int64_t stage, const Task &task)>;
/// Of the message that leaves `from` with the output of a forward (to the part after) or of an input gradient (to the
/// part before). Not asked for parts of one stage.
using SendSeconds = std::function<double(StageChunk from, const Task &task)>;

/// Each stage runs its tasks one after the other, each as soon as its input is there. The schedule must pass check().
ScheduleTimes runSchedule(const Schedule &schedule, const TaskSeconds &task, const SendSeconds &send);

} // namespace kerf
