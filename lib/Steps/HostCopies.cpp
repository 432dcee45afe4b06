// SPDX-License-Identifier: Apache-2.0
#include "HostCopies.h"

#include <algorithm>
#include <map>

namespace kerf::steps {

namespace {
using package::FlatInstruction;
using package::FlatProgram;

bool is(const FlatInstruction &instruction, std::string_view op) {
  return instruction.kind == FlatInstruction::Kind::Op && instruction.source->op == op;
}

/// Delays the waits for offloads until the next layer has run or an instruction needs the copy. Returns how many
/// offloads now overlap with kernels.
int64_t delayOffloadWaits(FlatProgram &flat) {
  int64_t overlapped = 0;
  struct DelayedWait {
    FlatInstruction wait;
    int ran = -1; // call number of the layer that started after the offload; -1: none yet
  };
  std::vector<DelayedWait> delayed; // in the order of the offloads
  std::vector<bool> offloaded(flat.values.size(), false);
  std::vector<FlatInstruction> body;
  for (FlatInstruction &instruction : flat.body) {
    if (is(instruction, package::kOffload))
      offloaded[size_t(instruction.results[0])] = true;
    if (is(instruction, "wait") && offloaded[size_t(instruction.operands[0])]) {
      delayed.push_back({std::move(instruction)});
      continue;
    }
    int call = instruction.call;
    std::vector<DelayedWait> still;
    for (DelayedWait &one : delayed) {
      bool ended = one.ran >= 0 && one.ran != call;
      bool needed = std::count(instruction.operands.begin(), instruction.operands.end(), one.wait.results[0]) > 0;
      if (ended || needed) {
        overlapped += one.ran >= 0;
        body.push_back(std::move(one.wait));
        continue;
      }
      if (one.ran < 0)
        one.ran = call;
      still.push_back(std::move(one));
    }
    delayed = std::move(still);
    body.push_back(std::move(instruction));
  }
  for (DelayedWait &one : delayed) {
    overlapped += one.ran >= 0;
    body.push_back(std::move(one.wait));
  }
  flat.body = std::move(body);
  return overlapped;
}

/// Consecutive prefetches, which belong to the backward pass of one layer.
struct PrefetchGroup {
  std::vector<size_t> at;      // indices in FlatProgram::body
  size_t firstWait = SIZE_MAX; // index of the first instruction that waits for one of them
  size_t copied = 0;           // index of the last instruction that computes one of their operands
  int64_t microbatch = 0;
};

/// Starts the prefetches of each layer where the preceding layer in the list waits for its own. Returns how many moved.
int64_t startPrefetchesEarly(FlatProgram &flat) {
  std::vector<PrefetchGroup> all;
  std::map<int, size_t> groupOf;                   // for each prefetched value: its group
  std::vector<size_t> made(flat.values.size(), 0); // for each value: the index of its instruction
  for (size_t i = 0; i < flat.body.size(); ++i) {
    const FlatInstruction &instruction = flat.body[i];
    for (int operand : instruction.operands)
      if (auto found = groupOf.find(operand); found != groupOf.end())
        all[found->second].firstWait = std::min(all[found->second].firstWait, i);
    for (int result : instruction.results)
      made[size_t(result)] = i;
    if (!is(instruction, package::kPrefetch))
      continue;
    if (all.empty() || all.back().at.back() + 1 != i)
      all.push_back({{}, SIZE_MAX, 0, instruction.microbatch});
    all.back().at.push_back(i);
    all.back().copied = std::max(all.back().copied, made[size_t(instruction.operands[0])]);
    groupOf[instruction.results[0]] = all.size() - 1;
  }
  std::map<size_t, std::vector<size_t>> starts; // inserted before the instruction at that index
  std::vector<bool> moves(flat.body.size(), false);
  for (size_t f = 1; f < all.size(); ++f) {
    const PrefetchGroup &before = all[f - 1];
    if (before.microbatch != all[f].microbatch || before.firstWait <= all[f].copied)
      continue;
    starts[before.firstWait] = all[f].at;
    for (size_t i : all[f].at)
      moves[i] = true;
  }
  std::vector<FlatInstruction> body;
  body.reserve(flat.body.size());
  for (size_t i = 0; i < flat.body.size(); ++i) {
    if (auto found = starts.find(i); found != starts.end())
      for (size_t start : found->second)
        body.push_back(flat.body[start]);
    if (!moves[i])
      body.push_back(flat.body[i]);
  }
  flat.body = std::move(body);
  return std::count(moves.begin(), moves.end(), true);
}
} // namespace

int64_t overlapHostCopies(FlatProgram &flat) {
  int64_t delayed = delayOffloadWaits(flat);
  return delayed + startPrefetchesEarly(flat);
}

} // namespace kerf::steps
