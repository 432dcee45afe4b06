// SPDX-License-Identifier: Apache-2.0
#include "DecisionQuestions.h"

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

DecisionQuestions::DecisionQuestions(const Plan &baseline, std::vector<std::string> keys)
    : theKeys(std::move(keys)), sizes{sizeOf(baseline, "stage"), sizeOf(baseline, "data"), sizeOf(baseline, "context"),
                                      sizeOf(baseline, "expert"), sizeOf(baseline, "model")},
      microbatch(baseline.microbatch), chunks(std::max<int64_t>(1, baseline.schedule.chunks)),
      sequenceParallel(!baseline.sequenceParallel.empty() && baseline.sequenceParallel.front()),
      solved(baseline.layout == OpLayout::Solved), ulysses(baseline.contextStyle == ContextStyle::Ulysses),
      schedule(baseline.schedule),
      optimizerSharding(baseline.optimizerSharding.empty() ? 0 : baseline.optimizerSharding.front()),
      uniform(uniformRecomputeOf(baseline)) {
  for (const MeshAxis &axis : baseline.mesh().axes)
    order.push_back(axis.name);
  layersOfParts.assign(sizes.stage * chunks, 0);
  for (const StageLayers &run : baseline.stages)
    if (int64_t part = run.chunk * sizes.stage + run.stage;
        run.layers && part < static_cast<int64_t>(layersOfParts.size()))
      layersOfParts[part] = run.layers->second - run.layers->first + 1;
}

QuestionSet DecisionQuestions::bit(std::string_view key) const {
  auto its = std::find(theKeys.begin(), theKeys.end(), key);
  return its == theKeys.end() ? 0 : static_cast<QuestionSet>(1U << (its - theKeys.begin()));
}

bool DecisionQuestions::sameOrder(const Choice &choice) const {
  auto sizes = choice.sizes.asArray();
  size_t next = 0;
  for (int8_t axis : choice.order)
    if (sizes[axis] > 1 && (next >= order.size() || order[next++] != kPlanAxes[axis]))
      return false;
  return next == order.size();
}

bool DecisionQuestions::sameSchedule(const Choice &choice) const {
  const ScheduleRecord &its = recordOf(choice.schedule);
  return its.name == schedule.name && its.variant == schedule.variant && choice.chunks == chunks;
}

QuestionSet DecisionQuestions::answerable(const Choice &choice, const Space &space) const {
  QuestionSet left = choice.questions;
  auto needs = [&](const char *key, bool otherwise) {
    if (!otherwise)
      left &= static_cast<QuestionSet>(~bit(key));
  };
  const AxisSizes &its = choice.sizes;
  switch (choice.level) {
  case Choice::Level::Mesh:
    needs("mesh.stage", its.stage != sizes.stage);
    needs("mesh.data", its.data != sizes.data);
    needs("mesh.context", its.context != sizes.context);
    needs("mesh.expert", its.expert != sizes.expert);
    needs("mesh.model", its.model != sizes.model);
    needs("order", its.asArray() == sizes.asArray());
    needs("stages", its.stage == sizes.stage);
    needs("sequence_parallel", its.model > 1);
    needs("layout", its.model > 1);
    needs("context_style", its.context > 1);
    break;
  case Choice::Level::Layout:
    needs("microbatch", choice.microbatch != microbatch);
    needs("sequence_parallel", choice.sequenceParallel != sequenceParallel);
    needs("layout", choice.solved != solved);
    needs("context_style", choice.ulysses != ulysses);
    if (space.dataAxisDominates(choice)) // the pins of these questions keep such layouts in the space
      left &= static_cast<QuestionSet>(bit("mesh.data") | bit("mesh.context") | bit("microbatch") | bit("order") |
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
  case Choice::Level::Recomputation:
    break; // TreeSearch::decideRecomputation compares the recomputation
  }
  return left;
}

Plan pinsOfAlternative(const std::string &key, const Plan &other, const Plan &baseline) {
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
    if (other.schedule.name == baseline.schedule.name)
      pins.schedule = {other.schedule.name, other.schedule.chunks, other.schedule.variant, {}};
    // Without a pinned number of stages, plans of one stage would match, for which the schedule has no effect.
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
    if (other.optimizerSharding.front() > 0) // it has no effect without ranks that hold the same parameters
      for (const char *axis : {"data", "context", "expert"})
        if (sizeOf(other, axis) > 1) {
          pinAxis(axis);
          break;
        }
  } else if (key == "sequence_parallel" || key == "layout") {
    pinAxis("model");
    if (other.layout == OpLayout::Solved) {
      pins.layout = other.layout;
      pinAxis("expert"); // only a pinned layout of this kind is searched on meshes with "expert"
    } else if (key == "layout")
      pins.layout = OpLayout::Megatron;
    else
      pins.sequenceParallel = other.sequenceParallel;
  } else if (key == "context_style") {
    pinAxis("context");
    pins.contextStyle = other.contextStyle;
  }
  if (std::gcd(other.microbatch, sizeOf(other, "context")) > 1) // otherwise Space::dataAxisDominates omits the layout
    pinAxis("context");
  return pins;
}

} // namespace kerf::plansearch
