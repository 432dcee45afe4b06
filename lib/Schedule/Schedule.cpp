// SPDX-License-Identifier: Apache-2.0
// Names, the orders that are written by hand, and the start-to-end times of any order.
//
// Huang et al., "GPipe" (2019); Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM" (SC21) for 1F1B and interleaved 1F1B.
#include "kerf/Schedule/Schedule.h"
#include "Internal.h"
#include <algorithm>
#include <fmt/format.h>

using namespace kerf;

namespace {

constexpr int64_t kMaxTasks = int64_t(1) << 24; // 16 M tasks: 0.4 GB of orders; nobody means more

std::vector<Task> gpipe(int64_t microbatches) {
  std::vector<Task> order;
  for (TaskKind kind : {TaskKind::Forward, TaskKind::Backward})
    for (int64_t m = 0; m < microbatches; ++m)
      order.push_back({kind, m, 0});
  return order;
}

/// `warmup` forwards, then one forward and one backward in turn, then the backwards that are left.
std::vector<Task> oneForwardOneBackward(const std::vector<Task> &forwards, const std::vector<Task> &backwards,
                                        int64_t warmup) {
  std::vector<Task> order(forwards.begin(), forwards.begin() + warmup);
  size_t next = warmup;
  for (const Task &backward : backwards) {
    if (next < forwards.size())
      order.push_back(forwards[next++]);
    order.push_back(backward);
  }
  return order;
}

/// Microbatches go through the chunks in groups of about `stages`, so that a group comes back from the last stage when
/// the first one has sent the whole group: sizes differ by at most one and are at least `stages` (where there are so
/// many), the larger ones first.
std::vector<int64_t> groupSizes(int64_t stages, int64_t microbatches) {
  int64_t groups = std::max<int64_t>(1, microbatches / stages);
  std::vector<int64_t> sizes(groups, microbatches / groups);
  for (int64_t g = 0; g < microbatches % groups; ++g)
    ++sizes[g];
  return sizes;
}

std::vector<Task> interleaved(int64_t stage, int64_t stages, int64_t microbatches, int64_t chunks) {
  std::vector<Task> forwards, backwards;
  std::vector<int64_t> sizes = groupSizes(stages, microbatches);
  int64_t first = 0;
  for (int64_t size : sizes) {
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t m = first; m < first + size; ++m) {
        forwards.push_back({TaskKind::Forward, m, c});
        backwards.push_back({TaskKind::Backward, m, chunks - 1 - c});
      }
    first += size;
  }
  // Megatron-LM's count: twice the way to the last stage, and all chunks but the last of one group.
  int64_t warmup = (stages - stage - 1) * 2 + (chunks - 1) * sizes.front();
  return oneForwardOneBackward(forwards, backwards, std::min<int64_t>(warmup, forwards.size()));
}

std::vector<Task> oneFOneB(int64_t stage, int64_t stages, int64_t microbatches) {
  std::vector<Task> forwards, backwards;
  for (int64_t m = 0; m < microbatches; ++m) {
    forwards.push_back({TaskKind::Forward, m, 0});
    backwards.push_back({TaskKind::Backward, m, 0});
  }
  return oneForwardOneBackward(forwards, backwards, std::min(stages - stage - 1, microbatches));
}

} // namespace

std::string_view kerf::toString(TaskKind kind) {
  constexpr std::string_view names[] = {"forward", "backward", "input-gradient", "weight-gradient"};
  return names[static_cast<int>(kind)];
}

std::string_view kerf::toString(ScheduleKind kind) {
  constexpr std::string_view names[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};
  return names[static_cast<int>(kind)];
}

std::string kerf::toString(const Task &task, int64_t chunks) {
  std::string text = fmt::format("{}{}", "FBIW"[static_cast<int>(task.kind)], task.microbatch);
  return chunks > 1 ? fmt::format("{}.{}", text, task.chunk) : text;
}

Result<ScheduleOptions> kerf::scheduleOptions(std::string_view name, std::string_view variant, int64_t stages,
                                              int64_t microbatches, int64_t chunks) {
  ScheduleOptions options{.stages = stages, .microbatches = microbatches, .chunks = chunks};
  if (name == "gpipe")
    options.kind = ScheduleKind::GPipe;
  else if (name == "1f1b")
    options.kind = ScheduleKind::OneFOneB;
  else if (name == "interleaved")
    options.kind = ScheduleKind::Interleaved;
  else if (name == "zero-bubble")
    options.kind = ScheduleKind::ZeroBubble;
  else
    return Error{fmt::format("schedule \"{}\" is unknown; give gpipe, 1f1b, interleaved or zero-bubble", name)};
  if (!variant.empty() && options.kind != ScheduleKind::ZeroBubble)
    return Error{fmt::format("schedule {} has no variant \"{}\"; only zero-bubble has variants", name, variant)};
  if (variant == "1p")
    options.variant = ZeroBubbleVariant::OneLimit;
  else if (variant == "2p")
    options.variant = ZeroBubbleVariant::TwoLimit;
  else if (!variant.empty() && variant != "h1")
    return Error{fmt::format("schedule zero-bubble has no variant \"{}\"; give h1, 1p or 2p", variant)};
  return options;
}

Result<Schedule> kerf::makeSchedule(const ScheduleOptions &options) {
  auto [stages, microbatches, chunks] = std::tuple(options.stages, options.microbatches, options.chunks);
  if (stages < 1 || microbatches < 1 || chunks < 1)
    return Error{fmt::format("a schedule of {} stages, {} microbatches and {} chunks; each must be 1 or more", stages,
                             microbatches, chunks)};
  if (chunks > 1 && options.kind != ScheduleKind::Interleaved)
    return Error{fmt::format("schedule {} with {} chunks; give 1 chunk, or the interleaved schedule",
                             toString(options.kind), chunks)};
  if (stages > kMaxTasks / 3 / microbatches / chunks)
    return Error{fmt::format("{} stages x {} microbatches x {} chunks are more than {} tasks; fewer microbatches",
                             stages, microbatches, chunks, kMaxTasks)};
  const PassDurations &d = options.durations;
  if (!(d.forward > 0 && d.inputGradient > 0 && d.weightGradient >= 0 && d.send >= 0))
    return Error{fmt::format("durations forward {}, input gradient {}, weight gradient {}, send {}: the first two must "
                             "be positive, the others 0 or more",
                             d.forward, d.inputGradient, d.weightGradient, d.send)};
  if (!(options.keptForWeights >= 0 && options.keptForWeights <= 1))
    return Error{
        fmt::format("share of activations kept for weight gradients is {}; must be 0 to 1", options.keptForWeights)};
  if (!options.activations.empty() && static_cast<int64_t>(options.activations.size()) != stages)
    return Error{fmt::format("activations are given for {} stages of {}", options.activations.size(), stages)};
  Schedule schedule;
  schedule.kind = options.kind;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  schedule.chunks = chunks;
  if (options.kind == ScheduleKind::ZeroBubble) {
    schedule.splitBackward = true;
    schedule.order = options.variant == ZeroBubbleVariant::H1
                         ? schedule::zeroBubbleByHand(stages, microbatches, stages)
                         : schedule::zeroBubbleSearched(
                               options, options.variant == ZeroBubbleVariant::OneLimit ? stages : 2 * stages);
  } else {
    for (int64_t s = 0; s < stages; ++s)
      schedule.order.push_back(options.kind == ScheduleKind::GPipe ? gpipe(microbatches)
                               : chunks == 1                       ? oneFOneB(s, stages, microbatches)
                                                                   : interleaved(s, stages, microbatches, chunks));
  }
  if (Result<ScheduleCheck> checked = check(schedule); !checked)
    return Error{checked.error().message, ExitStatus::InternalCheck};
  return schedule;
}

std::optional<StageChunk> kerf::partBefore(const Schedule &schedule, StageChunk part) {
  if (part.stage > 0)
    return StageChunk{part.stage - 1, part.chunk};
  if (part.chunk > 0)
    return StageChunk{schedule.stages - 1, part.chunk - 1};
  return std::nullopt;
}

std::optional<StageChunk> kerf::partAfter(const Schedule &schedule, StageChunk part) {
  if (part.stage + 1 < schedule.stages)
    return StageChunk{part.stage + 1, part.chunk};
  if (part.chunk + 1 < schedule.chunks)
    return StageChunk{0, part.chunk + 1};
  return std::nullopt;
}
