// SPDX-License-Identifier: Apache-2.0
// Compares schedules with the papers that define them: order of tasks, microbatches in flight, and idle time.
#include "kerf/Schedule/Schedule.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace kerf;

namespace {

ScheduleOptions options(ScheduleKind kind, int64_t stages, int64_t microbatches, int64_t chunks = 1) {
  return {.kind = kind, .stages = stages, .microbatches = microbatches, .chunks = chunks};
}

Schedule make(const ScheduleOptions &options) {
  Result<Schedule> schedule = makeSchedule(options);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message);
  return schedule ? *schedule : Schedule{};
}

std::string text(const Schedule &schedule, int64_t stage) {
  std::string all;
  for (const Task &task : schedule.order[stage])
    all += (all.empty() ? "" : " ") + toString(task, schedule.chunks);
  return all;
}

/// Seconds of one microbatch in all chunks of a stage.
ScheduleTimes times(const Schedule &schedule, PassDurations d) {
  auto chunks = static_cast<double>(schedule.chunks);
  return runSchedule(
      schedule,
      [&](int64_t, const Task &task) {
        switch (task.kind) {
        case TaskKind::Forward:
          return d.forward / chunks;
        case TaskKind::Backward:
          return (d.inputGradient + d.weightGradient) / chunks;
        case TaskKind::InputGradient:
          return d.inputGradient / chunks;
        case TaskKind::WeightGradient:
          return d.weightGradient / chunks;
        }
        return 0.0;
      },
      [&](StageChunk, const Task &) { return d.send; });
}

double bubble(const Schedule &schedule, PassDurations d) {
  double busy = static_cast<double>(schedule.microbatches) * (d.forward + d.inputGradient + d.weightGradient);
  ScheduleTimes all = times(schedule, d);
  return (schedule.splitBackward ? all.longestStageSpan : all.makespan) - busy;
}

} // namespace

TEST(Schedule, OrdersOfTheHeader) {
  Schedule oneFOneB = make(options(ScheduleKind::OneFOneB, 2, 3));
  EXPECT_EQ(text(oneFOneB, 0), "F0 F1 B0 F2 B1 B2");
  EXPECT_EQ(text(oneFOneB, 1), "F0 B0 F1 B1 F2 B2");
  Schedule gpipe = make(options(ScheduleKind::GPipe, 2, 2));
  EXPECT_EQ(text(gpipe, 0), "F0 F1 B0 B1");
  EXPECT_EQ(text(gpipe, 1), "F0 F1 B0 B1");
}

// Figure 4 of SC21: 4 devices, 8 microbatches, 2 chunks; the row of the first device.
TEST(Schedule, InterleavedAsMegatron) {
  Schedule schedule = make(options(ScheduleKind::Interleaved, 4, 8, 2));
  EXPECT_EQ(text(schedule, 0).substr(0, 79),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1");
  EXPECT_EQ(text(schedule, 3).substr(0, 49), "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1");
}

TEST(Schedule, ZeroBubbleByHand) {
  Schedule schedule = make(options(ScheduleKind::ZeroBubbleH1, 3, 4));
  EXPECT_EQ(text(schedule, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(schedule, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

// In GPipe (Huang 2019, section 2.3) and 1F1B, a stage idles for p - 1 forwards and backwards. Interleaving divides
// this by the number of chunks (SC21 section 2.2).
TEST(Schedule, BubbleClosedForms) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    int64_t p = 1 + random() % 9, v = 1 + random() % 4;
    int64_t m = p * (1 + random() % 5);
    PassDurations d{1.0 + random() % 3, 1.0 + random() % 3, 1.0 + random() % 3, 0};
    double whole = d.forward + d.inputGradient + d.weightGradient, idle = double(p - 1) * whole;
    SCOPED_TRACE(testing::Message() << "p " << p << " m " << m << " v " << v);
    EXPECT_NEAR(bubble(make(options(ScheduleKind::GPipe, p, m)), d), idle, 1e-9);
    EXPECT_NEAR(bubble(make(options(ScheduleKind::OneFOneB, p, m)), d), idle, 1e-9);
    EXPECT_NEAR(bubble(make(options(ScheduleKind::Interleaved, p, m, v)), d), idle / double(v), 1e-9);
  }
}

// Qi et al. 2023, table 1: ZB-H1 idles (p - 1)(F + I - W), and ZB-H2 with twice the memory (p - 1)(F + I - 2 W), which
// is 0 if the three are equal.
TEST(Schedule, ZeroBubbleClosedForms) {
  for (int64_t p : {2, 3, 4, 8, 16})
    for (int64_t m : {2 * p, 3 * p, 8 * p}) {
      SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
      ScheduleOptions o = options(ScheduleKind::ZeroBubbleH1, p, m);
      EXPECT_NEAR(bubble(make(o), {1, 1, 1, 0}), double(p - 1), 1e-9);
      o.kind = ScheduleKind::ZeroBubble1P;
      EXPECT_LE(bubble(make(o), {1, 1, 1, 0}), double(p - 1) + 1e-9);
      o.kind = ScheduleKind::ZeroBubble2P;
      EXPECT_NEAR(bubble(make(o), {1, 1, 1, 0}), 0, 1e-9);
    }
}

// Section 3: for durations of real layers (the weight gradient is the shortest pass) and activations that an input
// gradient frees, 1p has at most half of 1F1B's bubble and 2p almost none.
TEST(Schedule, SearchedZeroBubble) {
  for (auto [p, m] : {std::pair<int64_t, int64_t>(4, 24), {8, 64}, {16, 128}, {32, 256}}) {
    SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
    PassDurations d{18.5, 18.1, 9.3, 0.6};
    double busy = double(m) * (d.forward + d.inputGradient + d.weightGradient);
    double oneFOneB = bubble(make(options(ScheduleKind::OneFOneB, p, m)), d);
    ScheduleOptions o = options(ScheduleKind::ZeroBubbleH1, p, m);
    o.durations = {d};
    o.weightGradientShare = {0.4};
    double byHand = bubble(make(o), d);
    o.kind = ScheduleKind::ZeroBubble1P;
    double oneLimit = bubble(make(o), d);
    EXPECT_LT(byHand, oneFOneB);
    EXPECT_LE(oneLimit, byHand);
    o.kind = ScheduleKind::ZeroBubble2P;
    EXPECT_LT(bubble(make(o), d) / busy, 0.01);
  }
}

/// Where a message takes as long as a task, the first microbatch needs longer to come back than 2p microbatches fill.
/// Only with memory for more of them there is no bubble.
TEST(Schedule, SearchedZeroBubbleFillsTheMemory) {
  constexpr int64_t p = 8, m = 64;
  const PassDurations d{1, 1, 1, 1};
  constexpr double busy = 3.0 * m;
  ScheduleOptions o = options(ScheduleKind::ZeroBubble2P, p, m);
  o.durations = {d};
  EXPECT_GT(bubble(make(o), d) / busy, 0.02);
  o.kind = ScheduleKind::ZeroBubbleByMemory;
  const Schedule all = make(o);
  EXPECT_LT(bubble(all, d) / busy, 0.001);
  EXPECT_GT(std::ranges::max(check(all)->inFlight), 2 * p);
  double before = 1;
  for (int64_t held : {p, 2 * p, 3 * p, 4 * p}) {
    o.inFlight = {held};
    const Schedule limited = make(o);
    EXPECT_LE(std::ranges::max(check(limited)->inFlight), held);
    const double now = bubble(limited, d) / busy;
    EXPECT_LE(now, before) << held;
    before = now;
  }
  EXPECT_LT(before, 0.001);
}

/// Where stages take different times, orders for these times are faster than orders for their mean.
TEST(Schedule, SearchedZeroBubbleForUnevenStages) {
  std::mt19937_64 random(11);
  double uneven = 0, even = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t p = 2 + static_cast<int64_t>(random() % 7);
    ScheduleOptions its = options(ScheduleKind::ZeroBubble2P, p, 4 * p);
    its.weightGradientShare = {0.5};
    std::vector<double> layers;
    for (int64_t s = 0; s < p; ++s)
      layers.push_back(4 + static_cast<double>(random() % 5));
    const double mean = std::accumulate(layers.begin(), layers.end(), 0.0) / static_cast<double>(p);
    const double send = static_cast<double>(random() % 3) * mean;
    auto of = [&](double n) { return PassDurations{n, 2 * n, n, send}; };
    auto seconds = [&](std::vector<PassDurations> durations) {
      its.durations = std::move(durations);
      auto taken = [&](int64_t stage, const Task &task) {
        return layers[stage] * (task.kind == TaskKind::InputGradient ? 2 : 1);
      };
      return runSchedule(make(its), taken, [&](StageChunk, const Task &) { return send; }).longestStageSpan;
    };
    std::vector<PassDurations> ofStages;
    for (double n : layers)
      ofStages.push_back(of(n));
    uneven += seconds(ofStages);
    even += seconds({of(mean)});
  }
  EXPECT_LT(uneven, 0.98 * even);
}

/// Returns a random schedule whose order is searched.
ScheduleKind searchedKind(std::mt19937_64 &random) {
  constexpr ScheduleKind kinds[] = {ScheduleKind::ZeroBubble1P, ScheduleKind::ZeroBubble2P,
                                    ScheduleKind::ZeroBubbleByMemory};
  return kinds[random() % std::size(kinds)];
}

/// minInFlight is a lower bound of the forwards before a stage's first backward, whatever the durations and activations
/// are, and it is not always 1. maxInFlight is an upper bound of the microbatches in flight at any time.
TEST(Schedule, SearchedZeroBubbleHoldsWhatArrives) {
  std::mt19937_64 random(7);
  auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() % 1001) / 1000;
  };
  int64_t most = 0, reached = 0;
  for (int i = 0; i < 400; ++i) {
    const ScheduleKind kind = searchedKind(random);
    ScheduleOptions its =
        options(kind, 2 + static_cast<int64_t>(random() % 9), 1 + static_cast<int64_t>(random() % 30));
    its.durations = {{between(0.1, 2), between(0.1, 2), between(0.1, 2), random() % 2 ? between(0, 0.5) : 0}};
    if (i % 2) { // stages that take different times
      its.durations.resize(its.stages, its.durations.front());
      for (PassDurations &one : its.durations) {
        const double times = between(0.1, 5);
        one = {one.forward * times, one.inputGradient * times, one.weightGradient * times, one.send};
      }
    }
    its.weightGradientShare = {between(0, 1)};
    for (int64_t s = 0; s < its.stages; ++s)
      its.activations.push_back(between(0.3, 3));
    Schedule schedule = make(its);
    for (int64_t s = 0; s < its.stages; ++s) {
      auto forwards = std::ranges::find_if(schedule.order[s],
                                           [](const Task &task) { return task.kind == TaskKind::InputGradient; }) -
                      schedule.order[s].begin();
      EXPECT_LE(minInFlight(its, s, 0), forwards) << "stage " << s << " of job " << i;
      most = std::max(most, minInFlight(its, s, 0));
      EXPECT_LE(static_cast<double>(check(schedule)->inFlightInputGradient[s]), maxInFlight(its, s))
          << "stage " << s << " of job " << i;
      reached += static_cast<double>(check(schedule)->inFlightInputGradient[s]) == maxInFlight(its, s);
    }
  }
  EXPECT_GT(most, 5);
  EXPECT_GT(reached, 20);
}

/// Returns the most microbatches that a stage holds at once, where one that waits for its weight gradient counts as
/// `share`.
double mostHeld(const std::vector<Task> &order, double share) {
  double held = 0, most = 0;
  for (const Task &task : order) {
    held += task.kind == TaskKind::Forward ? 1 : task.kind == TaskKind::InputGradient ? share - 1 : -share;
    most = std::max(most, held);
  }
  return most;
}

/// No stage holds more microbatches than ScheduleOptions::inFlight allows, also where an input gradient recomputes
/// activations that stay until the weight gradient. With room for as many as the schedule itself allows, the order is
/// the one without this limit.
TEST(Schedule, SearchedZeroBubbleKeepsToTheMicrobatchesThatHaveRoom) {
  std::mt19937_64 random(23);
  auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int64_t limited = 0;
  for (int i = 0; i < 300; ++i) {
    const ScheduleKind kind = searchedKind(random);
    ScheduleOptions its = options(kind, between(2, 9), between(1, 40));
    its.durations.clear();
    its.weightGradientShare.clear();
    for (int64_t s = 0; s < its.stages; ++s) {
      const double times = static_cast<double>(between(2, 20)) / 10;
      its.durations.push_back({times, 1.1 * times, 0.8 * times, static_cast<double>(i % 3) * 0.2});
      its.weightGradientShare.push_back(static_cast<double>(between(0, 40)) / 10);
      if (i % 2)
        its.activations.push_back(static_cast<double>(between(5, 20)) / 10);
    }
    const Schedule all = make(its);
    its.inFlight = {8 * std::max(2 * its.stages, its.microbatches)};
    EXPECT_EQ(make(its).order, all.order) << "job " << i;
    its.inFlight.clear();
    for (int64_t s = 0; s < its.stages; ++s)
      its.inFlight.push_back(between(1, 2 * its.stages));
    const Schedule schedule = make(its);
    limited += schedule.order != all.order;
    for (int64_t s = 0; s < its.stages; ++s) {
      const double share = its.weightGradientShare[s];
      EXPECT_LE(mostHeld(schedule.order[s], share), std::max({1.0, share, static_cast<double>(its.inFlight[s])}) + 1e-9)
          << "stage " << s << " of job " << i;
      EXPECT_LE(static_cast<double>(check(schedule)->inFlightInputGradient[s]), maxInFlight(its, s));
      auto gradient = std::ranges::find(schedule.order[s], TaskKind::InputGradient, &Task::kind);
      EXPECT_LE(minInFlight(its, s, 0), gradient - schedule.order[s].begin());
    }
  }
  EXPECT_GT(limited, 100);
}

/// A search that must find an order below some time finds the one without such a limit, or none if that one takes
/// longer.
TEST(Schedule, SearchedZeroBubbleShorterThan) {
  std::mt19937_64 random(29);
  int64_t found = 0, none = 0;
  for (int i = 0; i < 200; ++i) {
    const ScheduleKind kind = searchedKind(random);
    ScheduleOptions its =
        options(kind, 2 + static_cast<int64_t>(random() % 8), 1 + static_cast<int64_t>(random() % 40));
    its.durations.clear();
    for (int64_t s = 0; s < its.stages; ++s) {
      const double times = 1 + static_cast<double>(random() % 30) / 10;
      its.durations.push_back({times, 1.5 * times, 0.7 * times, static_cast<double>(i % 4) * 0.3});
    }
    if (i % 3 == 0)
      its.inFlight = {1 + static_cast<int64_t>(random() % 10)};
    const Schedule best = make(its);
    auto seconds = [&](int64_t stage, const Task &task) {
      const PassDurations &d = its.durations[stage];
      return task.kind == TaskKind::Forward         ? d.forward
             : task.kind == TaskKind::InputGradient ? d.inputGradient
                                                    : d.weightGradient;
    };
    const double span =
        runSchedule(best, seconds, [&](StageChunk, const Task &) { return its.durations[0].send; }).longestStageSpan;
    its.shorterThan = span * (0.8 + static_cast<double>(random() % 41) / 100);
    Result<Schedule> shorter = makeSchedule(its);
    EXPECT_EQ(static_cast<bool>(shorter), span < its.shorterThan) << "job " << i;
    if (shorter) {
      EXPECT_EQ(shorter->order, best.order) << "job " << i;
    }
    ++(shorter ? found : none);
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(none, 50);
}

TEST(Schedule, InFlightCounts) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t m = 1; m <= 20; ++m) {
      SCOPED_TRACE(testing::Message() << "p " << p << " m " << m);
      std::vector<int64_t> gpipe = check(make(options(ScheduleKind::GPipe, p, m)))->inFlight;
      std::vector<int64_t> oneFOneB = check(make(options(ScheduleKind::OneFOneB, p, m)))->inFlight;
      Result<ScheduleCheck> h1 = check(make(options(ScheduleKind::ZeroBubbleH1, p, m)));
      for (int64_t s = 0; s < p; ++s) {
        EXPECT_EQ(gpipe[s], m);
        EXPECT_EQ(oneFOneB[s], std::min(p - s, m)); // SC21 section 2.2.1: at most p
        EXPECT_LE(h1->inFlight[s], std::min(p, m));
        EXPECT_EQ(h1->inFlightInputGradient[s], std::min(p - s, m));
        EXPECT_EQ(maxInFlight(options(ScheduleKind::ZeroBubbleH1, p, m), s), static_cast<double>(std::min(p - s, m)));
        EXPECT_EQ(maxInFlight(options(ScheduleKind::OneFOneB, p, m), s), static_cast<double>(oneFOneB[s]));
      }
      for (auto [kind, limit] : {std::pair(ScheduleKind::ZeroBubble1P, p), {ScheduleKind::ZeroBubble2P, 2 * p}}) {
        ScheduleOptions o = options(ScheduleKind::ZeroBubbleH1, p, m);
        o.kind = kind;
        Result<ScheduleCheck> searched = check(make(o));
        for (int64_t count : searched->inFlight)
          EXPECT_LE(count, limit);
      }
    }
}

// Korthikanti et al. 2022, section 4.2.3: the first stage of an interleaved schedule holds L (1 + (p - 1) / (p v))
// layers, which is p v + p - 1 of its chunks of L / (p v) layers.
TEST(Schedule, InterleavedInFlight) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      EXPECT_EQ(check(make(options(ScheduleKind::Interleaved, p, 4 * p, v)))->inFlight[0], p * v + p - 1);
}

TEST(Schedule, RandomSizesNeverDeadlock) {
  for (int64_t p = 1; p <= 7; ++p)
    for (int64_t m = 1; m <= 23; ++m)
      for (int64_t v = 1; v <= 4; ++v) {
        SCOPED_TRACE(testing::Message() << "p " << p << " m " << m << " v " << v);
        Schedule schedule = make(options(ScheduleKind::Interleaved, p, m, v));
        size_t tasks = 0;
        for (const std::vector<Task> &order : schedule.order)
          tasks += order.size();
        EXPECT_EQ(tasks, size_t(2 * p * m * v));
      }
}

// Computed by hand for two stages, 2 microbatches, F 1, B 2, send 0.5. Stage 1: F0 1.5-2.5, B0 -4.5, F1 -5.5, B1 -7.5.
// Stage 0: F0 F1 until 2, B0 5-7, B1 8-10.
TEST(Schedule, TimesByHand) {
  Schedule schedule = make(options(ScheduleKind::OneFOneB, 2, 2));
  ScheduleTimes all = times(schedule, {1, 1, 1, 0.5});
  EXPECT_DOUBLE_EQ(all.makespan, 10);
  EXPECT_DOUBLE_EQ(all.tasks[1][1].end, 4.5);
  EXPECT_DOUBLE_EQ(all.tasks[0][3].start, 8);
  EXPECT_DOUBLE_EQ(all.longestStageSpan, 10);
}

TEST(Schedule, CheckFindsWhatIsWrong) {
  Schedule good = make(options(ScheduleKind::OneFOneB, 2, 3));
  auto message = [](const Schedule &schedule) {
    Result<ScheduleCheck> result = check(schedule);
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(message(good), "");
  Schedule twice = good;
  twice.order[0][1] = twice.order[0][0];
  EXPECT_NE(message(twice).find("F0 comes twice"), std::string::npos);
  Schedule missing = good;
  missing.order[1].pop_back();
  EXPECT_NE(message(missing).find("microbatch 2 of chunk 0 is not finished"), std::string::npos);
  Schedule early = good;
  std::swap(early.order[1][0], early.order[1][1]);
  EXPECT_NE(message(early).find("B0 comes before its input"), std::string::npos);
  // Stage 0 waits for the gradient of microbatch 0 before it sends microbatch 1, which stage 1 runs first.
  Schedule deadlock = good;
  std::swap(deadlock.order[0][1], deadlock.order[0][2]);
  std::swap(deadlock.order[0][2], deadlock.order[0][3]); // F0 B0 F2 F1 B1 B2
  std::rotate(deadlock.order[1].begin(), deadlock.order[1].begin() + 2, deadlock.order[1].begin() + 4);
  EXPECT_NE(message(deadlock).find("deadlock: stage"), std::string::npos) << message(deadlock);
  Schedule swapped = make(options(ScheduleKind::GPipe, 2, 2));
  std::swap(swapped.order[1][0], swapped.order[1][1]);
  EXPECT_NE(message(swapped).find("order their forward microbatches differently"), std::string::npos)
      << message(swapped);
}

TEST(Schedule, RefusesBadSizes) {
  EXPECT_FALSE(makeSchedule(options(ScheduleKind::OneFOneB, 0, 1)));
  EXPECT_FALSE(makeSchedule(options(ScheduleKind::OneFOneB, 2, 2, 2)));
  ScheduleOptions three = options(ScheduleKind::ZeroBubble2P, 2, 2);
  three.durations.resize(3); // for two stages
  EXPECT_FALSE(makeSchedule(three));
  EXPECT_FALSE(makeSchedule(options(ScheduleKind::OneFOneB, int64_t(1) << 40, int64_t(1) << 40)));
  EXPECT_FALSE(scheduleOptions("2f2b", "", 1, 1, 1));
  EXPECT_FALSE(scheduleOptions("1f1b", "h1", 1, 1, 1));
  EXPECT_FALSE(scheduleOptions("zero-bubble", "3p", 1, 1, 1));
  EXPECT_EQ(scheduleOptions("zero-bubble", "2p", 1, 1, 1)->kind, ScheduleKind::ZeroBubble2P);
}
