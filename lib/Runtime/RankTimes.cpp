// SPDX-License-Identifier: Apache-2.0
#include "RankTimes.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
bool communicates(const FlatInstruction &instruction) {
  return instruction.kind != FlatInstruction::Kind::Op || package::isAsynchronous(instruction.source->op);
}

/// Returns the name of an instruction's node; for a bucket, the first collective's name and "and N more".
std::string nameOf(const FlatInstruction &instruction) {
  const std::string &name = instruction.source->name;
  return instruction.others.empty() ? name : fmt::format("{} and {} more", name, instruction.others.size());
}

CollectiveTime communicationTime(const RankPlan &plan, size_t index, const Timer &timer) {
  const FlatProgram &flat = plan.flat;
  const FlatInstruction &instruction = flat.body[index];
  bool transfers = instruction.kind != FlatInstruction::Kind::Op,
       receives = instruction.kind == FlatInstruction::Kind::Receive;
  const package::Instruction &source = *instruction.source;
  int64_t bytes = 0;
  for (int moved : receives ? instruction.results : instruction.operands)
    bytes += elementsOf(flat.values[size_t(moved)].shape) * bytesOf(flat.values[size_t(moved)].dtype);
  auto cause = source.attrs.find("cause");
  return {transfers ? (receives ? "receive" : "send") : source.op,
          nameOf(instruction),
          cause != source.attrs.end() && cause->is_string() ? cause->get<std::string>() : "",
          streamOf(plan, index),
          bytes,
          timer.calls,
          timer.seconds,
          timer.waitSeconds};
}
} // namespace

TimeReport timeReport(const RankPlan &plan, const std::vector<Timer> &timers) {
  TimeReport report;
  std::map<std::string, KernelTime> byOp;
  std::vector<bool> reported(timers.size(), false);
  for (size_t i = 0; i < plan.flat.body.size(); ++i) {
    const FlatInstruction &instruction = plan.flat.body[i];
    if (reported[size_t(instruction.origin)])
      continue; // a repetition in another microbatch
    reported[size_t(instruction.origin)] = true;
    const Timer &timer = timers[size_t(instruction.origin)];
    if (!communicates(instruction)) {
      KernelTime &kernel = byOp[package::operatorName(instruction)];
      kernel.op = package::operatorName(instruction);
      kernel.calls += timer.calls;
      kernel.seconds += timer.seconds;
      report.computeSeconds += timer.seconds;
      continue;
    }
    report.waitSeconds += timer.waitSeconds;
    report.collectives.push_back(communicationTime(plan, i, timer));
  }
  for (auto &[op, kernel] : byOp)
    if (kernel.calls > 0)
      report.kernels.push_back(kernel);
  std::stable_sort(report.kernels.begin(), report.kernels.end(),
                   [](const KernelTime &a, const KernelTime &b) { return a.seconds > b.seconds; });
  return report;
}

std::map<std::string, OverlapTimes> overlapOf(const TimeReport &times) {
  std::map<std::string, OverlapTimes> streams;
  // A wait for one collective is also a wait for all earlier ones on its stream, so only sums over a stream are exact.
  std::map<std::string, double> waits;
  for (const CollectiveTime &collective : times.collectives) {
    streams[collective.stream].seconds += collective.seconds;
    waits[collective.stream] += collective.waitSeconds;
  }
  for (auto &[stream, overlap] : streams)
    overlap.hiddenSeconds = std::max(0.0, overlap.seconds - waits[stream]);
  return streams;
}

OverlapTimes overlapOf(const RankPlan &plan, const std::vector<InstructionTimes> &times) {
  double seconds = 0, exposed = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const FlatInstruction &instruction = plan.flat.body[i];
    bool waits = instruction.source->op == "wait" || instruction.kind == FlatInstruction::Kind::Received;
    if (times[i].seconds < 0 || (!waits && !communicates(instruction)))
      continue;
    seconds += waits ? 0 : times[i].seconds;
    exposed += streamOf(plan, i) == kComputeStream ? times[i].seconds : std::max(0.0, times[i].waitSeconds);
  }
  return {seconds, std::max(0.0, seconds - exposed)};
}

OverlapTimes sumOf(const std::map<std::string, OverlapTimes> &streams) {
  OverlapTimes sum;
  for (const auto &[stream, overlap] : streams) {
    sum.seconds += overlap.seconds;
    sum.hiddenSeconds += overlap.hiddenSeconds;
  }
  return sum;
}

std::vector<Span> spansOf(const RankPlan &plan, const std::vector<InstructionTimes> &times) {
  std::vector<Span> spans;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].seconds < 0)
      continue;
    const FlatInstruction &instruction = plan.flat.body[i];
    const package::Instruction &source = *instruction.source;
    std::string op = package::operatorName(instruction);
    switch (instruction.kind) {
    case FlatInstruction::Kind::Op:
      break;
    case FlatInstruction::Kind::Send:
      op = "send";
      break;
    case FlatInstruction::Kind::Receive:
      op = "receive";
      break;
    case FlatInstruction::Kind::Sent:
    case FlatInstruction::Kind::Received:
      op = "wait";
      break;
    }
    std::string name = source.name.empty() ? op : nameOf(instruction);
    spans.push_back({name, op, streamOf(plan, i), instruction.microbatch, times[i].start, times[i].seconds});
    if (times[i].waitSeconds >= 0)
      spans.push_back({name, "wait", kComputeStream, instruction.microbatch, times[i].waitStart, times[i].waitSeconds});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) { return a.start < b.start; });
  return spans;
}

} // namespace kerf::runtime
