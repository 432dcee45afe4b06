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

/// Of several collectives that are one, the first's, and how many more.
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
  std::vector<bool> told(timers.size(), false);
  for (size_t i = 0; i < plan.flat.body.size(); ++i) {
    const FlatInstruction &instruction = plan.flat.body[i];
    if (told[size_t(instruction.origin)])
      continue; // another microbatch's
    told[size_t(instruction.origin)] = true;
    const Timer &timer = timers[size_t(instruction.origin)];
    if (!communicates(instruction)) {
      KernelTime &kernel = byOp[package::opOf(instruction)];
      kernel.op = package::opOf(instruction);
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

std::map<std::string, Overlap> overlapOf(const TimeReport &times) {
  std::map<std::string, Overlap> streams;
  std::map<std::string, double> waits; // a wait for one is also for those before it on its stream: only sums tell
  for (const CollectiveTime &collective : times.collectives) {
    streams[collective.stream].seconds += collective.seconds;
    waits[collective.stream] += collective.waitSeconds;
  }
  for (auto &[stream, overlap] : streams)
    overlap.hiddenSeconds = std::max(0.0, overlap.seconds - waits[stream]);
  return streams;
}

Overlap overlapOf(const RankPlan &plan, const std::vector<Ran> &ran) {
  double seconds = 0, exposed = 0;
  for (size_t i = 0; i < ran.size(); ++i) {
    const FlatInstruction &instruction = plan.flat.body[i];
    bool waits = instruction.source->op == "wait" || instruction.kind == FlatInstruction::Kind::Received;
    if (ran[i].seconds < 0 || (!waits && !communicates(instruction)))
      continue;
    seconds += waits ? 0 : ran[i].seconds;
    exposed += streamOf(plan, i) == kComputeStream ? ran[i].seconds : std::max(0.0, ran[i].waitSeconds);
  }
  return {seconds, std::max(0.0, seconds - exposed)};
}

Overlap sumOf(const std::map<std::string, Overlap> &streams) {
  Overlap sum;
  for (const auto &[stream, overlap] : streams) {
    sum.seconds += overlap.seconds;
    sum.hiddenSeconds += overlap.hiddenSeconds;
  }
  return sum;
}

std::vector<Span> spansOf(const RankPlan &plan, const std::vector<Ran> &ran) {
  std::vector<Span> spans;
  for (size_t i = 0; i < ran.size(); ++i) {
    if (ran[i].seconds < 0)
      continue;
    const FlatInstruction &instruction = plan.flat.body[i];
    const package::Instruction &source = *instruction.source;
    std::string op = package::opOf(instruction);
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
    spans.push_back({name, op, streamOf(plan, i), instruction.microbatch, ran[i].start, ran[i].seconds});
    if (ran[i].waitSeconds >= 0)
      spans.push_back({name, "wait", kComputeStream, instruction.microbatch, ran[i].waitStart, ran[i].waitSeconds});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) { return a.start < b.start; });
  return spans;
}

} // namespace kerf::runtime
