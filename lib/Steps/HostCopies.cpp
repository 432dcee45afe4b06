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

/// Puts the waits for copies to the host off until the next layer has run, or something needs the copy.
int64_t waitLater(FlatProgram &flat) {
  int64_t put = 0;
  struct Later {
    FlatInstruction wait;
    int ran = -1; // the layer that has begun since
  };
  std::vector<Later> later; // in order
  std::vector<bool> offloaded(flat.values.size(), false);
  std::vector<FlatInstruction> body;
  for (FlatInstruction &instruction : flat.body) {
    if (is(instruction, package::kOffload))
      offloaded[size_t(instruction.results[0])] = true;
    if (is(instruction, "wait") && offloaded[size_t(instruction.operands[0])]) {
      later.push_back({std::move(instruction)});
      continue;
    }
    int call = instruction.call;
    std::vector<Later> still;
    for (Later &one : later) {
      bool ended = one.ran >= 0 && one.ran != call;
      bool needed = std::count(instruction.operands.begin(), instruction.operands.end(), one.wait.results[0]) > 0;
      if (ended || needed) {
        put += one.ran >= 0;
        body.push_back(std::move(one.wait));
        continue;
      }
      if (one.ran < 0)
        one.ran = call;
      still.push_back(std::move(one));
    }
    later = std::move(still);
    body.push_back(std::move(instruction));
  }
  for (Later &one : later) {
    put += one.ran >= 0;
    body.push_back(std::move(one.wait));
  }
  flat.body = std::move(body);
  return put;
}

/// Prefetches that stand together: those of one backward pass of a layer.
struct Fetches {
  std::vector<size_t> at; // in the body
  size_t firstWait = SIZE_MAX, copied = 0;
  int64_t microbatch = 0;
};

/// Begins each layer's where the layer before it in this list waits for its own.
int64_t fetchAhead(FlatProgram &flat) {
  std::vector<Fetches> all;
  std::map<int, size_t> fetchOf;                   // of what a prefetch makes
  std::vector<size_t> made(flat.values.size(), 0); // where each value is
  for (size_t i = 0; i < flat.body.size(); ++i) {
    const FlatInstruction &instruction = flat.body[i];
    for (int operand : instruction.operands)
      if (auto found = fetchOf.find(operand); found != fetchOf.end())
        all[found->second].firstWait = std::min(all[found->second].firstWait, i);
    for (int result : instruction.results)
      made[size_t(result)] = i;
    if (!is(instruction, package::kPrefetch))
      continue;
    if (all.empty() || all.back().at.back() + 1 != i)
      all.push_back({{}, SIZE_MAX, 0, instruction.microbatch});
    all.back().at.push_back(i);
    all.back().copied = std::max(all.back().copied, made[size_t(instruction.operands[0])]);
    fetchOf[instruction.results[0]] = all.size() - 1;
  }
  std::map<size_t, std::vector<size_t>> starts; // before the instruction at that place
  std::vector<bool> moves(flat.body.size(), false);
  for (size_t f = 1; f < all.size(); ++f) {
    const Fetches &before = all[f - 1];
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

int64_t copyBeside(FlatProgram &flat) {
  int64_t later = waitLater(flat);
  return later + fetchAhead(flat);
}

} // namespace kerf::steps
