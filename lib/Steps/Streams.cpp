// SPDX-License-Identifier: Apache-2.0
#include "Streams.h"
#include "Unroll.h"

#include <algorithm>
#include <map>

namespace kerf::steps {

int64_t chooseStreams(package::FlatProgram &flat) {
  using package::FlatInstruction;
  int64_t beside = 0;
  for (size_t i = 0; i < flat.body.size(); ++i) {
    FlatInstruction &instruction = flat.body[i];
    if (instruction.kind == FlatInstruction::Kind::Receive) {
      instruction.stream = "receive";
      ++beside;
      continue;
    }
    if (instruction.kind != FlatInstruction::Kind::Op || !package::isAsynchronous(instruction.source->op))
      continue;
    const FlatInstruction *next = i + 1 < flat.body.size() ? &flat.body[i + 1] : nullptr;
    bool atOnce = next && next->kind == FlatInstruction::Kind::Op && next->source->op == "wait" &&
                  std::count(instruction.results.begin(), instruction.results.end(), next->operands[0]) > 0;
    if (atOnce || requestedStream(*instruction.source) == "compute")
      continue;
    instruction.stream = requestedStream(*instruction.source);
    ++beside;
  }
  return beside;
}

int64_t awaitMessages(package::FlatProgram &flat) {
  using package::FlatInstruction;
  std::map<int, FlatInstruction> received; // for each value being received: the wait for it
  int64_t waits = 0;
  std::vector<FlatInstruction> body;
  for (FlatInstruction &instruction : flat.body) {
    for (int operand : instruction.operands)
      if (auto found = received.find(operand); found != received.end()) {
        body.push_back(std::move(found->second));
        received.erase(found);
        ++waits;
      }
    if (instruction.kind == FlatInstruction::Kind::Receive) {
      FlatInstruction wait = instruction;
      wait.kind = FlatInstruction::Kind::Received;
      wait.operands = std::exchange(wait.results, {});
      wait.stream.clear();
      received.emplace(wait.operands[0], std::move(wait));
    }
    body.push_back(std::move(instruction));
  }
  for (auto &[value, wait] : received) { // values that no instruction of this stage reads
    body.push_back(std::move(wait));
    ++waits;
  }
  flat.body = std::move(body);
  return waits;
}

} // namespace kerf::steps
