// SPDX-License-Identifier: Apache-2.0
// Intervals of predictions: one more simulation for each kind of work and direction.
#include "kerf/CostModel/Uncertainty.h"
#include "kerf/CostModel/Simulator.h"
#include "kerf/Support/Threads.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <optional>

using namespace kerf;

namespace {

// Spreads of the bytes of a stage, as shares: what stays for the whole step, activations, and temporary tensors with
// buffers; and of what the allocator and the libraries add (docs/cost-model.md, "Intervals").
constexpr double kSpreadOfStates = 0.06, kSpreadOfActivations = 0.10, kSpreadOfWorkspace = 0.5;
constexpr double kSpreadOfReserved = 0.05, kSpreadOfContext = 0.4;

// Spread of steps on the CPUs of the machine that Kerf runs on: half of 56 runs are predicted within 4.6 % and 90 %
// within 15.7 % (docs/cost-model.md, "This machine").
constexpr double kSpreadOfPrograms = 0.1;

/// From this many microbatches of all parts on, several threads predict. Fewer take less than a millisecond.
constexpr int64_t kPassesForThreads = 2'000;
/// The most microbatches of all parts that are predicted at once: a million of them takes about 100 MB.
constexpr int64_t kMostPasses = 2'000'000;
constexpr int64_t kMostThreads = 8;

/// Longer steps are predicted from two shorter ones: of this many microbatches for each part, and of half as many.
constexpr int64_t kMicrobatchesOfPart = 8;

/// Predicts the seconds of a step. An order that is not searched for repeats itself after a while: each further group
/// of `stages` microbatches then makes the step longer by the same time.
Result<double> secondsOf(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline) {
  auto simulated = [&](const StepPlan &its) {
    auto one = simulate(work, its, pipeline);
    return one ? Result<double>(one->stepSeconds) : one.error();
  };
  const ScheduleOptions &schedule = plan.schedule;
  const int64_t stages = schedule.stages, most = kMicrobatchesOfPart * stages * schedule.chunks;
  if (recordOf(schedule.kind).searched || schedule.microbatches < 2 * most)
    return simulated(plan);
  StepPlan longer = plan, shorter = plan;
  longer.order = shorter.order = nullptr;
  longer.schedule.microbatches = most + schedule.microbatches % stages;
  shorter.schedule.microbatches = longer.schedule.microbatches - most / 2;
  auto more = simulated(longer), less = simulated(shorter);
  if (!more || !less)
    return more ? less : more;
  const auto left = static_cast<double>(schedule.microbatches - longer.schedule.microbatches);
  return *more + left * (*more - *less) / static_cast<double>(most / 2);
}

Interval around(double median, double spread) {
  double factor = std::exp(kEightyPercent * spread);
  return {median / factor, median * factor};
}

double length(std::initializer_list<double> parts) {
  double sum = 0;
  for (double part : parts)
    sum += part * part;
  return std::sqrt(sum);
}

void scale(DeviceCurves &curves, WorkKind kind, double factor) {
  switch (kind) {
  case WorkKind::Products:
    curves.productEfficiency /= factor;
    curves.productMemory /= factor;
    return;
  case WorkKind::Attention:
    curves.attentionEfficiency /= factor;
    curves.vendorAttention /= factor;
    return;
  case WorkKind::Memory:
    curves.memoryEfficiency /= factor;
    curves.reductionMemory /= factor;
    curves.gatherMemory /= factor;
    curves.movementMemory /= factor;
    return;
  case WorkKind::Host:
    curves.issueScale *= factor;
    curves.launchSeconds *= factor;
    curves.collectiveSeconds *= factor;
    return;
  case WorkKind::LinksInside:
  case WorkKind::LinksBetween:
    return;
  }
}

void scale(Level &level, double factor) {
  level.bandwidth /= factor;
  level.nodeBandwidth /= factor;
  level.switchBandwidth /= factor;
  level.latency *= factor;
}

} // namespace

std::string_view kerf::toString(WorkKind kind) {
  constexpr std::string_view names[] = {"products", "attention",          "memory-bound kernels",
                                        "host",     "links inside nodes", "links between nodes"};
  return names[static_cast<size_t>(kind)];
}

const ByWorkKind &kerf::spreadOfKinds() {
  static constexpr ByWorkKind spreads = {0.055, 0.12, 0.24, 0.16, 0.14, 0.29};
  return spreads;
}

double kerf::spreadOfJob(const TrainerPrices &trainer) {
  return std::hypot(kSpreadOfJob, trainer.unmeasured ? kSpreadOfTrainer : 0);
}

Cluster kerf::withScaledWork(Cluster cluster, WorkKind kind, double factor) {
  scale(cluster.device.curves, kind, factor);
  for (size_t l = 0; l < cluster.levels.size(); ++l)
    if (kind == (l == 0 ? WorkKind::LinksInside : WorkKind::LinksBetween))
      scale(cluster.levels[l], factor);
  for (Cluster &group : cluster.groups)
    group = withScaledWork(std::move(group), kind, factor);
  if (kind == WorkKind::LinksBetween)
    for (GroupLink &link : cluster.groupLinks) {
      link.bandwidth /= factor;
      link.nodeBandwidth /= factor;
      link.latency *= factor;
    }
  return cluster;
}

double kerf::exceededAtRisk(Interval interval, double risk) {
  if (interval.low <= 0)
    return interval.high;
  // The quantile of the standard normal distribution, by bisection of its distribution function.
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < 1 - risk ? low : high) = middle;
  }
  double spread = std::log(interval.high / interval.low) / (2 * kEightyPercent);
  return std::sqrt(interval.low * interval.high) * std::exp(low * spread);
}

std::pair<Interval, Interval> kerf::memoryIntervals(const StageMemory &memory, const DeviceSpec &device) {
  if (device.kind == "cpu") // the arena is planned ahead
    return {{memory.peakBytes, memory.peakBytes}, {memory.deviceBytes, memory.deviceBytes}};
  double bytes = length({kSpreadOfStates * (memory.weights + memory.gradients + memory.states),
                         kSpreadOfActivations * memory.activations, kSpreadOfWorkspace * memory.workspace});
  double more = length({bytes, kSpreadOfReserved * memory.peakBytes, kSpreadOfContext * device.curves.contextBytes});
  double peak = std::max(memory.peakBytes, 1.0), whole = std::max(memory.deviceBytes, 1.0);
  return {around(memory.peakBytes, bytes / peak), around(memory.deviceBytes, more / whole)};
}

Result<Uncertainty> kerf::uncertaintyOf(const StepWork &work, const StepPlan &plan, const Cluster &cluster,
                                        const MakePipeline &make, const Simulation &simulation) {
  Uncertainty result;
  StepPlan ordered = plan; // a plan keeps its order of tasks, whatever their times turn out to be
  ordered.order = &simulation.schedule;
  double variance = std::pow(kSpreadOfPlan, 2) + std::pow(spreadOfJob(plan.trainer), 2);
  // Every kind of work once faster and once slower; each of these predictions is independent of the others.
  std::array<std::optional<Result<double>>, 2 * kWorkKinds> seconds;
  auto scaledSeconds = [&](size_t i) -> Result<double> {
    const double factor = std::exp((i % 2 ? 1 : -1) * spreadOfKinds()[i / 2]);
    auto pipeline = make(withScaledWork(cluster, static_cast<WorkKind>(i / 2), factor));
    if (!pipeline)
      return pipeline.error();
    return secondsOf(work, ordered, *pipeline);
  };
  const Schedule &order = simulation.schedule;
  const int64_t passes = order.stages * order.microbatches * order.chunks;
  const int64_t threads = passes < kPassesForThreads ? 1 : std::clamp<int64_t>(kMostPasses / passes, 1, kMostThreads);
  std::atomic<size_t> next = 0;
  onThreads(static_cast<unsigned>(threads), [&] {
    for (size_t i = next++; i < seconds.size(); i = next++)
      seconds[i] = scaledSeconds(i);
  });
  for (size_t k = 0; k < kWorkKinds; ++k) {
    const Result<double> &faster = *seconds[2 * k], &slower = *seconds[2 * k + 1];
    for (const Result<double> *one : {&faster, &slower})
      if (!*one)
        return one->error();
    result.changes[k] = (std::log(*slower) - std::log(*faster)) / 2;
    variance += result.changes[k] * result.changes[k];
  }
  result.spread = std::sqrt(variance);
  result.stepSeconds = around(simulation.stepSeconds, result.spread);
  auto nominal = make(cluster);
  if (!nominal)
    return nominal.error();
  for (size_t s = 0; s < simulation.memory.size(); ++s) {
    auto [peak, device] = memoryIntervals(simulation.memory[s], nominal->device(static_cast<int64_t>(s)));
    result.peakBytes.push_back(peak);
    result.deviceBytes.push_back(device);
  }
  return result;
}

Uncertainty kerf::uncertaintyOfProgram(const Simulation &simulation) {
  Uncertainty result;
  result.spread = kSpreadOfPrograms;
  result.stepSeconds = around(simulation.stepSeconds, result.spread);
  for (const StageMemory &memory : simulation.memory) {
    result.peakBytes.push_back({memory.peakBytes, memory.peakBytes});
    result.deviceBytes.push_back({memory.deviceBytes, memory.deviceBytes});
  }
  return result;
}

void kerf::recenter(Uncertainty &uncertainty, const Simulation &simulation) {
  auto move = [](Interval &interval, double median) {
    double factor = interval.low > 0 ? std::sqrt(interval.high / interval.low) : 1;
    interval = {median / factor, median * factor};
  };
  move(uncertainty.stepSeconds, simulation.stepSeconds);
  for (size_t s = 0; s < simulation.memory.size(); ++s) {
    move(uncertainty.peakBytes[s], simulation.memory[s].peakBytes);
    move(uncertainty.deviceBytes[s], simulation.memory[s].deviceBytes);
  }
}

bool kerf::isTie(const Uncertainty &faster, const Uncertainty &slower) {
  double variance = 2 * kSpreadOfPlan * kSpreadOfPlan;
  for (size_t k = 0; k < kWorkKinds; ++k) {
    double difference = slower.changes[k] - faster.changes[k];
    variance += difference * difference;
  }
  double ratio = std::log(slower.stepSeconds.low * slower.stepSeconds.high) / 2 -
                 std::log(faster.stepSeconds.low * faster.stepSeconds.high) / 2;
  return ratio < kEightyPercent * std::sqrt(variance);
}
