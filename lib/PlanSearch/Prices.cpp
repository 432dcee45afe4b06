// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/PlanSearch/StepOfPlan.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace kerf::plansearch {

namespace {

/// Returns the seconds of a pass as TaskPricer::priced, with the least seconds of collectives that overlap.
double bodySeconds(const PassWork &pass, const DeviceSpec &device, const CollectiveModel *collectives,
                   const Overlap &overlap, const TrainerPrices &trainer,
                   std::optional<Recompute> recompute = std::nullopt) {
  double compute = 0, attention = 0, waiting = 0, issue = 0;
  for (const KernelWork &kernel : pass.kernels) {
    if (!kernel.runs(recompute))
      continue;
    double seconds = computeSeconds(device, kernel.work, attentionLibrary(trainer));
    compute += seconds;
    attention += kernel.work.kernelClass == KernelClass::Attention ? seconds : 0;
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * issueSeconds(trainer, device);
  }
  double beside = 0; // seconds of collectives that run beside kernels, and of those that attention does not hide
  for (const PassCollective &collective : pass.collectives) {
    double share = leastExposedShare(collective, overlap);
    if (!collectives || (recompute && !contains(collective.recomputedBy, *recompute)) || share == 0)
      continue;
    auto hops = static_cast<double>(collective.hops);
    double seconds =
        hops * collectives->seconds(collective.kind, onMesh(collective.axes, collectives->mesh()), collective.bytes);
    issue += seconds > 0 ? hops * issueSeconds(trainer, device) : 0;
    if (share < 1) {
      beside += share * seconds;
      continue;
    }
    if (!collective.overlapsAttention) {
      waiting += seconds;
      continue;
    }
    double hidden = std::min({attention, seconds, attention * hops / (hops + 1)});
    attention -= hidden;
    compute += contentionSeconds(hidden, hidden);
    beside += seconds - hidden;
  }
  return (trainer.waitsForKernels ? compute + issue + waiting : std::max(compute + waiting, issue)) + beside;
}

int64_t times(const ChainSegment &entry) { return entry.layers ? entry.layers : 1; }

} // namespace

double leastExposedShare(const PassCollective &collective, const Overlap &overlap) {
  if (collective.overlapsAttention)
    return 1;
  if ((overlap.experts && collective.exchangesTokens) || (overlap.tensor && collective.independent))
    return contentionSeconds(1, 1);
  return overlap.products && collective.overlapsProduct ? 0 : 1;
}

PassSeconds passSeconds(const ModelWork &model, const DeviceSpec &device, const CollectiveModel *collectives,
                        const Overlap &overlap, const TrainerPrices &trainer, const std::vector<Recompute> &recompute,
                        const MicrobatchGradients &gradients) {
  PassSeconds seconds;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const ChainSegment &entry : model.chain) {
    const Segment &segment = entry.segment;
    auto body = [&](const PassWork &pass) { return bodySeconds(pass, device, collectives, overlap, trainer); };
    PassSeconds::SegmentSeconds one{
        body(segment.forward), body(segment.inputGradient), body(segment.weightGradient), {}};
    if (segment.recomputable) {
      for (Recompute mode : kDeviceModes)
        one.recompute[static_cast<size_t>(mode)] =
            bodySeconds(segment.forward, device, collectives, overlap, trainer, mode);
      double always = one.recompute[0];
      if (!recompute.empty()) {
        always = std::numeric_limits<double>::infinity();
        for (Recompute mode : recompute)
          always = std::min(always, bodySeconds(segment.forward, device, collectives, overlap, trainer, mode));
      }
      one.inputGradient += always;
      for (double &more : one.recompute)
        more = std::max(0.0, more - always);
    }
    if (gradients.reductionSeconds) {
      // Kernels beside a reduction lose a share of its seconds. That of a task is no less than the sum of its layers'.
      auto kernels = [&](const PassWork &pass) { return bodySeconds(pass, device, nullptr, overlap, trainer); };
      double beside = kernels(segment.weightGradient) + (gradients.splitBackward ? 0 : kernels(segment.inputGradient));
      one.weightGradient += contentionSeconds(beside, (*gradients.reductionSeconds)[seconds.segments.size()]);
    }
    if (gradients.accumulated) {
      double elements = 0;
      for (const ParameterGroup &group : segment.parameters)
        elements += group.elements;
      one.weightGradient +=
          accumulationSeconds(device, elements, static_cast<double>(segment.parameters.size()), *gradients.accumulated);
    }
    seconds.segments.push_back(one);
    seconds.forward += static_cast<double>(times(entry)) * one.forward;
    seconds.backward += static_cast<double>(times(entry)) * one.backward();
    seconds.weightGradient += static_cast<double>(times(entry)) * one.weightGradient;
    if (entry.layers)
      cheapest = std::min(cheapest, one.forward + one.backward());
  }
  seconds.layer = cheapest < std::numeric_limits<double>::infinity() ? cheapest : 0;
  return seconds;
}

ModelWork leastShareOfWork(const ModelWork &model, int64_t ranks, int64_t ring) {
  ModelWork share = model;
  const double part = 1 / static_cast<double>(ranks);
  share.tied.clear();
  for (ChainSegment &entry : share.chain) {
    Segment &segment = entry.segment;
    for (PassWork *pass : {&segment.forward, &segment.inputGradient, &segment.weightGradient}) {
      pass->collectives.clear();
      for (KernelWork &kernel : pass->kernels) {
        Work &work = kernel.work;
        work.flops *= part;
        work.bytes *= part;
        // A record of several launches may stand for experts or heads, which the ranks share.
        work.launches = std::max(std::min(work.launches, 1.0), work.launches * part);
        if (work.kernelClass == KernelClass::Attention) { // only ring attention cuts keys, and where they are queries
          work.n /= work.m == work.n ? static_cast<double>(ring) : 1;
        } else if (ranks > 1) {
          work.m = work.n = work.k = 0; // no size is known, so that computeSeconds takes the best rate
        }
      }
    }
    for (SavedTensor &tensor : segment.saved)
      tensor.bytes *= part;
    for (ParameterGroup &group : segment.parameters)
      group.elements *= part;
    segment.copied.clear();
    segment.pendingBytes *= part;
    segment.inputBytes *= part;
    segment.workspaceBytes *= part;
  }
  return share;
}

std::vector<ParameterGroup> tiedToLast(const ModelWork &model) {
  std::vector<ParameterGroup> groups;
  for (const auto &[entry, group] : model.tied)
    if (entry > 0 && entry + 1 == model.chain.size())
      groups.push_back(group);
  return groups;
}

ModelWork parametersOnly(const ModelWork &model, int64_t stages) {
  ModelWork parameters;
  for (const ChainSegment &entry : model.chain) {
    ChainSegment &one = parameters.chain.emplace_back();
    one.layers = entry.layers;
    one.segment.parameters = entry.segment.parameters;
  }
  if (stages > 1)
    for (const ParameterGroup &group : tiedToLast(model))
      parameters.chain.back().segment.parameters.push_back(group);
  return parameters;
}

std::vector<RepeatedCollective> collectivesOfLayers(const ModelWork &model, int axis, bool tokensOnly) {
  std::vector<RepeatedCollective> list;
  auto isAlong = [&](const std::vector<AxisRef> &axes) {
    return !axes.empty() && std::ranges::all_of(axes, [&](const AxisRef &ref) { return ref.axis == axis; });
  };
  for (const ChainSegment &entry : model.chain) {
    const Segment &segment = entry.segment;
    for (auto [pass, runs] : {std::pair(&segment.forward, &RepeatedCollective::forward),
                              std::pair(&segment.inputGradient, &RepeatedCollective::inputGradient),
                              std::pair(&segment.weightGradient, &RepeatedCollective::weightGradient)})
      for (const PassCollective &one : pass->collectives) {
        if (entry.layers == 0 || one.overlapsAttention || (tokensOnly && !one.exchangesTokens) || !isAlong(one.axes))
          continue;
        PassCollective each = one;
        each.name.clear();
        each.bytes = std::min(each.bytes, model.layerOutputBytes);
        each.recomputedBy = RecomputeModes::Others;
        each.hops = 1;
        auto known = std::ranges::find_if(list, [&](const RepeatedCollective &its) { return its.collective == each; });
        if (known == list.end())
          known = list.insert(list.end(), {std::move(each)});
        (*known).*runs += static_cast<double>(entry.layers * one.hops);
      }
  }
  return list;
}

ActivationBytes activationBytesOf(const ModelWork &model) {
  ActivationBytes bytes;
  for (const ChainSegment &entry : model.chain)
    std::ranges::transform(kDeviceModes, bytes.emplace_back().begin(),
                           [&](Recompute mode) { return layerActivationBytes(entry.segment, mode); });
  return bytes;
}

double bestCaseSeconds(const ModelWork &model, const DeviceSpec &device, const TrainerPrices &trainer,
                       const std::vector<Recompute> &recompute) {
  double seconds = 0;
  for (const ChainSegment &entry : model.chain)
    for (const PassWork *pass : {&entry.segment.forward, &entry.segment.inputGradient, &entry.segment.weightGradient})
      for (const KernelWork &kernel : pass->kernels) {
        double rate = peakFlops(device, kernel.work.dtype) *
                      efficiencyOf(device, kernel.work.kernelClass, attentionLibrary(trainer)).flops;
        bool again =
            pass == &entry.segment.forward && entry.segment.recomputable && !recompute.empty() &&
            std::ranges::all_of(recompute, [&](Recompute mode) { return contains(kernel.recomputedBy, mode); });
        if (rate > 0)
          seconds += static_cast<double>(times(entry) * (kernel.runs(std::nullopt) + again)) * kernel.work.flops / rate;
      }
  return seconds;
}

double bestCaseSpeedup(const ModelWork &model, const DeviceSpec &device, const DeviceSpec &baseline) {
  double most = 0;
  for (const ChainSegment &entry : model.chain)
    for (const PassWork *pass : {&entry.segment.forward, &entry.segment.inputGradient, &entry.segment.weightGradient})
      for (const KernelWork &kernel : pass->kernels) {
        auto rate = [&](const DeviceSpec &its) {
          return peakFlops(its, kernel.work.dtype) * efficiencyOf(its, kernel.work.kernelClass).flops;
        };
        if (kernel.work.flops > 0 && rate(baseline) > 0)
          most = std::max(most, rate(device) / rate(baseline));
      }
  return most;
}

double relativeLayerSpeed(const ModelWork &model, const PassSeconds &passes, const PassSeconds &baseline) {
  double most = 0;
  for (size_t l = 0; l < passes.segments.size(); ++l) {
    double its = passes.segments[l].total(), other = baseline.segments[l].total();
    if (model.chain[l].layers && other > 0)
      most = std::max(most, its > 0 ? other / its : std::numeric_limits<double>::infinity());
  }
  return most;
}

ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  const OptimizerSharding &sharding, bool gradientOverlap, double bucketBytes) {
  // Parameters with the same ranks count as one, which is never slower than one collective for each.
  std::vector<std::map<std::vector<AxisRef>, double>> elementsOf; // by entry of the chain, of one layer
  std::map<std::vector<AxisRef>, double> all;
  for (const ChainSegment &entry : model.chain) {
    auto &elements = elementsOf.emplace_back();
    for (const ParameterGroup &group : entry.segment.parameters)
      elements[onMesh(group.reduceAxes, collectives.mesh())] += group.elements;
    for (const auto &[axes, number] : elements)
      all[axes] += static_cast<double>(times(entry)) * number;
  }
  ReductionTiming timing = reductionTiming(sharding.level, gradientOverlap);
  bool everyMicrobatch = timing == ReductionTiming::EveryMicrobatch;
  double width = everyMicrobatch ? bytes.weight : bytes.gradient;
  // A layer's reduction beside a backward pass is one collective. After the backward pass it is part of a larger one;
  // the whole model's is the most efficient.
  auto reduction = [&](const std::vector<AxisRef> &axes, double number) {
    double together = timing == ReductionTiming::AfterBackward ? all[axes] : number;
    if (together <= 0)
      return 0.0;
    double bucket = timing == ReductionTiming::AfterBackward ? 0 : bucketBytes;
    if (sharding.level == 0)
      return bucketedReductionSeconds(collectives, Collective::AllReduce, axes, together * width, bucket) *
             (number / together);
    ShardAxes shares = shardAxes(axes, sharding.axes);
    double seconds =
        bucketedReductionSeconds(collectives, Collective::ReduceScatter, shares.cut, together * width, bucket);
    if (!everyMicrobatch)
      seconds += collectives.seconds(Collective::AllReduce, shares.copies,
                                     together * width / static_cast<double>(shardCount(shares.cut)));
    return seconds * (number / together);
  };
  auto sumOfCopies = [&](const std::vector<AxisRef> &axes, double number) {
    ShardAxes shares = shardAxes(axes, sharding.axes);
    auto shards = static_cast<double>(std::max<int64_t>(1, shardCount(shares.cut)));
    return collectives.seconds(Collective::AllReduce, shares.copies, number / shards * bytes.gradient);
  };
  ParameterSeconds seconds;
  if (sharding.level == 1 || sharding.level == 2)
    for (const auto &[axes, number] : all)
      seconds.gatherTotal +=
          collectives.seconds(Collective::AllGather, shardAxes(axes, sharding.axes).cut, number * bytes.weight);
  for (size_t l = 0; l < model.chain.size(); ++l) {
    auto count = static_cast<double>(times(model.chain[l]));
    double &ofLayer = seconds.reductionBySegment.emplace_back();
    double copies = 0;
    for (const auto &[axes, number] : elementsOf[l]) {
      if (sharding.level >= 3)
        seconds.everyMicrobatch +=
            2 * count *
            collectives.seconds(Collective::AllGather, shardAxes(axes, sharding.axes).cut, number * bytes.weight);
      ofLayer += reduction(axes, number);
      if (everyMicrobatch && sharding.axes)
        copies += sumOfCopies(axes, number);
    }
    seconds.copiesBySegment.push_back(copies);
    seconds.copiesTotal += count * copies;
    seconds.reductionTotal += count * ofLayer;
    if (everyMicrobatch)
      seconds.everyMicrobatch += count * ofLayer;
  }
  return seconds;
}

std::vector<double> stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes,
                                 const OptimizerSharding &sharding) {
  std::vector<double> bySegment;
  for (const ChainSegment &entry : model.chain) {
    double sum = 0;
    for (const ParameterGroup &group : entry.segment.parameters) {
      auto shards = static_cast<double>(shardCount(shardAxes(onMesh(group.reduceAxes, mesh), sharding.axes).cut));
      sum += group.elements *
             (bytes.weight / (sharding.level >= 3 ? shards : 1) + bytes.gradient / (sharding.level >= 2 ? shards : 1) +
              bytes.states / (sharding.level >= 1 ? shards : 1));
    }
    bySegment.push_back(sum);
  }
  return bySegment;
}

double totalOverChain(const ModelWork &model, const std::vector<double> &bySegment) {
  double sum = 0;
  for (size_t l = 0; l < bySegment.size(); ++l)
    sum += static_cast<double>(times(model.chain[l])) * bySegment[l];
  return sum;
}

} // namespace kerf::plansearch
