// SPDX-License-Identifier: Apache-2.0
// Construction of a schedule from the words of a plan, and the neighbours of each part of the model.
#include "kerf/Schedule/Schedule.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

using namespace kerf;

namespace {

constexpr int64_t kMaxTasks = int64_t(1) << 24; // 16 million tasks take 0.13 GB; real plans have far fewer

/// Checks that there is one value for each stage, or a single one for all.
Status checkEach(size_t given, int64_t stages, std::string_view what) {
  if (given == 1 || static_cast<int64_t>(given) == stages)
    return ok();
  return Error{
      fmt::format("{} are given for {} stages, but the schedule has {}; give one for each, or a single one for "
                  "all",
                  what, given, stages)};
}

} // namespace

std::string_view kerf::toString(TaskKind kind) {
  constexpr std::string_view names[] = {"forward", "backward", "input-gradient", "weight-gradient"};
  return names[static_cast<int>(kind)];
}

std::string kerf::toString(const Task &task, int64_t chunks) {
  std::string text = fmt::format("{}{}", "FBIW"[static_cast<int>(task.kind)], task.microbatch);
  return chunks > 1 ? fmt::format("{}.{}", text, task.chunk) : text;
}

Result<ScheduleOptions> kerf::scheduleOptions(std::string_view name, std::string_view variant, int64_t stages,
                                              int64_t microbatches, int64_t chunks) {
  const ScheduleRecord *usual = findSchedule(name, ""), *its = findSchedule(name, variant);
  if (!usual)
    return Error{fmt::format("schedule \"{}\" is unknown; give {}", name, fmt::join(scheduleNames(), ", "))};
  if (!its && usual->variant.empty())
    return Error{fmt::format("schedule {} has no variant \"{}\"; leave it out", name, variant)};
  if (!its)
    return Error{
        fmt::format("schedule {} has no variant \"{}\"; give {}", name, variant, fmt::join(scheduleVariants(), ", "))};
  return ScheduleOptions{.kind = its->kind, .stages = stages, .microbatches = microbatches, .chunks = chunks};
}

Result<Schedule> kerf::makeSchedule(const ScheduleOptions &options) {
  auto [stages, microbatches, chunks] = std::tuple(options.stages, options.microbatches, options.chunks);
  if (stages < 1 || microbatches < 1 || chunks < 1)
    return Error{fmt::format("a schedule of {} stages, {} microbatches and {} chunks; each must be 1 or more", stages,
                             microbatches, chunks)};
  const ScheduleRecord &record = recordOf(options.kind);
  if (chunks > 1 && !record.chunked)
    return Error{fmt::format("schedule {} with {} chunks; give 1 chunk, or the {} schedule", record.name, chunks,
                             defaultSchedule(/*chunked=*/true).name)};
  if (stages > kMaxTasks / 3 / microbatches / chunks)
    return Error{fmt::format("{} stages x {} microbatches x {} chunks are more than {} tasks; give fewer microbatches",
                             stages, microbatches, chunks, kMaxTasks)};
  if (chunks > std::numeric_limits<int16_t>::max())
    return Error{
        fmt::format("{} chunks are more than {}; give fewer chunks", chunks, std::numeric_limits<int16_t>::max())};
  if (Status status = checkEach(options.durations.size(), stages, "durations"); !status)
    return status.error();
  for (const PassDurations &d : options.durations)
    if (!(d.forward > 0 && d.inputGradient > 0 && d.weightGradient >= 0 && d.send >= 0))
      return Error{
          fmt::format("durations forward {}, input gradient {}, weight gradient {}, send {}; the first two must "
                      "be positive, the others 0 or more",
                      d.forward, d.inputGradient, d.weightGradient, d.send)};
  if (Status status = checkEach(options.weightGradientShare.size(), stages, "shares of activations"); !status)
    return status.error();
  for (double share : options.weightGradientShare)
    if (!(share >= 0 && std::isfinite(share)))
      return Error{fmt::format("share of activations kept for weight gradients is {}; must be 0 or more", share)};
  if (!options.inFlight.empty())
    if (Status status = checkEach(options.inFlight.size(), stages, "microbatches in flight"); !status)
      return status.error();
  for (int64_t most : options.inFlight)
    if (most < 1)
      return Error{fmt::format("{} microbatches are in flight at most; must be 1 or more", most)};
  if (!options.activations.empty() && static_cast<int64_t>(options.activations.size()) != stages)
    return Error{fmt::format("activations are given for {} stages, but the schedule has {}; give one number for each",
                             options.activations.size(), stages)};
  Schedule schedule;
  schedule.kind = options.kind;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  schedule.chunks = chunks;
  schedule.splitBackward = record.splitsBackward;
  schedule.order = record.order(options);
  if (schedule.order.empty())
    return Error{fmt::format("no order of schedule {} of {} stages and {} microbatches takes less than {} in the unit "
                             "of its durations; allow more time",
                             record.name, stages, microbatches, options.shorterThan)};
  if (Result<ScheduleCheck> checked = check(schedule); !checked)
    return Error{fmt::format("schedule {} of {} stages, {} microbatches and {} chunks: {}; report this plan, it is a "
                             "bug of Kerf",
                             record.name, stages, microbatches, chunks, checked.error().message),
                 ExitStatus::InternalCheck};
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
