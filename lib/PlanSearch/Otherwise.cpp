// SPDX-License-Identifier: Apache-2.0
#include "Otherwise.h"

#include <algorithm>
#include <numeric>

namespace kerf::plansearch {

namespace {

int64_t sizeOf(const Plan &plan, const char *axis) {
  auto its = plan.meshSizes.find(axis);
  return its == plan.meshSizes.end() ? 1 : its->second;
}

} // namespace

std::optional<Recompute> uniformRecomputeOf(const Plan &plan) {
  if (!plan.recomputeLayers.empty() || plan.recompute.empty())
    return std::nullopt;
  bool alike = std::all_of(plan.recompute.begin(), plan.recompute.end(),
                           [&](Recompute its) { return its == plan.recompute.front(); });
  return alike ? std::optional(plan.recompute.front()) : std::nullopt;
}

Otherwise::Otherwise(const Plan &than, std::vector<std::string> keys)
    : asked(std::move(keys)), frame{sizeOf(than, "stage"), sizeOf(than, "data"), sizeOf(than, "context"),
                                    sizeOf(than, "expert"), sizeOf(than, "model")},
      microbatch(than.microbatch), chunks(std::max<int64_t>(1, than.schedule.chunks)),
      sequenceParallel(!than.sequenceParallel.empty() && than.sequenceParallel.front()),
      solved(than.layout == OpLayout::Solved), ulysses(than.contextStyle == ContextStyle::Ulysses),
      schedule(than.schedule), optimizerSharding(than.optimizerSharding.empty() ? 0 : than.optimizerSharding.front()),
      uniform(uniformRecomputeOf(than)) {
  for (const MeshAxis &axis : than.mesh().axes)
    order.push_back(axis.name);
  layersOfParts.assign(frame.stage * chunks, 0);
  for (const StageLayers &run : than.stages)
    if (int64_t part = run.chunk * frame.stage + run.stage;
        run.layers && part < static_cast<int64_t>(layersOfParts.size()))
      layersOfParts[part] = run.layers->second - run.layers->first + 1;
}

Questions Otherwise::bit(std::string_view key) const {
  auto its = std::find(asked.begin(), asked.end(), key);
  return its == asked.end() ? 0 : static_cast<Questions>(1U << (its - asked.begin()));
}

bool Otherwise::sameOrder(const Choice &choice) const {
  auto sizes = choice.frame.sizes();
  size_t next = 0;
  for (int8_t axis : choice.order)
    if (sizes[axis] > 1 && (next >= order.size() || order[next++] != kPlanAxes[axis]))
      return false;
  return next == order.size();
}

bool Otherwise::sameSchedule(const Choice &choice) const {
  const ScheduleRecord &its = recordOf(choice.schedule);
  return its.name == schedule.name && its.variant == schedule.variant && choice.chunks == chunks;
}

Questions Otherwise::answered(const Choice &choice, const Space &space) const {
  Questions left = choice.questions;
  auto needs = [&](const char *key, bool otherwise) {
    if (!otherwise)
      left &= static_cast<Questions>(~bit(key));
  };
  const Frame &its = choice.frame;
  switch (choice.level) {
  case Choice::Level::Mesh:
    needs("mesh.stage", its.stage != frame.stage);
    needs("mesh.data", its.data != frame.data);
    needs("mesh.context", its.context != frame.context);
    needs("mesh.expert", its.expert != frame.expert);
    needs("mesh.model", its.model != frame.model);
    needs("order", its.sizes() == frame.sizes());
    needs("stages", its.stage == frame.stage);
    needs("sequence_parallel", its.model > 1);
    needs("layout", its.model > 1);
    needs("context_style", its.context > 1);
    break;
  case Choice::Level::Layout:
    needs("microbatch", choice.microbatch != microbatch);
    needs("sequence_parallel", choice.sequenceParallel != sequenceParallel);
    needs("layout", choice.solved != solved);
    needs("context_style", choice.ulysses != ulysses);
    if (space.dataDoesTheSame(choice)) // but for questions whose pins hold one of these values
      left &= static_cast<Questions>(bit("mesh.data") | bit("mesh.context") | bit("microbatch") | bit("order") |
                                     bit("context_style") | bit("optimizer_sharding"));
    break;
  case Choice::Level::Order:
    needs("order", !sameOrder(choice));
    break;
  case Choice::Level::Execution:
    needs("schedule", !sameSchedule(choice));
    needs("optimizer_sharding", choice.optimizerSharding != optimizerSharding);
    needs("stages", choice.chunks == chunks);
    break;
  case Choice::Level::Cut:
    if (left & bit("stages"))
      needs("stages", space.layersOfParts(choice) != layersOfParts);
    break;
  case Choice::Level::Ready:
    break; // the search asks for other recomputation by itself
  }
  return left;
}

Plan pinsOfAlternative(const std::string &key, const Plan &other, const Plan &than) {
  Plan pins;
  auto pinAxis = [&](const char *axis) { pins.meshSizes[axis] = sizeOf(other, axis); };
  if (key.starts_with("mesh.")) {
    pinAxis(key.substr(5).c_str());
  } else if (key == "order") {
    pins.meshSizes = other.meshSizes;
    pins.order = other.order;
  } else if (key == "microbatch") {
    pins.microbatch = other.microbatch;
  } else if (key == "schedule") {
    pins.schedule.name = other.schedule.name;
    if (other.schedule.name == than.schedule.name)
      pins.schedule = other.schedule;
    // Else a plan of one stage has it too, to which it means nothing.
    if (findSchedule(other.schedule.name, "")->singleStage == SingleStage::WhenNamed)
      pinAxis("stage");
  } else if (key == "stages") {
    pinAxis("stage");
    pins.schedule.chunks = other.schedule.chunks;
    pins.stages = other.stages;
  } else if (key == "recompute") {
    pins.recompute = {*uniformRecomputeOf(other)};
  } else if (key == "optimizer_sharding") {
    pins.optimizerSharding = other.optimizerSharding;
    if (other.optimizerSharding.front() > 0) // without ranks that share something it means nothing
      for (const char *axis : {"data", "context", "expert"})
        if (sizeOf(other, axis) > 1) {
          pinAxis(axis);
          break;
        }
  } else if (key == "sequence_parallel" || key == "layout") {
    pinAxis("model");
    if (other.layout == OpLayout::Solved)
      pins.layout = other.layout;
    else if (key == "layout")
      pins.layout = OpLayout::Megatron;
    else
      pins.sequenceParallel = other.sequenceParallel;
  } else if (key == "context_style") {
    pinAxis("context");
    pins.contextStyle = other.contextStyle;
  }
  if (std::gcd(other.microbatch, sizeOf(other, "context")) > 1) // else Space::dataDoesTheSame leaves it out
    pinAxis("context");
  return pins;
}

} // namespace kerf::plansearch
