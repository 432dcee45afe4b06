// SPDX-License-Identifier: Apache-2.0
// This file has the record of each schedule, the orders that are written by hand, and the bounds on their tasks.
//
// Huang et al., "GPipe" (2019); Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM" (SC21) for 1F1B and interleaved 1F1B; Qi et al., "Zero Bubble Pipeline Parallelism" (2023).
#include "Internal.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace kerf;

namespace {

using Orders = std::vector<std::vector<Task>>;

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

std::vector<Task> oneFOneB(int64_t microbatches, int64_t warmup) {
  std::vector<Task> forwards, backwards;
  for (int64_t m = 0; m < microbatches; ++m) {
    forwards.push_back({TaskKind::Forward, m, 0});
    backwards.push_back({TaskKind::Backward, m, 0});
  }
  return oneForwardOneBackward(forwards, backwards, std::min(warmup, microbatches));
}

Orders gpipeOrder(const ScheduleOptions &options) { return Orders(options.stages, gpipe(options.microbatches)); }

/// Makes the orders of 1F1B, interleaved where a stage has several chunks.
Orders alternating(const ScheduleOptions &options) {
  Orders orders;
  for (int64_t s = 0; s < options.stages; ++s)
    orders.push_back(options.chunks == 1 ? oneFOneB(options.microbatches, options.stages - s - 1)
                                         : interleaved(s, options.stages, options.microbatches, options.chunks));
  return orders;
}

Orders handWritten(const ScheduleOptions &options) {
  return schedule::zeroBubbleByHand(options.stages, options.microbatches, options.stages);
}

/// Searches for orders that hold the activations of at most `Limit` * stages microbatches.
template <int64_t Limit> Orders searched(const ScheduleOptions &options) {
  return schedule::zeroBubbleSearched(options, Limit * options.stages);
}

double untilTheLastStage(const ScheduleOptions &options, int64_t stage) {
  return static_cast<double>(std::min(options.microbatches, options.stages - stage));
}

double oneOfEachStage(const ScheduleOptions &options, int64_t) { return static_cast<double>(options.stages); }

/// A searched order has as many forwards as the limit on activations allows, or as the order that is written by hand.
template <int64_t Limit> double asManyAsFit(const ScheduleOptions &options, int64_t stage) {
  const auto limit = static_cast<double>(Limit * options.stages);
  const double each = options.activations.empty() ? 1 : options.activations[stage];
  return each > 0 ? std::max(limit, std::ceil(limit / each)) : std::numeric_limits<double>::infinity();
}

int64_t allAtOnce(const ScheduleOptions &options, int64_t, int64_t) { return options.microbatches; }

int64_t fromHereToTheEnd(const ScheduleOptions &options, int64_t stage, int64_t) {
  return std::min(options.microbatches, options.stages - stage);
}

/// Before its first backward a stage holds a group of microbatches on every chunk but the last. On the last chunk it
/// holds those that are on the way to the last stage and back, and one more.
int64_t groupOnEachChunk(const ScheduleOptions &options, int64_t stage, int64_t chunk) {
  if (options.chunks == 1)
    return fromHereToTheEnd(options, stage, chunk);
  const int64_t group = std::min(options.stages, options.microbatches);
  return chunk + 1 < options.chunks ? group : std::min(group, 2 * (options.stages - stage - 1) + 1);
}

constexpr ScheduleRecord kRecords[] = {
    {.kind = ScheduleKind::OneFOneB,
     .name = "1f1b",
     .singleStage = SingleStage::Searched,
     .order = alternating,
     .mostForwardsFirst = untilTheLastStage,
     .leastInFlight = fromHereToTheEnd},
    {.kind = ScheduleKind::Interleaved,
     .name = "interleaved",
     .chunked = true,
     .order = alternating,
     .leastInFlight = groupOnEachChunk},
    // It takes the memory of 1F1B, and has a third of its bubble when the three passes take the same time.
    {.kind = ScheduleKind::ZeroBubbleH1,
     .name = "zero-bubble",
     .variant = "h1",
     .splitsBackward = true,
     .order = handWritten,
     .mostForwardsFirst = oneOfEachStage,
     .leastInFlight = fromHereToTheEnd},
    // It holds the activations of as many microbatches as there are stages.
    {.kind = ScheduleKind::ZeroBubble1P,
     .name = "zero-bubble",
     .variant = "1p",
     .splitsBackward = true,
     .searched = true,
     .order = searched<1>,
     .mostForwardsFirst = asManyAsFit<1>},
    // It holds twice as many, and has (nearly) no bubble.
    {.kind = ScheduleKind::ZeroBubble2P,
     .name = "zero-bubble",
     .variant = "2p",
     .splitsBackward = true,
     .searched = true,
     .order = searched<2>,
     .mostForwardsFirst = asManyAsFit<2>},
    {.kind = ScheduleKind::GPipe,
     .name = "gpipe",
     .singleStage = SingleStage::WhenNamed,
     .order = gpipeOrder,
     .leastInFlight = allAtOnce},
};

static_assert(
    [] {
      for (size_t i = 0; i < std::size(kRecords); ++i)
        if (kRecords[i].kind != static_cast<ScheduleKind>(i))
          return false;
      return true;
    }(),
    "records stand in the order of ScheduleKind");

std::vector<std::string_view> wordsOf(std::string_view ScheduleRecord::*word) {
  std::vector<std::string_view> words;
  for (const ScheduleRecord &record : kRecords)
    if (std::string_view its = record.*word; !its.empty() && std::find(words.begin(), words.end(), its) == words.end())
      words.push_back(its);
  return words;
}

} // namespace

std::span<const ScheduleRecord> kerf::schedules() { return kRecords; }

const ScheduleRecord &kerf::recordOf(ScheduleKind kind) { return kRecords[static_cast<size_t>(kind)]; }

const ScheduleRecord *kerf::findSchedule(std::string_view name, std::string_view variant) {
  for (const ScheduleRecord &record : kRecords)
    if (record.name == name && (variant.empty() || record.variant == variant))
      return &record;
  return nullptr;
}

const ScheduleRecord &kerf::usualSchedule(bool chunked) {
  return *std::find_if(std::begin(kRecords), std::end(kRecords),
                       [&](const ScheduleRecord &record) { return record.chunked == chunked; });
}

int64_t kerf::usualChunks(std::string_view name) {
  const ScheduleRecord *record = findSchedule(name, "");
  return record && record->chunked ? 2 : 1;
}

std::vector<std::string_view> kerf::scheduleNames() { return wordsOf(&ScheduleRecord::name); }

std::vector<std::string_view> kerf::scheduleVariants() { return wordsOf(&ScheduleRecord::variant); }

std::string kerf::scheduleText(std::string_view name, std::string_view variant, int64_t chunks) {
  return fmt::format("{}{}{}{}", name, variant.empty() ? "" : " ", variant,
                     chunks > 1 ? fmt::format(" of {} chunks", chunks) : "");
}

double kerf::mostForwardsFirst(const ScheduleOptions &options, int64_t stage) {
  const ScheduleRecord &record = recordOf(options.kind);
  return record.mostForwardsFirst ? record.mostForwardsFirst(options, stage) : std::numeric_limits<double>::infinity();
}

int64_t kerf::leastInFlight(const ScheduleOptions &options, int64_t stage, int64_t chunk) {
  const ScheduleRecord &record = recordOf(options.kind);
  return record.leastInFlight ? record.leastInFlight(options, stage, chunk) : 1;
}
