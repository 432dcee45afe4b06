// SPDX-License-Identifier: Apache-2.0
#include "Space.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kerf::plansearch {

namespace {

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= n / d; ++d)
    if (n % d == 0) {
      list.push_back(d);
      if (d != n / d)
        list.push_back(n / d);
    }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<int64_t> upTo(int64_t n) {
  std::vector<int64_t> list(n);
  std::iota(list.begin(), list.end(), 1);
  return list;
}

} // namespace

Space::Space(const PlanSearchOptions &options, const TrainingJob &job, int64_t ranks, int64_t layers)
    : options(options), given(options.constraints), available(ranks), layerCount(layers),
      batch(job.exportedBatch ? job.exportedBatch
            : job.globalBatch ? job.globalBatch
                              : options.constraints.globalBatch) {}

/// The pinned size, or all that are offered.
std::vector<int64_t> Space::sizes(const char *axis, const std::vector<int64_t> &all) const {
  auto pinned = given.meshSizes.find(axis);
  return pinned == given.meshSizes.end() ? all : std::vector<int64_t>{pinned->second};
}

Result<std::vector<Choice>> Space::meshes() const {
  if (batch <= 0)
    return Error{"the global batch is not known; give --global-batch or \"global_batch\" in the constraints"};
  std::vector<Choice> list;
  std::vector<int64_t> ofBatch = divisors(batch);
  Frame frame;
  for (int64_t model : sizes("model", options.modelSizes))
    for (int64_t context : sizes("context", {1}))
      for (int64_t expert : sizes("expert", {1}))
        for (int64_t stage : sizes("stage", upTo(std::max<int64_t>(1, std::min(layerCount, available)))))
          for (int64_t data : sizes("data", ofBatch)) {
            frame = {stage, data, context, expert, model};
            if (data > available || frame.ranks() > available || batch % (data * expert) != 0)
              continue;
            Choice choice;
            choice.frame = frame;
            list.push_back(choice);
          }
  if (list.empty())
    return Error{fmt::format("{}: no mesh of at most {} ranks is left whose \"data\" divides the global batch of {}; "
                             "free an axis or change the batch",
                             options.constraintsFile, available, batch)};
  return list;
}

std::vector<Choice> Space::layouts(const Choice &mesh) const {
  std::vector<Choice> list;
  std::vector<bool> sequence = {false};
  if (!given.sequenceParallel.empty())
    sequence = {given.sequenceParallel.front()};
  else if (mesh.frame.model > 1)
    sequence = {true, false};
  int64_t group = batch / (mesh.frame.data * mesh.frame.expert);
  for (int64_t microbatch : divisors(group)) {
    if (given.microbatch && microbatch != given.microbatch)
      continue;
    for (bool parallel : sequence) {
      Choice choice = mesh;
      choice.level = Choice::Level::Layout;
      choice.microbatch = microbatch;
      choice.sequenceParallel = parallel;
      list.push_back(std::move(choice));
    }
  }
  return list;
}

std::vector<Choice> Space::executions(const Choice &layout) const {
  int64_t stages = layout.frame.stage, count = microbatches(layout);
  std::vector<Pipelining> pipelinings;
  auto offer = [&](const char *name, const char *variant, int64_t chunks) {
    const SchedulePlan &pinned = given.schedule;
    if ((pinned.name.empty() || pinned.name == name) && (pinned.chunks == 0 || pinned.chunks == chunks) &&
        (pinned.variant.empty() || pinned.variant == variant))
      pipelinings.push_back({name, variant, chunks});
  };
  offer("1f1b", "", 1);
  if (stages > 1) {
    for (int64_t chunks = 2; chunks * stages <= layerCount && count % stages == 0; ++chunks)
      offer("interleaved", "", chunks);
    for (const char *variant : {"h1", "1p", "2p"})
      offer("zero-bubble", variant, 1);
  }
  if (stages > 1 || given.schedule.name == "gpipe")
    offer("gpipe", "", 1);

  std::vector<std::vector<int64_t>> shardings;
  if (!given.optimizerSharding.empty())
    shardings = {given.optimizerSharding};
  else if (layout.frame.data * layout.frame.context * layout.frame.expert == 1)
    shardings = {{0}};
  else
    shardings = {{0}, {1}, {2}, {3}};

  std::vector<std::vector<std::string>> orders;
  if (!given.order.empty()) {
    orders = {given.order};
  } else {
    const int64_t ofAxes[] = {layout.frame.stage, layout.frame.data, layout.frame.context, layout.frame.expert,
                              layout.frame.model};
    std::vector<int> used;
    for (int axis = 0; axis < static_cast<int>(std::size(ofAxes)); ++axis)
      if (ofAxes[axis] > 1)
        used.push_back(axis);
    do {
      std::vector<std::string> names;
      for (int axis : used)
        names.push_back(kPlanAxes[axis]);
      for (int axis = 0; axis < static_cast<int>(std::size(ofAxes)); ++axis)
        if (ofAxes[axis] == 1)
          names.push_back(kPlanAxes[axis]);
      orders.push_back(std::move(names));
    } while (std::next_permutation(used.begin(), used.end()));
  }

  std::vector<Choice> list;
  for (const auto &order : orders)
    for (const Pipelining &pipelining : pipelinings)
      for (const auto &sharding : shardings) {
        Choice choice = layout;
        choice.level = Choice::Level::Execution;
        choice.order = order;
        choice.pipelining = pipelining;
        choice.optimizerSharding = sharding;
        list.push_back(std::move(choice));
      }
  return list;
}

std::vector<Choice> Space::cuts(const Choice &execution) const {
  Choice choice = execution;
  choice.level = Choice::Level::Cut;
  int64_t parts = execution.frame.stage * execution.pipelining.chunks;
  if (parts == 1 || !given.stages.empty()) {
    choice.first = choice.last = layerCount;
    return {choice};
  }
  std::vector<Choice> list;
  int64_t most = layerCount / parts + (layerCount % parts != 0) + 1;
  for (choice.first = 1; choice.first <= most; ++choice.first)
    for (choice.last = 1; choice.last <= most; ++choice.last) {
      int64_t between = layerCount - choice.first - choice.last;
      if (parts == 2 ? between == 0 : between >= parts - 2)
        list.push_back(choice);
    }
  return list;
}

std::vector<int64_t> Space::layersOfParts(const Choice &choice) const {
  int64_t parts = choice.frame.stage * choice.pipelining.chunks;
  if (parts == 1)
    return {layerCount};
  std::vector<int64_t> layers = {choice.first};
  int64_t between = layerCount - choice.first - choice.last;
  for (int64_t i = 0; i < parts - 2; ++i)
    layers.push_back(between / (parts - 2) + (i < between % (parts - 2) ? 1 : 0));
  layers.push_back(choice.last);
  return layers;
}

Plan Space::plan(const Choice &choice) const {
  Plan plan = given;
  const int64_t ofAxes[] = {choice.frame.stage, choice.frame.data, choice.frame.context, choice.frame.expert,
                            choice.frame.model};
  for (int axis = 0; axis < static_cast<int>(std::size(ofAxes)); ++axis)
    plan.meshSizes[kPlanAxes[axis]] = ofAxes[axis];
  plan.globalBatch = batch;
  plan.microbatch = choice.microbatch;
  plan.sequenceParallel = {choice.sequenceParallel};
  if (choice.level < Choice::Level::Execution)
    return plan;
  plan.order = choice.order;
  plan.schedule = {choice.pipelining.name, choice.pipelining.chunks, choice.pipelining.variant};
  plan.optimizerSharding = choice.optimizerSharding;
  if (!choice.recompute.empty())
    plan.recompute = choice.recompute;
  if (choice.level < Choice::Level::Cut || !given.stages.empty() || layerCount == 0)
    return plan;
  int64_t next = 0, stages = choice.frame.stage;
  std::vector<int64_t> layers = layersOfParts(choice);
  for (int64_t p = 0; p < static_cast<int64_t>(layers.size()); ++p) {
    plan.stages.push_back({std::pair(next, next + layers[p] - 1), p % stages, p / stages});
    next += layers[p];
  }
  return plan;
}

} // namespace kerf::plansearch
