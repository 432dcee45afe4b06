// SPDX-License-Identifier: Apache-2.0
// Lists what TaskCost.cpp prices: the same passes, gathers and reductions, itemized instead of summed.
#include "kerf/CostModel/StepParts.h"
#include "TaskCost.h"
#include "kerf/CostModel/Compute.h"

#include <fmt/format.h>
#include <map>

using namespace kerf;
using namespace kerf::cost;

namespace {

class Counter {
public:
  Counter(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline, int64_t stage)
      : work(work), plan(plan), pipeline(pipeline), collectives(pipeline.collectives(stage)),
        pricer(work, plan, collectives), stage(stage), microbatches(plan.schedule.microbatches) {}

  PartsOfStep run() {
    for (size_t c = 0; c < work.part[stage].size(); ++c) {
      const Part &part = work.parts[work.part[stage][c]];
      const GradientChoices *given = plan.compressionAt(stage, static_cast<int64_t>(c));
      choices = given ? given->data() : nullptr;
      std::vector<SegmentRun> runs = segmentRuns(part, plan.recomputeAt(stage, static_cast<int64_t>(c)));
      for (const Segment &segment : part.segments) {
        std::map<Recompute, int64_t> layers; // layers of the segment by recomputation mode
        for (const SegmentRun &run : runs)
          if (run.segment == &segment)
            layers[run.mode] += run.repeat;
        passes(segment, layers);
        parameters(segment, layers);
        if (choices)
          choices += segment.parameters.size() * static_cast<size_t>(segment.repeat);
      }
      afterwards(work.part[stage][c]);
    }
    messages();
    tied();
    return std::move(parts);
  }

  /// Returns the seconds of the optimizer's update.
  double update() const {
    double seconds = 0;
    for (int part : work.part[stage])
      seconds += pricer.optimizer(part);
    return seconds;
  }

private:
  void add(Collective kind, const std::vector<AxisRef> &axes, std::string cause, const char *pass, int64_t calls,
           double bytes, double secondsEach) {
    if (calls > 0 && secondsEach > 0)
      parts.collectives.push_back({std::string(toString(kind)), pricer.axisNames(axes), std::move(cause), pass, calls,
                                   bytes, static_cast<double>(calls) * secondsEach});
  }

  void pass(const Segment &segment, const PassWork &its, const char *name, int64_t layers,
            std::optional<Recompute> recomputed = std::nullopt) {
    int64_t runs = microbatches * layers;
    for (const KernelWork &kernel : its.kernels)
      if (kernel.runs(recomputed))
        parts.kernels.push_back({segment.name, kernel.name, kernel.cuts, name, runs,
                                 static_cast<double>(runs) * computeSeconds(collectives.cluster().device, kernel.work,
                                                                            attentionLibrary(plan.trainer)),
                                 kernel.work.kernelClass});
    for (const PassCollective &one : its.collectives)
      if (!recomputed || contains(one.recomputedBy, *recomputed)) {
        auto [times, bytes] = pricer.runsOf(one);
        add(one.kind, one.axes, one.name, name, runs * times, bytes, collectives.seconds(one.kind, one.axes, bytes));
      }
  }

  void passes(const Segment &segment, const std::map<Recompute, int64_t> &layers) {
    pass(segment, segment.forward, "forward", segment.repeat);
    if (segment.recomputable)
      for (const auto &[mode, count] : layers)
        pass(segment, segment.forward, "recomputed", count, mode);
    pass(segment, segment.inputGradient, "backward", segment.repeat);
    pass(segment, segment.weightGradient, "weight gradients", segment.repeat);
    if (double seconds = pricer.accumulation(segment); seconds > 0) {
      int64_t runs = microbatches * segment.repeat;
      parts.kernels.push_back({segment.name, "accumulation of gradients", "", "weight gradients", runs,
                               static_cast<double>(runs) * seconds});
    }
  }

  void copies(const ShardAxes &shares, std::string cause, const char *pass, int64_t calls, double elements) {
    double bytes = elements / static_cast<double>(std::max<int64_t>(1, shardCount(shares.cut))) * plan.bytes.gradient;
    add(Collective::AllReduce, shares.copies, std::move(cause), pass, calls, bytes,
        pricer.copiesSeconds(shares, elements));
  }

  /// Returns how many layers of the segment synchronize the group's gradients under each choice that compresses them.
  std::vector<std::pair<compression::SyncChoice, int64_t>> codedLayers(const Segment &segment,
                                                                       const ParameterGroup &group) const {
    std::vector<std::pair<compression::SyncChoice, int64_t>> counts;
    for (int64_t layer = 0; choices && layer < segment.repeat; ++layer) {
      size_t index = layer * segment.parameters.size() + static_cast<size_t>(&group - segment.parameters.data());
      if (!choices[index].codec)
        continue;
      auto known = std::find_if(counts.begin(), counts.end(), [&](auto &one) { return one.first == choices[index]; });
      if (known == counts.end())
        counts.emplace_back(choices[index], 1);
      else
        ++known->second;
    }
    return counts;
  }

  /// Adds the messages and the codec's kernels of gradients that are compressed.
  void coded(const Segment &segment, const ParameterGroup &group, const compression::SyncChoice &choice,
             const std::string &of, int64_t calls) {
    compression::SyncCost cost = pricer.syncOf(group, choice, /*last=*/false);
    auto runs = static_cast<double>(calls);
    auto bytes =
        static_cast<double>(payloadBytes(*choice.codec, syncGradient(group, plan, plan.optimizerSharding).shape));
    parts.collectives.push_back({fmt::format("{}{}", choice.hierarchy ? "hierarchical " : "", toString(choice.scheme)),
                                 pricer.axisNames(pricer.syncAxes(group)),
                                 fmt::format("gradients of {}, coded as {}", of, choice.codec->name),
                                 "weight gradients", calls, bytes, runs * cost.wire});
    parts.kernels.push_back({segment.name, fmt::format("codec {} of {}", choice.codec->name, of), "",
                             "weight gradients", calls, runs * cost.compute()});
  }

  /// Adds the collectives of each layer's parameters; collectives of a complete part are added by afterwards().
  void parameters(const Segment &segment, const std::map<Recompute, int64_t> &layers) {
    bool everyTime = plan.optimizerSharding >= 2;
    Collective reduction = plan.optimizerSharding >= 1 ? Collective::ReduceScatter : Collective::AllReduce;
    int64_t recomputingLayers = 0;
    for (const auto &[mode, count] : layers)
      recomputingLayers +=
          plan.trainer.gathers.regathersForBackward && pricer.recomputesKernels(segment, mode) ? count : 0;
    for (const ParameterGroup &group : segment.parameters) {
      if (group.reduceAxes.empty())
        continue;
      std::string of = group.name == segment.name ? segment.name : segment.name + "/" + group.name;
      ShardAxes shares = pricer.shardAxesOf(group);
      if (plan.optimizerSharding >= 3) {
        double each = pricer.groupSeconds(Collective::AllGather, group, plan.bytes.weight);
        double bytes = group.elements * plan.bytes.weight;
        int64_t runs = microbatches * segment.repeat;
        add(Collective::AllGather, shares.cut, "parameters of " + of, "forward", runs, bytes, each);
        add(Collective::AllGather, shares.cut, "parameters of " + of, "backward",
            microbatches * (segment.repeat + recomputingLayers), bytes, each);
      }
      if (everyTime || plan.overlap.gradients) {
        int64_t times = everyTime ? microbatches : 1;
        int64_t plainLayers = segment.repeat;
        for (const auto &[choice, count] : codedLayers(segment, group)) {
          coded(segment, group, choice, of, times * count);
          plainLayers -= count;
        }
        double width = pricer.gradientWidth();
        add(reduction, pricer.syncAxes(group), "gradients of " + of, "weight gradients", times * plainLayers,
            group.elements * width, pricer.groupSeconds(reduction, group, width));
        if (reduction == Collective::ReduceScatter)
          copies(shares, "gradients of shares of " + of, "weight gradients", segment.repeat, group.elements);
      }
    }
    for (const ParameterGroup &group : segment.copied) {
      double bytes = group.elements * static_cast<double>(segment.repeat) * plan.bytes.gradient;
      add(Collective::AllReduce, group.reduceAxes, "gradients of copies of " + segment.name + "/" + group.name,
          "optimizer", 1, bytes, collectives.seconds(Collective::AllReduce, group.reduceAxes, bytes));
    }
  }

  void afterwards(int part) {
    std::map<std::vector<AxisRef>, double> elements;
    for (const Segment &segment : work.parts[part].segments)
      for (const ParameterGroup &group : segment.parameters)
        if (!group.reduceAxes.empty())
          elements[group.reduceAxes] += group.elements * static_cast<double>(segment.repeat);
    for (const auto &[axes, count] : elements) {
      ShardAxes shares = shardAxes(axes, plan.shardingAxes);
      if (!plan.overlap.gradients && plan.optimizerSharding < 2) {
        bool shared = plan.optimizerSharding == 1;
        Collective kind = shared ? Collective::ReduceScatter : Collective::AllReduce;
        const std::vector<AxisRef> &over = shared ? shares.cut : axes;
        double bytes = count * plan.bytes.gradient;
        add(kind, over, "gradients of all parameters", "optimizer", 1, bytes, collectives.seconds(kind, over, bytes));
        if (shared)
          copies(shares, "gradients of shares of all parameters", "optimizer", 1, count);
      }
      if (plan.optimizerSharding == 1 || plan.optimizerSharding == 2) {
        double bytes = count * plan.bytes.weight;
        add(Collective::AllGather, shares.cut, "parameters after the update", "optimizer", 1, bytes,
            collectives.seconds(Collective::AllGather, shares.cut, bytes));
      }
    }
  }

  /// Adds the messages of the stage. Activations leave every part but the last one, and gradients every part
  /// but the first.
  void messages() {
    int64_t stages = plan.schedule.stages, chunks = plan.schedule.chunks;
    if (stages == 1)
      return;
    bool isFirst = stage == 0, isLast = stage == stages - 1;
    int64_t next = (stage + 1) % stages, previous = (stage + stages - 1) % stages;
    std::vector<std::pair<StageMessage, int64_t>> forward,
        backward; // distinct messages and the number of chunks that send them
    auto count = [](auto &messages, const StageMessage &message) {
      auto known = std::find_if(messages.begin(), messages.end(), [&](auto &one) { return one.first == message; });
      if (known == messages.end())
        messages.emplace_back(message, 1);
      else
        ++known->second;
    };
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int64_t part = chunk * stages + stage;
      if (!isLast || chunk + 1 < chunks)
        count(forward, work.messageBetween(part, part + 1));
      if (!isFirst || chunk > 0)
        count(backward, work.messageBetween(part, part - 1));
    }
    for (const auto &[message, times] : forward)
      send(next, message, "activations for the next stage", "forward", microbatches * times);
    for (const auto &[message, times] : backward)
      send(previous, message, "gradients for the stage before", "backward", microbatches * times);
  }

  void send(int64_t to, const StageMessage &message, const char *cause, const char *pass, int64_t calls) {
    add(Collective::Send, message.axes, cause, pass, calls, message.bytes,
        pipeline.sendSeconds(stage, to, message.axes, message.bytes));
    for (const PassCollective &after : message.afterReceive)
      add(after.kind, after.axes, after.name + " by the receiver", pass, calls, after.bytes,
          pipeline.collectives(to).seconds(after.kind, after.axes, after.bytes));
  }

  void tied() {
    int64_t stages = plan.schedule.stages;
    if (work.tiedElements <= 0 || stages == 1 || (stage != 0 && stage != stages - 1))
      return;
    double bytes = work.tiedElements * plan.bytes.gradient;
    add(Collective::Send, work.message.axes, "gradients of tied embeddings, exchanged with the other end", "optimizer",
        1, bytes, pipeline.sendSeconds(0, stages - 1, work.message.axes, bytes));
  }

  const StepWork &work;
  const StepPlan &plan;
  const PipelineModel &pipeline;
  const CollectiveModel &collectives;
  TaskPricer pricer;
  int64_t stage, microbatches;
  const compression::SyncChoice *choices = nullptr; // choices of the present segment's gradients; null: none is coded
  PartsOfStep parts;
};

} // namespace

namespace {

/// Returns the plan with the stage's own optimizer sharding.
StepPlan planAt(const StepPlan &plan, int64_t stage) {
  StepPlan its = plan;
  its.optimizerSharding = plan.optimizerShardingAt(stage);
  its.shardingAxes = plan.shardingAxesAt(stage);
  return its;
}

} // namespace

PartsOfStep kerf::partsOfStep(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                              int64_t stage) {
  StepPlan its = planAt(plan, stage);
  return Counter(work, its, pipeline, stage).run();
}

ByWorkKind kerf::kernelSecondsOf(const StepWork &work, const StepPlan &plan, const PipelineModel &pipeline,
                                 int64_t stage) {
  StepPlan its = planAt(plan, stage);
  Counter counter(work, its, pipeline, stage);
  ByWorkKind seconds = {};
  seconds[static_cast<size_t>(WorkKind::Memory)] = counter.update();
  for (const KernelOfStep &kernel : counter.run().kernels) {
    WorkKind kind = kernel.kernelClass == KernelClass::Product     ? WorkKind::Products
                    : kernel.kernelClass == KernelClass::Attention ? WorkKind::Attention
                                                                   : WorkKind::Memory;
    seconds[static_cast<size_t>(kind)] += kernel.seconds;
  }
  return seconds;
}
