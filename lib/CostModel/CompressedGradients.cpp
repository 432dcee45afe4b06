// SPDX-License-Identifier: Apache-2.0
#include "kerf/CostModel/CompressedGradients.h"
#include "TaskCost.h"
#include "kerf/CostModel/Compute.h"

#include <algorithm>

namespace kerf {

using namespace compression;

namespace {
constexpr double kFastLinkShare = 1.0 / 16; // of the memory's bandwidth; NVLink has 1/9 to 1/6, PCIe less than 1/60
} // namespace

std::vector<GradientOfPart> gradientsOf(const Part &part) {
  std::vector<GradientOfPart> gradients;
  for (size_t s = 0; s < part.segments.size(); ++s)
    for (int64_t layer = 0; layer < part.segments[s].repeat; ++layer)
      for (const ParameterGroup &group : part.segments[s].parameters)
        gradients.push_back({gradients.size(), s, layer, &group});
  return gradients;
}

CodecCurve codecCurve(const CollectiveModel &collectives, const CodecRecord &codec) {
  const DeviceSpec &device = collectives.cluster().device;
  double shared = oversubscription(device, collectives.mesh().ranks());
  if (auto measured = device.codecs.find(codec.name); measured != device.codecs.end()) {
    CodecCurve curve = measured->second;
    for (double *seconds : {&curve.encodeStart, &curve.encodePerByte, &curve.decodeStart, &curve.decodePerByte})
      *seconds *= shared;
    return curve;
  }
  if (device.kind == "cpu")
    return coreCurve(codec, shared);
  return memoryBoundCurve(codec, device.curves.memoryEfficiency * device.memoryBandwidth, device.curves.launchSeconds);
}

bool linkIsTooFast(const CollectiveModel &collectives, const std::vector<AxisRef> &axes) {
  const Cluster &cluster = collectives.cluster();
  if (cluster.device.kind == "cpu" || !cluster.device.codecs.empty() || cluster.levels.empty())
    return false;
  const GroupShape &shape = collectives.group(axes);
  bool inNode = std::all_of(shape.levels.begin(), shape.levels.end(), [](auto &level) { return level.innermost; });
  return inNode && cluster.levels.front().bandwidth >= kFastLinkShare * cluster.device.memoryBandwidth;
}

HierarchyAxes hierarchyAxes(const CollectiveModel &collectives, const std::vector<AxisRef> &axes) {
  std::vector<AxisRef> sorted = axes;
  std::sort(sorted.begin(), sorted.end()); // the innermost axis, whose ranks are neighbours, comes last
  auto isInNode = [&](const std::vector<AxisRef> &some) {
    const GroupShape &shape = collectives.group(some);
    return std::all_of(shape.levels.begin(), shape.levels.end(), [](const auto &level) { return level.innermost; });
  };
  HierarchyAxes found{{}, sorted};
  if (isInNode(sorted))
    return found;
  while (!found.outer.empty()) {
    AxisRef ref = found.outer.back();
    int64_t taken = 1; // the largest divisor of the axis whose inner ranks share a node
    for (int64_t size = 2; size <= ref.size; ++size) {
      if (ref.size % size != 0)
        continue;
      std::vector<AxisRef> tried = found.inner;
      tried.insert(tried.begin(), AxisRef{ref.axis, ref.before * (ref.size / size), size});
      if (isInNode(tried))
        taken = size;
    }
    if (taken > 1)
      found.inner.insert(found.inner.begin(), AxisRef{ref.axis, ref.before * (ref.size / taken), taken});
    if (taken < ref.size) {
      found.outer.back() = AxisRef{ref.axis, ref.before, ref.size / taken};
      break;
    }
    found.outer.pop_back();
  }
  return found;
}

SyncNetwork syncNetwork(const CollectiveModel &collectives, const std::vector<AxisRef> &axes) {
  HierarchyAxes hierarchy = hierarchyAxes(collectives, axes);
  SyncNetwork network;
  network.members = std::max<int64_t>(1, shardCount(axes));
  network.innerMembers = hierarchy.inner.empty() ? 1 : shardCount(hierarchy.inner);
  network.seconds = [&collectives, axes, hierarchy](Collective collective, Reach reach, double bytes) {
    const std::vector<AxisRef> &over = reach == Reach::All     ? axes
                                       : reach == Reach::Inner ? hierarchy.inner
                                                               : hierarchy.outer;
    return bytes > 0 ? collectives.seconds(collective, over, bytes) : 0;
  };
  return network;
}

SyncGradient syncGradient(const ParameterGroup &group, const StepPlan &plan, int sharding) {
  SyncGradient gradient;
  gradient.shape = group.shape;
  if (gradient.shape.empty())
    gradient.shape = {static_cast<int64_t>(group.elements)};
  gradient.plainWidth = sharding >= 2 ? plan.bytes.weight : plan.bytes.gradient;
  gradient.sharded = sharding >= 1;
  gradient.elementsTogether = plan.trainer.bucketBytes / gradient.plainWidth;
  return gradient;
}

double compressionStateBytes(const SyncChoice &choice, const ParameterGroup &group) {
  if (!choice.codec)
    return 0;
  double members = 1;
  for (const AxisRef &ref : group.reduceAxes)
    members *= static_cast<double>(ref.size);
  std::vector<int64_t> shape = group.shape;
  if (shape.empty())
    shape = {static_cast<int64_t>(group.elements)};
  double owns = choice.scheme == SyncScheme::TwoStage ? group.elements / members : 0;
  return stateBytes(*choice.codec, shape, choice.errorFeedback, owns);
}

PartProblem gradientProblem(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage,
                            int64_t chunk, const OptionSource &options) {
  StepPlan its = plan; // the plan with the stage's own optimizer sharding
  its.optimizerSharding = plan.optimizerShardingAt(stage);
  its.shardingAxes = plan.shardingAxesAt(stage);
  TaskKind kind = recordOf(plan.schedule.kind).splitsBackward ? TaskKind::WeightGradient : TaskKind::Backward;
  LayerModes modes = kind == TaskKind::Backward ? plan.recomputeAt(stage, chunk) : LayerModes();
  cost::TaskPricer pricer(work, its, pipeline.collectives(stage));
  return pricer.problem(work.part[stage][chunk], kind, modes, options);
}

} // namespace kerf
