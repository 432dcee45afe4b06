// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/TrainerPins.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

namespace {

template <typename Values, typename Value> bool has(const Values &values, const Value &value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::vector<std::string> scheduleWords(const TrainerSpace &can) {
  std::vector<std::string> words;
  for (ScheduleKind kind : can.schedules) {
    const ScheduleRecord &record = recordOf(kind);
    words.push_back(scheduleText(record.name, record.variant, 1));
  }
  return words;
}

bool runsSchedule(const TrainerSpace &can, const SchedulePlan &pinned) {
  return pinned.name.empty() || can.schedules.empty() ||
         std::any_of(can.schedules.begin(), can.schedules.end(), [&](ScheduleKind kind) {
           const ScheduleRecord &record = recordOf(kind);
           return record.name == pinned.name && (pinned.variant.empty() || pinned.variant == record.variant);
         });
}

/// Returns the first recomputation mode of the pins that the trainer lacks.
std::optional<Recompute> foreignRecompute(const TrainerSpace &can, const Plan &pins) {
  std::vector<Recompute> asked = pins.recompute;
  for (const LayerRecompute &layers : pins.recomputeLayers)
    if (layers.mode != Recompute::Offload || !can.offloadsAllButLast)
      asked.push_back(layers.mode);
  auto foreign = std::find_if(asked.begin(), asked.end(), [&](Recompute mode) { return !has(can.recompute, mode); });
  return foreign == asked.end() ? std::nullopt : std::optional(*foreign);
}

} // namespace

std::vector<LayerRecompute> allButLastOffloaded(int64_t layers) {
  return {{layers == 2 ? "0" : fmt::format("0-{}", layers - 2), Recompute::Offload}};
}

Status adaptOffload(const Trainer &trainer, int64_t layers, Plan &pins, const std::string &where) {
  if (!trainer.space.offloadsAllButLast || layers < 2)
    return ok();
  if (pins.recompute == std::vector{Recompute::Offload}) {
    pins.recompute.clear();
    pins.recomputeLayers = allButLastOffloaded(layers);
  }
  bool offloads = has(pins.recompute, Recompute::Offload);
  for (const LayerRecompute &rule : pins.recomputeLayers)
    offloads |= rule.mode == Recompute::Offload;
  if (!offloads || (pins.recompute.empty() && pins.recomputeLayers == allButLastOffloaded(layers)))
    return ok();
  return Error{fmt::format("{}: {} keeps the activations of all layers but the last in the host's memory, or of none, "
                           "and recomputes nothing beside; pin \"recompute\": \"offload\"",
                           where, trainer.title)};
}

Status checkMachines(const Trainer &trainer, const Cluster &cluster) {
  if (trainer.ownPrograms)
    return ok();
  if (cluster.mixed() && !trainer.space.mixedClusters)
    return Error{fmt::format("{} gives all ranks the same arguments, but cluster '{}' has {} groups of devices; plan "
                             "for one of the groups, or with <for> {}",
                             trainer.title, cluster.name, cluster.groups.size(), ownTrainer().name)};
  if (!cluster.mixed() && cluster.device.kind == "cpu")
    return Error{fmt::format("{} does not train on CPUs, which '{}' has; give <cluster> with accelerators, or <for> {}",
                             trainer.title, cluster.name, ownTrainer().name)};
  return ok();
}

Status checkTrainer(const Trainer &trainer, const Cluster &cluster, const std::string &dtype,
                    const std::string &optimizer) {
  if (Status machines = checkMachines(trainer, cluster); !machines)
    return machines;
  const TrainerSpace &can = trainer.space;
  if (!can.dtypes.empty() && !has(can.dtypes, dtype))
    return Error{
        fmt::format("{} does not train in {}; give <dtype> {}", trainer.title, dtype, fmt::join(can.dtypes, ", "))};
  if (!can.optimizers.empty() && !has(can.optimizers, optimizer))
    return Error{fmt::format("plans for {} use the optimizer {}, not {}; give <optimizer> {}", trainer.title,
                             fmt::join(can.optimizers, ", "), optimizer, can.optimizers.front())};
  return ok();
}

Status checkPins(const Trainer &trainer, const Plan &pins, const std::string &where) {
  const TrainerSpace &can = trainer.space;
  if (auto states = pins.optimizerStates;
      states && *states != OptimizerStates::Device && !has(can.optimizerStates, *states))
    return Error{fmt::format("{}: optimizer_states is {}, which plans for {} with this optimizer cannot have; leave it "
                             "out, or give <for> megatron and <optimizer> adamw",
                             where, toString(*states), trainer.title)};
  if (pins.overlap && has(*pins.overlap, "experts") && !can.overlapsExperts)
    return Error{fmt::format("{}: overlap has \"experts\", which {} does not run; leave it out, or give <for> megatron",
                             where, trainer.title)};
  if (trainer.ownPrograms) // Kerf runs plans beyond its search space too
    return ok();
  auto wrong = [&](const std::string &what, const std::string &way) {
    return Error{fmt::format("{}: {}, which {} does not run; {}, or give <for> {}", where, what, trainer.title, way,
                             ownTrainer().name)};
  };
  if (!can.solvedLayout && pins.layout == OpLayout::Solved)
    return wrong("layout is solved", "leave it out");
  if (!pins.ops.empty() || !pins.arguments.empty() || !pins.recomputeOps.empty())
    return wrong("ops and arguments pin single operators", "leave them out");
  if (!runsSchedule(can, pins.schedule))
    return wrong(fmt::format("schedule is {}", scheduleText(pins.schedule.name, pins.schedule.variant, 1)),
                 fmt::format("it runs {}", fmt::join(scheduleWords(can), ", ")));
  if (pins.contextStyle && !has(can.contextStyles, *pins.contextStyle)) {
    std::vector<std::string_view> runs;
    for (ContextStyle style : can.contextStyles)
      runs.push_back(toString(style));
    return wrong(fmt::format("context_style is {}", toString(*pins.contextStyle)),
                 fmt::format("it runs {}", fmt::join(runs, ", ")));
  }
  for (int64_t level : pins.optimizerSharding)
    if (!has(can.optimizerShardings, static_cast<int>(level)))
      return wrong(fmt::format("optimizer_sharding is {}", level),
                   fmt::format("it has {}", fmt::join(can.optimizerShardings, ", ")));
  if (auto mode = foreignRecompute(can, pins))
    return wrong(fmt::format("recompute is {}", toString(*mode)), "leave it out");
  if (can.recomputeForm == RecomputeForm::AllAlike && (pins.recompute.size() > 1 || !pins.recomputeLayers.empty()))
    return wrong("recompute differs from layer to layer", "give one value");
  if (!can.tensorWithoutSequence && !pins.sequenceParallel.empty() && !pins.sequenceParallel.front())
    return wrong("sequence_parallel is false", "leave it out");
  return ok();
}

} // namespace kerf
