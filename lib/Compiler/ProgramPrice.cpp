// SPDX-License-Identifier: Apache-2.0
// CPU cores transfer the bytes of a collective, so kernels stop during the transfer, whatever stream the collective
// runs on. The latency of a collective overlaps with kernels until the instruction list waits for the collective. A
// merged collective has one latency.
#include "ProgramPrice.h"
#include "InstructionPrices.h"
#include "kerf/Package/Addition.h"
#include "kerf/Package/Epilogue.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace kerf {

namespace {
using package::FlatInstruction;

/// The times at which both sides of a message are ready; negative while a side has not reached the message.
struct Message {
  double sent = -1, received = -1, seconds = 0;
  bool isUnderWay() const { return sent >= 0 && received >= 0; }
  double end() const { return std::max(sent, received) + seconds; }
};

/// Returns the bytes that a product with its epilogue reads and writes besides the product's operands and one result.
double epilogueBytes(const package::FlatProgram &list, std::span<const FlatInstruction> group) {
  double bytes = 0;
  auto addition = package::additionOf(list.values, group);
  if (auto epilogue = package::epilogueOf(list.values, group))
    for (int value : {epilogue->bias, epilogue->kept, epilogue->sums, addition ? addition->addend : -1})
      if (value >= 0) {
        const package::Value &its = list.values[size_t(value)];
        bytes += double(elementsOf(its.shape) * bytesOf(its.dtype));
      }
  return bytes;
}

/// The instruction list of one pipeline stage and the clock that walks through it.
class StageClock {
public:
  StageClock(int64_t stage, const package::Expansion &expansion, package::FlatProgram list, InstructionPrices &prices,
             int64_t chunks, bool joinsProducts)
      : stage(stage), chunks(chunks), expansion(expansion), list(std::move(list)), prices(prices) {
    if (joinsProducts)
      priceGroups();
    for (size_t i = 0; i < this->list.body.size(); ++i)
      if (taskAt(i) && seconds(i) > 0)
        lastOfTasks = i;
  }

  /// Advances until the list ends or waits for a message that is not under way yet. Returns whether it advanced.
  bool run(std::vector<Message> &messages) {
    size_t before = next;
    for (; next < list.body.size(); ++next)
      if (!step(list.body[next], messages))
        break;
    return next > before;
  }
  void finish() { closeTask(); }

  double now = 0, sends = 0;
  Breakdown parts;
  std::vector<TraceEvent> trace;

  double compute() const { return parts.forward + parts.backward + parts.optimizer; }
  static double sum(const std::map<std::string, double> &seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0,
                           [](double sum, const auto &entry) { return sum + entry.second; });
  }
  double busy() const { return compute() + sum(parts.exposed); }

private:
  /// Returns the schedule's task of an instruction; nothing for an instruction outside of the tasks, such as the
  /// optimizer's.
  std::optional<Task> taskAt(size_t index) const {
    const FlatInstruction &instruction = list.body[index];
    const auto &task = expansion.entry->body[expansion.ops[size_t(instruction.origin)].entry].task;
    if (!task || package::isOncePerStep(task->phase) || instruction.kind != FlatInstruction::Kind::Op)
      return std::nullopt;
    TaskKind kind = task->phase == package::Phase::Forward         ? TaskKind::Forward
                    : task->phase == package::Phase::Backward      ? TaskKind::Backward
                    : task->phase == package::Phase::InputGradient ? TaskKind::InputGradient
                                                                   : TaskKind::WeightGradient;
    return Task{kind, instruction.microbatch, task->chunk};
  }
  /// Fills `ofGroups` for a device that runs each group as one instruction: the time counts at the product.
  void priceGroups() {
    ofGroups.assign(list.body.size(), std::nullopt);
    for (size_t i = 0; i < list.body.size(); ++i) {
      auto more = size_t(list.body[i].joined);
      if (more == 0)
        continue;
      auto group = std::span<const FlatInstruction>(list.body).subspan(i, more + 1);
      ofGroups[i] = prices.joinedSeconds(*list.body[i].source, epilogueBytes(list, group));
      for (size_t next = i + 1; next <= i + more; ++next)
        ofGroups[next] = 0;
    }
  }
  double seconds(size_t index) {
    const FlatInstruction &instruction = list.body[index];
    if (!ofGroups.empty() && ofGroups[index])
      return *ofGroups[index];
    if (instruction.kind != FlatInstruction::Kind::Op)
      return 0;
    const InstructionPrice &price = prices.of(*instruction.source);
    bool accumulates = instruction.source->op == package::kAccumulate && instruction.operands.size() == 2;
    return accumulates || instruction.sum >= 0 ? price.addingSeconds : price.kernelSeconds;
  }

  bool step(const FlatInstruction &instruction, std::vector<Message> &messages) {
    switch (instruction.kind) {
    case FlatInstruction::Kind::Op:
      runOp(instruction);
      return true;
    case FlatInstruction::Kind::Send: {
      Message &message = messages[size_t(instruction.message)];
      message.sent = now;
      message.seconds = prices.mergedSeconds(instruction).all();
      sends += message.seconds;
      return true;
    }
    case FlatInstruction::Kind::Receive:
      messages[size_t(instruction.message)].received = now;
      return true;
    case FlatInstruction::Kind::Sent:
    case FlatInstruction::Kind::Received:
      if (!messages[size_t(instruction.message)].isUnderWay())
        return false;
      now = std::max(now, messages[size_t(instruction.message)].end());
      return true;
    }
    return true;
  }

  void runOp(const FlatInstruction &instruction) {
    double start = now;
    if (package::isCollective(instruction.source->op)) {
      runCollective(instruction);
    } else if (instruction.source->op == "wait") {
      if (auto found = underWay.find(instruction.operands[0]); found != underWay.end())
        standStill(found->second.axes, found->second.end - now);
    } else {
      double took = seconds(next);
      StepPart part = prices.partOf(expansion, instruction.origin);
      (part == StepPart::Forward    ? parts.forward
       : part == StepPart::Backward ? parts.backward
                                    : parts.optimizer) += took;
      beginTask(took);
      now += took;
      computed += took;
    }
    if (now > start)
      taskEnd = now;
  }

  void runCollective(const FlatInstruction &instruction) {
    CollectiveSeconds took = prices.mergedSeconds(instruction);
    std::string axes = prices.axisNames(*instruction.source);
    parts.collectives[axes] += took.all();
    if (instruction.stream.empty()) {
      standStill(axes, took.all());
      return;
    }
    double &stream = streams[instruction.stream];
    stream = std::max(now, stream) + took.all();
    for (int result : instruction.results)
      underWay[result] = {axes, stream};
    standStill(axes, took.transfer);
  }

  /// Advances the clock by `seconds` in which no kernel runs.
  void standStill(const std::string &axes, double seconds) {
    if (seconds <= 0)
      return;
    parts.exposed[axes] += seconds;
    now += seconds;
  }

  /// Starts the task of the next kernel in the timeline. Kernels after the last task belong to the optimizer.
  void beginTask(double took) {
    if (took <= 0)
      return;
    std::optional<Task> its = taskAt(next);
    bool isAfter = lastOfTasks && next > *lastOfTasks;
    if (isAfter ? inOptimizer : !its || its == task)
      return;
    closeTask();
    task = its;
    inOptimizer = isAfter;
    taskStart = taskEnd = now;
    computed = 0;
  }

  void closeTask() {
    if (task)
      trace.push_back({stage, false, toString(*task, chunks), taskStart, taskEnd - taskStart, task, 0,
                       std::max(0.0, taskEnd - taskStart - computed)});
    else if (inOptimizer)
      trace.push_back({stage, false, "optimizer", taskStart, taskEnd - taskStart});
  }

  struct UnderWay {
    std::string axes;
    double end = 0;
  };

  int64_t stage, chunks;
  const package::Expansion &expansion;
  package::FlatProgram list;
  InstructionPrices &prices;
  size_t next = 0;
  std::vector<std::optional<double>> ofGroups; // seconds of instructions that run as one with others; or empty
  std::map<std::string, double> streams;       // the time at which each stream is free, by name
  std::map<int, UnderWay> underWay;            // unfinished collectives, by the value that waits for them
  std::optional<size_t> lastOfTasks; // index of the last timed instruction of any task; absent without a schedule
  std::optional<Task> task;
  bool inOptimizer = false;
  double taskStart = 0, taskEnd = 0, computed = 0;
};

ProgramPrice priceOf(std::vector<StageClock> &stages, bool hasTasks) {
  ProgramPrice price;
  StageClock *busiest = &stages.front();
  for (StageClock &stage : stages) {
    stage.finish();
    price.stepSeconds = std::max(price.stepSeconds, stage.now);
    if (stage.busy() > busiest->busy())
      busiest = &stage;
    if (hasTasks)
      price.trace.insert(price.trace.end(), stage.trace.begin(), stage.trace.end());
  }
  if (!hasTasks)
    price.trace.push_back({0, false, "step", 0, price.stepSeconds});
  price.breakdown = busiest->parts;
  if (busiest->sends > 0)
    price.breakdown.collectives["stage"] += busiest->sends;
  price.breakdown.bubble = std::max(0.0, price.stepSeconds - busiest->busy());
  price.computeSeconds = busiest->compute();
  price.collectiveSeconds = StageClock::sum(price.breakdown.collectives);
  return price;
}
} // namespace

Result<ProgramPrice> priceProgram(mlir::ModuleOp device, const package::Program &program,
                                  const CollectiveModel &collectives, bool joinsProducts) {
  InstructionPrices prices(device, program, collectives);
  const package::Expansion expansion = package::expand(program);
  std::vector<StageClock> stages;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    auto list = package::flatten(program, expansion, int64_t(s), program.steps[s]);
    if (!list)
      return list.error();
    stages.emplace_back(int64_t(s), expansion, std::move(*list), prices,
                        program.schedule ? program.schedule->chunks : 1, joinsProducts);
  }
  std::vector<Message> messages(static_cast<size_t>(expansion.messages));
  for (bool moved = true; moved;) {
    moved = false;
    for (StageClock &stage : stages)
      moved |= stage.run(messages);
  }
  return priceOf(stages, program.schedule.has_value());
}

} // namespace kerf
