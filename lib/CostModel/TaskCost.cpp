// SPDX-License-Identifier: Apache-2.0
#include "TaskCost.h"
#include "kerf/CostModel/Compute.h"
#include <algorithm>

using namespace kerf;
using namespace kerf::cost;

namespace {

constexpr double kRounding = 1e-12; // share of a task; smaller differences are rounding errors

/// Returns whether the backward of a layer with this mode recomputes something. Layers with the mode None recompute
/// only ops that a plan names.
bool recomputesAny(const Segment &segment, Recompute mode) {
  bool layer = mode != Recompute::None && mode != Recompute::Offload;
  return segment.recomputable && (layer || std::any_of(segment.forward.kernels.begin(), segment.forward.kernels.end(),
                                                       [](const KernelWork &kernel) {
                                                         return contains(kernel.recomputedBy, Recompute::None);
                                                       }));
}

/// Returns whether tasks of this kind sum gradients over ranks.
bool reducesGradients(TaskKind kind) { return kind == TaskKind::Backward || kind == TaskKind::WeightGradient; }

/// Consecutive layers of a task that are priced together, and the index of the first layer's gradients in
/// gradientsOf().
struct TaskRun {
  SegmentRun run;
  size_t firstGradient = 0;
};

/// Returns the runs of a task in the order in which it runs them. With `single`, every layer is a run of its own.
std::vector<TaskRun> taskRuns(const Part &part, const LayerModes &modes, bool forward, bool single) {
  std::vector<TaskRun> runs;
  size_t gradient = 0;
  for (const SegmentRun &run : segmentRuns(part, modes)) {
    int64_t parts = single ? run.repeat : 1;
    for (int64_t i = 0; i < parts; ++i) {
      runs.push_back({{run.segment, run.mode, run.repeat / parts}, gradient});
      gradient += run.segment->parameters.size() * static_cast<size_t>(run.repeat / parts);
    }
  }
  if (!forward)
    std::reverse(runs.begin(), runs.end());
  return runs;
}

/// Returns the first group of parameters whose gradients are summed over ranks, or null.
const ParameterGroup *firstSummedGroup(const std::vector<TaskRun> &runs) {
  for (const TaskRun &one : runs)
    for (const ParameterGroup &group : one.run.segment->parameters)
      if (!group.reduceAxes.empty())
        return &group;
  return nullptr;
}

} // namespace

TaskPricer::Pass TaskPricer::pass(const Segment &segment, PassKind kind) const {
  const PassWork &work = kind == PassKind::InputGradient    ? segment.inputGradient
                         : kind == PassKind::WeightGradient ? segment.weightGradient
                                                            : segment.forward;
  if (segment.chainIndex < 0)
    return priced(work);
  auto [it, isNew] = passCache.try_emplace({segment.chainIndex, kind});
  if (isNew)
    it->second = priced(work);
  return it->second;
}

TaskPricer::Pass TaskPricer::recomputedPass(const Segment &segment, Recompute layer) const {
  if (segment.chainIndex < 0)
    return priced(segment.forward, layer);
  auto [it, isNew] = recomputedCache.try_emplace({segment.chainIndex, layer});
  if (isNew)
    it->second = priced(segment.forward, layer);
  return it->second;
}

TaskPricer::Pass TaskPricer::priced(const PassWork &work, std::optional<Recompute> recomputed) const {
  const DeviceSpec &device = collectives.cluster().device;
  Pass result;
  double issue = 0, attention = 0, products = 0;
  for (const KernelWork &kernel : work.kernels) {
    if (!kernel.runs(recomputed))
      continue;
    double seconds = computeSeconds(device, kernel.work, attentionLibrary(plan.trainer));
    result.compute += seconds;
    attention += kernel.work.kernelClass == KernelClass::Attention ? seconds : 0;
    products += kernel.work.kernelClass == KernelClass::Product ? seconds : 0;
    if (kernel.work.kernelClass != KernelClass::Nothing)
      issue += kernel.work.launches * issueSeconds(plan.trainer, device);
  }
  double waiting = 0;
  for (const PassCollective &collective : work.collectives) {
    if (recomputed && !contains(collective.recomputedBy, *recomputed))
      continue;
    auto [runs, bytes] = runsOf(collective);
    auto hops = static_cast<double>(runs);
    double seconds = hops * collectives.seconds(collective.kind, collective.axes, bytes);
    const AxesKey axes = axesKey(collective.axes);
    result.collectives[axes] += seconds;
    auto hide = [&](double &behind, double most) {
      double hidden = std::min(most, behind), left = seconds - hidden;
      behind -= hidden;
      result.compute += kContention * hidden;
      result.exposed[axes] += left;
      result.exposedSeconds += left;
    };
    if (collective.overlapsAttention) {
      hide(attention, std::min(seconds, attention * hops / (hops + 1)));
    } else if (plan.overlap.experts && collective.exchangesTokens) {
      result.tokenSeconds += seconds;
      result.tokenAxes = axes;
    } else if (plan.overlap.tensor && collective.independent && !recordOf(plan.schedule.kind).splitsBackward) {
      result.independentSeconds += seconds;
      result.independentAxes = axes;
    } else if (inPieces(collective)) { // the first gather and the last sum overlap with nothing
      hide(products, seconds * (hops - 1) / hops);
    } else {
      result.exposed[axes] += seconds;
      result.exposedSeconds += seconds;
      waiting += seconds;
    }
    issue += seconds > 0 ? hops * issueSeconds(plan.trainer, device) : 0;
  }
  // The device idles if the host cannot issue kernels as fast as they run, or if the host waits for each of them.
  result.compute = plan.trainer.waitsForKernels ? result.compute + issue : std::max(result.compute, issue - waiting);
  return result;
}

TaskPricer::Pass TaskPricer::combined(Pass input, const Pass &weights) const {
  double hidden =
      std::min(input.independentSeconds, weights.compute) + std::min(weights.independentSeconds, input.compute);
  double left = input.independentSeconds + weights.independentSeconds - hidden;
  input.compute += weights.compute + kContention * hidden;
  input.exposedSeconds += weights.exposedSeconds + left;
  input.tokenSeconds += weights.tokenSeconds;
  if (input.tokenAxes == AxesKey::None)
    input.tokenAxes = weights.tokenAxes;
  input.collectives.add(weights.collectives);
  input.exposed.add(weights.exposed);
  if (left > 0)
    input.exposed[input.independentSeconds > 0 ? input.independentAxes : weights.independentAxes] += left;
  input.independentSeconds = 0;
  return input;
}

double kerf::pairedShare(const ScheduleOptions &schedule) {
  auto passes = static_cast<double>(schedule.microbatches * schedule.chunks);
  int64_t alone = schedule.stages == 1 ? 1 : 2 * (schedule.stages - 1) + (schedule.chunks - 1) * schedule.stages + 1;
  return std::max(0.0, passes - static_cast<double>(alone)) / passes;
}

TaskPricer::Pass TaskPricer::withTokensBeside(Pass pass, double kernelSeconds) const {
  if (pass.tokenSeconds == 0)
    return pass;
  double hidden = std::min(pass.tokenSeconds, kernelSeconds) * pairedShare(plan.schedule),
         left = pass.tokenSeconds - hidden;
  pass.compute += kContention * hidden;
  pass.exposedSeconds += left;
  pass.exposed[pass.tokenAxes] += left;
  pass.tokenSeconds = 0;
  return pass;
}

bool TaskPricer::recomputesKernels(const Segment &segment, Recompute layer) const {
  return recomputesAny(segment, layer) && recomputedPass(segment, layer).compute > 0;
}

double kerf::contentionSeconds(double computeSeconds, double communicationSeconds) {
  return kContention * std::min(communicationSeconds, computeSeconds);
}

double kerf::accumulationSeconds(const DeviceSpec &device, double elements, double launches, const StateBytes &bytes) {
  Work kernel;
  kernel.kernelClass = KernelClass::Pointwise;
  kernel.bytes = elements * (bytes.weight + 2 * bytes.gradient); // reads both gradients, writes the sum
  kernel.launches = launches;
  return kernel.bytes > 0 ? computeSeconds(device, kernel) : 0;
}

double TaskPricer::accumulation(const Segment &segment) const {
  if (plan.trainer.accumulatesInProducts || plan.schedule.microbatches == 1)
    return 0;
  double elements = 0, launches = 0;
  for (const ParameterGroup &group : segment.parameters)
    if (plan.optimizerSharding < 2 || shards(group) == 1) { // otherwise the reduced gradient is only a shard
      elements += group.elements;
      launches += 1;
    }
  return accumulationSeconds(collectives.cluster().device, elements, launches, plan.bytes);
}

double TaskPricer::hostSeconds(const Segment &segment) const {
  const DeviceSpec &device = collectives.cluster().device;
  double bytes = 0;
  for (const SavedTensor &tensor : segment.saved)
    if (contains(tensor.existsUnder, Recompute::Offload) && !contains(tensor.recomputedBy, Recompute::Offload))
      bytes += tensor.bytes;
  return bytes / hostBandwidth(device);
}

double TaskPricer::groupSeconds(Collective kind, const ParameterGroup &group, double bytesPerElement) const {
  const ParameterGathers &gathers = plan.trainer.gathers;
  bool cut = plan.optimizerSharding >= 3;
  if (cut && group.elements < gathers.replicatedBelowElements)
    return 0;
  const std::vector<AxisRef> axes = kind == Collective::AllReduce ? group.reduceAxes : shardAxesOf(group).cut;
  double bucket = kind == Collective::AllGather ? 0 : plan.trainer.bucketBytes;
  double seconds = bucketedReductionSeconds(collectives, kind, axes, group.elements * bytesPerElement, bucket);
  return seconds + (cut ? shards(group) * gathers.copySeconds : 0);
}

double TaskPricer::copiesSeconds(const ShardAxes &shares, double elements) const {
  auto share = elements / static_cast<double>(std::max<int64_t>(1, shardCount(shares.cut)));
  return collectives.seconds(Collective::AllReduce, shares.copies, share * plan.bytes.gradient);
}

TaskPricer::LayerPasses TaskPricer::layerPasses(const Segment &segment, TaskKind kind, Recompute mode) const {
  auto backward = [&] {
    return pass(segment, PassKind::InputGradient).compute + pass(segment, PassKind::WeightGradient).compute;
  };
  if (kind == TaskKind::Forward)
    return {withTokensBeside(combined(pass(segment, PassKind::Forward), Pass()), backward()), Pass()};
  LayerPasses layer;
  if (kind != TaskKind::WeightGradient) {
    layer.run = pass(segment, PassKind::InputGradient);
    if (kind == TaskKind::InputGradient)
      layer.run = combined(std::move(layer.run), Pass());
    if (recomputesAny(segment, mode))
      layer.recomputed = withTokensBeside(combined(recomputedPass(segment, mode), Pass()), 0);
  }
  if (reducesGradients(kind)) {
    layer.run = combined(std::move(layer.run), pass(segment, PassKind::WeightGradient));
    layer.run.compute += accumulation(segment);
  }
  layer.run = withTokensBeside(std::move(layer.run), pass(segment, PassKind::Forward).compute);
  return layer;
}

compression::SyncCost TaskPricer::syncOf(const ParameterGroup &group, const compression::SyncChoice &choice,
                                         bool last) const {
  compression::SyncCost cost;
  if (choice.codec) {
    cost = syncCost(choice, syncGradient(group, plan, plan.optimizerSharding),
                    syncNetwork(collectives, syncAxes(group)), codecCurve(collectives, *choice.codec));
  } else {
    Collective reduction = plan.optimizerSharding >= 1 ? Collective::ReduceScatter : Collective::AllReduce;
    cost.wire = groupSeconds(reduction, group, gradientWidth());
  }
  if (last && plan.optimizerSharding >= 1 && plan.shardingAxes)
    cost.wire += copiesSeconds(shardAxesOf(group), group.elements);
  return cost;
}

TaskPricer::Traffic TaskPricer::parameterTraffic(const Segment &segment, TaskKind kind, bool recomputes, bool last,
                                                 const compression::SyncChoice *choices) const {
  // Sharded gradients are reduced for every microbatch, unsharded ones once per step.
  Traffic traffic;
  compression::StreamLayer &layer = traffic.layer;
  for (size_t g = 0; g < segment.parameters.size(); ++g) {
    const ParameterGroup &group = segment.parameters[g];
    if (group.reduceAxes.empty()) // experts that exist on one rank only
      continue;
    const AxesKey axes = axesKey(group.reduceAxes);
    if (plan.optimizerSharding >= 3 && kind != TaskKind::WeightGradient) {
      bool twice = recomputes && plan.trainer.gathers.regathersForBackward;
      double gather = groupSeconds(Collective::AllGather, group, plan.bytes.weight) * (twice ? 2 : 1);
      layer.gather += gather;
      traffic.collectives[axes] += gather;
    }
    if (sumsBeside(kind, last)) {
      compression::SyncCost sync = syncOf(group, choices ? choices[g] : compression::SyncChoice(), last);
      layer.syncBytes += group.elements * gradientWidth();
      addCost(layer.sync, sync);
      traffic.collectives[axes] += sync.wire;
    }
  }
  return traffic;
}

const TaskPricer::LayerPasses &TaskPricer::knownPasses(const Segment &segment, TaskKind kind, Recompute mode) const {
  auto [known, isNew] = passesOfLayers.try_emplace({&segment, kind, mode});
  if (isNew)
    known->second = layerPasses(segment, kind, mode);
  return known->second;
}

const TaskPricer::Traffic &TaskPricer::knownTraffic(const Segment &segment, TaskKind kind, bool recomputes,
                                                    bool last) const {
  auto [known, isNew] = trafficOfLayers.try_emplace({&segment, kind, recomputes, last});
  if (isNew)
    known->second = parameterTraffic(segment, kind, recomputes, last, nullptr);
  return known->second;
}

double TaskPricer::bodySeconds(const Segment &segment, Recompute mode, const LayerPasses &layer,
                               double &copySeconds) const {
  const auto &[run, recomputed] = layer;
  double body = run.compute + recomputed.compute + run.exposedSeconds + recomputed.exposedSeconds;
  copySeconds = mode == Recompute::Offload && segment.recomputable ? hostSeconds(segment) : 0;
  return body + std::max(0.0, copySeconds - body);
}

TaskCost TaskPricer::task(int part, TaskKind kind, const LayerModes &recompute, bool last,
                          const GradientChoices *choices) const {
  bool forward = kind == TaskKind::Forward, restores = kind == TaskKind::Backward || kind == TaskKind::InputGradient;
  if (!sumsBeside(kind, last))
    choices = nullptr;
  std::vector<TaskRun> runs = taskRuns(
      work.parts[part], restores || offloadsActivations(recompute) ? recompute : LayerModes(), forward, choices);

  TaskCost cost;
  std::vector<compression::StreamLayer> layers;
  Traffic chosen;    // of the layer at hand, with its choices
  double beside = 0; // seconds of gathers and reductions on the communication stream
  for (const auto &[its, firstGradient] : runs) {
    auto [segment, mode, layersAlike] = its;
    const LayerPasses &passes = knownPasses(*segment, kind, mode);
    const auto &[run, recomputed] = passes;
    auto repeat = static_cast<double>(layersAlike);
    (forward ? cost.forward : cost.backward) += repeat * run.compute;
    cost.recompute += repeat * recomputed.compute;
    for (const Pass *one : {&run, &recomputed}) {
      cost.collectives.add(one->collectives, repeat);
      cost.exposed.add(one->exposed, repeat);
    }
    const bool recomputes = recomputed.compute > 0;
    const Traffic &traffic =
        choices ? chosen = parameterTraffic(*segment, kind, recomputes, last, choices->data() + firstGradient)
                : knownTraffic(*segment, kind, recomputes, last);
    cost.collectives.add(traffic.collectives, repeat);
    compression::StreamLayer layer = traffic.layer;
    layer.repeat = layersAlike;
    double copy = 0;
    layer.body = bodySeconds(*segment, mode, passes, copy);
    if (copy > 0) {
      double kernels = run.compute + recomputed.compute + run.exposedSeconds + recomputed.exposedSeconds;
      cost.collectives[AxesKey::Host] += repeat * copy;
      cost.exposed[AxesKey::Host] += repeat * std::max(0.0, copy - kernels);
    }
    beside += repeat * (layer.gather + layer.sync.wire);
    layers.push_back(layer);
  }
  compression::StreamEnds streams = runStreams(layers, streamRules());
  (forward ? cost.forward : cost.backward) += streams.codec;
  const double waited = cost.exposed.total();
  double hidden = std::max(0.0, beside - (streams.compute - cost.compute() - waited));
  double slower = contentionSeconds(cost.compute(), hidden);
  (forward ? cost.forward : cost.backward) += slower;
  cost.seconds = streams.compute + slower;
  // Reductions of one microbatch may overlap with the next task, as long as the communication stream keeps up.
  if (!last)
    cost.seconds = std::max(cost.seconds, beside);
  cost.tail = last ? std::max(0.0, streams.communication - streams.compute) : 0;
  cost.besideSeconds = last ? beside : 0;
  double exposedBeside = std::max(0.0, cost.seconds - cost.compute() - waited);
  if (beside > 0 && exposedBeside > kRounding * cost.seconds) // attributed to the axes of the first group of parameters
    if (const ParameterGroup *group = firstSummedGroup(runs))
      cost.exposed[axesKey(group->reduceAxes)] += exposedBeside;
  return cost;
}

PartProblem TaskPricer::problem(int part, TaskKind kind, const LayerModes &recompute,
                                const OptionSource &options) const {
  PartProblem result;
  compression::PlanProblem &problem = result.problem;
  problem.rules = streamRules();
  std::vector<GradientOfPart> gradients = gradientsOf(work.parts[part]);
  std::map<const ParameterGroup *, std::vector<compression::SyncOption>> priced; // layers of a segment cost the same
  auto costOf = [&](const ParameterGroup &group, const compression::SyncChoice &choice) {
    std::vector<compression::SyncOption> &known = priced[&group];
    auto found = std::find_if(known.begin(), known.end(), [&](auto &one) { return one.choice == choice; });
    if (found == known.end())
      found = known.insert(known.end(), {choice, syncOf(group, choice, true), 1});
    return found->cost;
  };
  for (const auto &[its, firstGradient] : taskRuns(work.parts[part], recompute, /*forward=*/false, /*single=*/true)) {
    const LayerPasses &passes = knownPasses(*its.segment, kind, its.mode);
    double copy = 0;
    compression::StreamLayer layer = knownTraffic(*its.segment, kind, passes.recomputed.compute > 0, true).layer;
    layer.body = bodySeconds(*its.segment, its.mode, passes, copy);
    layer.sync = {};
    layer.syncBytes = 0;
    for (size_t g = 0; g < its.segment->parameters.size() && sumsBeside(kind, true); ++g) {
      const ParameterGroup &group = its.segment->parameters[g];
      if (group.reduceAxes.empty())
        continue;
      compression::PlanGradient gradient;
      gradient.name = group.parameter;
      gradient.gradient = syncGradient(group, plan, plan.optimizerSharding);
      gradient.bytes = group.elements * gradientWidth();
      gradient.layer = problem.layers.size();
      gradient.options = options(gradients[firstGradient + g], gradient.gradient,
                                 syncNetwork(collectives, syncAxes(group)), collectives);
      for (compression::SyncOption &option : gradient.options) // as task() prices them
        option.cost = costOf(group, option.choice);
      problem.gradients.push_back(std::move(gradient));
      result.indexOf.push_back(firstGradient + g);
    }
    problem.layers.push_back(layer);
  }
  return result;
}

/// Returns the elements of all parameters whose gradients are summed over the same axes; they share one buffer.
static std::map<std::vector<AxisRef>, double> elementsByAxes(const Part &part) {
  std::map<std::vector<AxisRef>, double> elements;
  for (const Segment &segment : part.segments)
    for (const ParameterGroup &group : segment.parameters)
      if (!group.reduceAxes.empty())
        elements[group.reduceAxes] += group.elements * static_cast<double>(segment.repeat);
  return elements;
}

SecondsByAxes TaskPricer::reduction(int part) const {
  SecondsByAxes seconds;
  for (const Segment &segment : work.parts[part].segments)
    for (const ParameterGroup &group : segment.copied)
      seconds[axesKey(group.reduceAxes)] +=
          collectives.seconds(Collective::AllReduce, group.reduceAxes,
                              group.elements * static_cast<double>(segment.repeat) * plan.bytes.gradient);
  if (plan.overlap.gradients || plan.optimizerSharding >= 2)
    return seconds;
  for (const auto &[axes, count] : elementsByAxes(work.parts[part])) {
    double &sum = seconds[axesKey(axes)];
    if (plan.optimizerSharding == 0) {
      sum += collectives.seconds(Collective::AllReduce, axes, count * plan.bytes.gradient);
      continue;
    }
    ShardAxes shares = shardAxes(axes, plan.shardingAxes);
    sum += collectives.seconds(Collective::ReduceScatter, shares.cut, count * plan.bytes.gradient) +
           copiesSeconds(shares, count);
  }
  return seconds;
}

SecondsByAxes TaskPricer::gatherAfterStep(int part) const {
  SecondsByAxes seconds;
  if (plan.optimizerSharding != 1 && plan.optimizerSharding != 2)
    return seconds;
  for (const auto &[axes, count] : elementsByAxes(work.parts[part]))
    seconds[axesKey(axes)] +=
        collectives.seconds(Collective::AllGather, shardAxes(axes, plan.shardingAxes).cut, count * plan.bytes.weight);
  return seconds;
}

double TaskPricer::optimizer(int part) const {
  double elements = 0, flops = 0;
  for (const Segment &segment : work.parts[part].segments)
    for (const ParameterGroup &group : segment.parameters) {
      double updates = static_cast<double>(segment.repeat) / (plan.optimizerSharding >= 1 ? shards(group) : 1);
      elements += group.elements * updates;
      flops += group.updateFlops * updates;
    }
  Work products;
  products.kernelClass = KernelClass::Product;
  products.flops = flops;
  products.dtype = work.dtype == "f64" ? "f64" : "f32"; // element type in which weights are updated
  const DeviceSpec &device = collectives.cluster().device;
  return updateSeconds(device, elements, plan.bytes, plan.trainer.update) +
         (flops > 0 ? computeSeconds(device, products) : 0);
}
