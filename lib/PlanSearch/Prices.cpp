// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <limits>

namespace kerf::plansearch {

namespace {

double bodySeconds(const PassWork &pass, const Device &device, const CollectiveModel *collectives, bool tensorOverlap) {
  double compute = 0, waiting = 0, issue = 0;
  for (const Kernel &kernel : pass.kernels) {
    compute += computeSeconds(device, kernel.work);
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * device.curves.issueSeconds;
  }
  if (collectives)
    for (const PassCollective &collective : pass.collectives)
      if (!collective.besideAttention && !(tensorOverlap && collective.independent))
        waiting +=
            collectives->seconds(collective.kind, onMesh(collective.axes, collectives->mesh()), collective.bytes);
  return std::max(compute + waiting, issue);
}

int64_t times(const ChainLink &link) { return link.layers ? link.layers : 1; }

} // namespace

PassSeconds passSeconds(const ModelWork &model, const Device &device, const CollectiveModel *collectives,
                        bool tensorOverlap) {
  PassSeconds seconds;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const ChainLink &link : model.chain) {
    const Segment &segment = link.segment;
    auto body = [&](const PassWork &pass) { return bodySeconds(pass, device, collectives, tensorOverlap); };
    PassSeconds::Link one{body(segment.forward), body(segment.inputGradient), body(segment.weightGradient)};
    seconds.links.push_back(one);
    seconds.forward += static_cast<double>(times(link)) * one.forward;
    seconds.backward += static_cast<double>(times(link)) * one.backward();
    if (link.layers)
      cheapest = std::min(cheapest, one.forward + one.backward());
  }
  seconds.layer = cheapest < std::numeric_limits<double>::infinity() ? cheapest : 0;
  return seconds;
}

double cutSeconds(const ModelWork &model, const PassSeconds &pass, const std::vector<int64_t> &layersOfParts,
                  const ScheduleOptions &schedule) {
  auto parts = static_cast<int64_t>(layersOfParts.size());
  auto microbatches = static_cast<double>(schedule.microbatches);
  bool split = schedule.kind == ScheduleKind::ZeroBubble;
  std::vector<StageSeconds> stages(schedule.stages);
  int64_t begin = 0;
  for (int64_t p = 0; p < parts; ++p) {
    int64_t end = begin + layersOfParts[p], at = 0;
    PassSeconds::Link part;
    for (size_t l = 0; l < model.chain.size(); ++l) {
      int64_t layers = model.chain[l].layers;
      // What stands between two runs goes with either: left out.
      int64_t count = layers   ? std::max<int64_t>(0, std::min(end, at + layers) - std::max(begin, at))
                      : l == 0 ? p == 0
                      : l + 1 == model.chain.size() ? p + 1 == parts
                                                    : 0;
      at += layers;
      part.forward += static_cast<double>(count) * pass.links[l].forward;
      part.inputGradient += static_cast<double>(count) * pass.links[l].inputGradient;
      part.weightGradient += static_cast<double>(count) * pass.links[l].weightGradient;
    }
    begin = end;
    StageSeconds &stage = stages[p % schedule.stages];
    stage.busy += microbatches * (part.forward + part.backward());
    if (p < schedule.stages) {
      stage.forward = part.forward;
      stage.backward = split ? part.inputGradient : part.backward();
      // Searched orders: as many as fit, which the cut decides.
      bool known = schedule.kind == ScheduleKind::OneFOneB || (split && schedule.variant == ZeroBubbleVariant::H1);
      stage.warmup = known ? mostForwardsFirst(schedule, p) * part.forward : std::numeric_limits<double>::infinity();
    }
  }
  return leastPipelineSeconds(stages, schedule, true);
}

double bestSeconds(const ModelWork &model, const Device &device) {
  double seconds = 0;
  for (const ChainLink &link : model.chain)
    for (const PassWork *pass : {&link.segment.forward, &link.segment.inputGradient, &link.segment.weightGradient})
      for (const Kernel &kernel : pass->kernels) {
        double rate = peakFlops(device, kernel.work.dtype) * efficiencyOf(device, kernel.work.kernelClass).flops;
        if (rate > 0)
          seconds += static_cast<double>(times(link)) * kernel.work.flops / rate;
      }
  return seconds;
}

ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  int optimizerSharding) {
  ParameterSeconds seconds;
  for (const ChainLink &link : model.chain) {
    std::map<std::vector<AxisRef>, double> elements; // merged: never dearer than one by one
    for (const ParameterGroup &group : link.segment.parameters)
      elements[onMesh(group.reduceAxes, collectives.mesh())] += group.elements;
    auto count = static_cast<double>(times(link));
    for (const auto &[axes, number] : elements) {
      if (optimizerSharding >= 3)
        seconds.everyMicrobatch += 2 * count * collectives.seconds(Collective::AllGather, axes, number * bytes.weight);
      if (optimizerSharding >= 2)
        seconds.everyMicrobatch += count * collectives.seconds(Collective::ReduceScatter, axes, number * bytes.weight);
      else
        seconds.reduction += collectives.seconds(optimizerSharding ? Collective::ReduceScatter : Collective::AllReduce,
                                                 axes, count * number * bytes.gradient);
    }
  }
  return seconds;
}

double stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes, int optimizerSharding) {
  double sum = 0;
  for (const ChainLink &link : model.chain)
    for (const ParameterGroup &group : link.segment.parameters) {
      auto shards = static_cast<double>(std::max<int64_t>(1, ways(onMesh(group.reduceAxes, mesh))));
      double each = bytes.weight / (optimizerSharding >= 3 ? shards : 1) +
                    bytes.gradient / (optimizerSharding >= 2 ? shards : 1) +
                    bytes.states / (optimizerSharding >= 1 ? shards : 1);
      sum += static_cast<double>(times(link)) * group.elements * each;
    }
  return sum;
}

} // namespace kerf::plansearch
