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

enum class ScheduleKind { GPipe, OneFOneB, Interleaved, ZeroBubble };
enum class ZeroBubbleVariant {
  H1,       // written by hand: the memory of 1F1B, a third of its bubble when the three passes take the same time
  OneLimit, // "1p": searched for the durations given, with the activations of `stages` microbatches
  TwoLimit, // "2p": the same with twice as many: (nearly) no bubble
};

/// What the searched zero-bubble schedules are made for, in any unit; the send is between neighbouring stages.
struct PassDurations {
  double forward = 1, inputGradient = 1, weightGradient = 1, send = 0;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  ZeroBubbleVariant variant = ZeroBubbleVariant::H1;
  int64_t stages = 1;
  int64_t microbatches = 1;
  int64_t chunks = 1; // interleaved only
  // Zero-bubble 1p and 2p only.
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

/// "gpipe", "1f1b", "interleaved", "zero-bubble" with variant "h1", "1p", "2p" ("" is h1), as a plan writes them.
Result<ScheduleOptions> scheduleOptions(std::string_view name, std::string_view variant, int64_t stages,
                                        int64_t microbatches, int64_t chunks);
std::string_view toString(ScheduleKind kind);

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
