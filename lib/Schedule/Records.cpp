// SPDX-License-Identifier: Apache-2.0
// The record of each schedule, the handcrafted orders, and the bounds on the number of tasks.
//
// Sources: Huang et al., "GPipe" (2019); Narayanan et al., "Efficient Large-Scale Language Model Training
// on GPU Clusters Using Megatron-LM" (SC21) for 1F1B and interleaved 1F1B; Qi et al., "Zero Bubble
// Pipeline Parallelism" (2023).
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

/// Returns `warmup` forwards, then alternately one forward and one backward, then the remaining backwards.
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

/// Returns the sizes of the groups in which microbatches pass through the chunks. A group has about `stages`
/// microbatches, so that its first microbatch returns from the last stage when the group has been sent. Sizes differ by
/// at most one, larger ones first, and are at least `stages` if there are enough microbatches.
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
  // Megatron-LM's number: twice the distance to the last stage, and one group on all chunks but the last.
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

/// Returns the orders of 1F1B, or of interleaved 1F1B if a stage has several chunks.
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

Orders searched(const ScheduleOptions &options) {
  return schedule::zeroBubbleSearched(options, searchedLimit(options));
}

double untilTheLastStage(const ScheduleOptions &options, int64_t stage) {
  return static_cast<double>(std::min(options.microbatches, options.stages - stage));
}

/// Between its forward and its input gradient, a searched order has as many microbatches as the memory limit allows, or
/// as the handcrafted order has, which fills the limit with microbatches that wait for their weight gradients.
double asManyAsFit(const ScheduleOptions &options, int64_t stage) {
  constexpr double more = 1 + 1e-9; // keeps rounding from pushing a quotient below an integer
  const double limit = searchedLimit(options);
  const double each = options.activations.empty() ? 1 : options.activations[stage];
  const auto byHand = static_cast<double>(schedule::zeroBubbleFill(options.stages, stage, limit));
  const double most =
      each > 0 ? std::max({1.0, byHand, std::floor(limit / each * more)}) : std::numeric_limits<double>::infinity();
  return std::min(most, schedule::mostRunning(options, stage));
}

/// Before its first backward, a stage of a searched order runs the forwards that arrive from the stages before it until
/// the first microbatch returns from the last stage, as long as it and they have room for the activations. The
/// handcrafted orders have as many.
int64_t untilTheFirstReturns(const ScheduleOptions &options, int64_t stage, int64_t) {
  if (options.activations.empty())
    return 1;
  auto least = static_cast<double>(std::min(options.microbatches, options.stages - stage));
  for (int64_t s = 0; s <= stage; ++s) {
    constexpr double less = 1 - 1e-6; // keeps rounding from pushing a quotient above an integer
    const double most = searchedLimit(options) / options.activations[s] * less;
    least = options.activations[s] > 0 ? std::min(least, std::floor(most)) : least;
    least = std::min(least, schedule::mostRunning(options, s));
  }
  return std::max<int64_t>(1, static_cast<int64_t>(least));
}

int64_t allAtOnce(const ScheduleOptions &options, int64_t, int64_t) { return options.microbatches; }

int64_t fromHereToTheEnd(const ScheduleOptions &options, int64_t stage, int64_t) {
  return std::min(options.microbatches, options.stages - stage);
}

/// Before its first backward a stage holds a group of microbatches on every chunk but the last. On the last chunk it
/// holds the microbatches that travel to the last stage and back, and one more.
int64_t groupOnEachChunk(const ScheduleOptions &options, int64_t stage, int64_t chunk) {
  if (options.chunks == 1)
    return fromHereToTheEnd(options, stage, chunk);
  const int64_t group = std::min(options.stages, options.microbatches);
  return chunk + 1 < options.chunks ? group : std::min(group, 2 * (options.stages - stage - 1) + 1);
}

constexpr ScheduleRecord kRecords[] = {
    {.kind = ScheduleKind::OneFOneB,
     .name = "1f1b",
     .steady = true,
     .singleStage = SingleStage::Searched,
     .order = alternating,
     .maxInFlight = untilTheLastStage,
     .minInFlight = fromHereToTheEnd},
    {.kind = ScheduleKind::Interleaved,
     .name = "interleaved",
     .chunked = true,
     .steady = true,
     .order = alternating,
     .minInFlight = groupOnEachChunk},
    // H1 needs the memory of 1F1B and has a third of its bubble if the three passes take equally long.
    {.kind = ScheduleKind::ZeroBubbleH1,
     .name = "zero-bubble",
     .variant = "h1",
     .splitsBackward = true,
     .steady = true,
     .order = handWritten,
     .maxInFlight = untilTheLastStage,
     .minInFlight = fromHereToTheEnd},
    // 1p holds the activations of as many microbatches as there are stages. A search leaves out 1p and 2p, because the
    // variant "by-memory" may have every order that they may have.
    {.kind = ScheduleKind::ZeroBubble1P,
     .name = "zero-bubble",
     .variant = "1p",
     .splitsBackward = true,
     .searched = true,
     .heldPerStage = 1,
     .whenNamed = true,
     .order = searched,
     .maxInFlight = asManyAsFit,
     .minInFlight = untilTheFirstReturns},
    // 2p holds twice as many as 1p and has (nearly) no bubble.
    {.kind = ScheduleKind::ZeroBubble2P,
     .name = "zero-bubble",
     .variant = "2p",
     .splitsBackward = true,
     .searched = true,
     .heldPerStage = 2,
     .whenNamed = true,
     .order = searched,
     .maxInFlight = asManyAsFit,
     .minInFlight = untilTheFirstReturns},
    // Only the plan's in_flight, which a search sets from the memory of each stage, limits this variant.
    {.kind = ScheduleKind::ZeroBubbleByMemory,
     .name = "zero-bubble",
     .variant = "by-memory",
     .splitsBackward = true,
     .searched = true,
     .order = searched,
     .maxInFlight = asManyAsFit,
     .minInFlight = untilTheFirstReturns},
    {.kind = ScheduleKind::GPipe,
     .name = "gpipe",
     .singleStage = SingleStage::WhenNamed,
     .order = gpipeOrder,
     .minInFlight = allAtOnce},
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

const ScheduleRecord &kerf::defaultSchedule(bool chunked) {
  return *std::find_if(std::begin(kRecords), std::end(kRecords),
                       [&](const ScheduleRecord &record) { return record.chunked == chunked; });
}

int64_t kerf::defaultChunkCount(std::string_view name) {
  const ScheduleRecord *record = findSchedule(name, "");
  return record && record->chunked ? 2 : 1;
}

std::vector<std::string_view> kerf::scheduleNames() { return wordsOf(&ScheduleRecord::name); }

std::vector<std::string_view> kerf::scheduleVariants() { return wordsOf(&ScheduleRecord::variant); }

std::string kerf::scheduleText(std::string_view name, std::string_view variant, int64_t chunks) {
  return fmt::format("{}{}{}{}", name, variant.empty() ? "" : " ", variant,
                     chunks > 1 ? fmt::format(" of {} chunks", chunks) : "");
}

double kerf::maxInFlight(const ScheduleOptions &options, int64_t stage) {
  const ScheduleRecord &record = recordOf(options.kind);
  return record.maxInFlight ? record.maxInFlight(options, stage) : std::numeric_limits<double>::infinity();
}

double kerf::searchedLimit(const ScheduleOptions &options) {
  const int64_t held = recordOf(options.kind).heldPerStage;
  return held ? static_cast<double>(held * options.stages) : std::numeric_limits<double>::infinity();
}

ScheduleOptions kerf::withFewMicrobatches(ScheduleOptions options) {
  constexpr int64_t kGroups = 4; // of as many microbatches as there are stages
  const int64_t rest = options.microbatches % options.stages, few = kGroups * options.stages + rest;
  // Where groups have different sizes, their sizes depend on the number of microbatches.
  if (recordOf(options.kind).steady && (options.chunks == 1 || rest == 0))
    options.microbatches = std::min(options.microbatches, few);
  return options;
}

int64_t kerf::minInFlight(const ScheduleOptions &options, int64_t stage, int64_t chunk) {
  const ScheduleRecord &record = recordOf(options.kind);
  return record.minInFlight ? record.minInFlight(options, stage, chunk) : 1;
}
