// SPDX-License-Identifier: Apache-2.0
#include "EarlyUpdates.h"

#include <algorithm>

namespace kerf::runtime {

// Operands are parameter, states, gradient, learning rate; results the new parameter and states.

bool isUpdate(const FlatInstruction &instruction) {
  if (instruction.kind != FlatInstruction::Kind::Op)
    return false;
  const std::string &op = instruction.source->op;
  size_t changed = op == "sgd" ? 2 : op == "adamw" ? 3 : 0; // a parameter and its states
  return changed > 0 && instruction.results.size() == changed && instruction.operands.size() > changed + 1;
}

size_t gradientOperand(const FlatInstruction &update) { return update.results.size(); }

void moveUpdatesAhead(FlatProgram &flat) {
  int64_t end = int64_t(flat.body.size());
  // Of the value whose memory another one has: where its last use but by updates is.
  std::vector<int> root(flat.values.size());
  std::vector<int64_t> made(flat.values.size(), -1), lastUse(flat.values.size(), -1);
  for (size_t value = 0; value < root.size(); ++value)
    root[value] = int(value);
  std::vector<int> pendingOperand(flat.values.size(), -1); // of a collective's result: what it reads until its wait
  auto use = [&](int value, int64_t at) {
    int64_t &last = lastUse[size_t(root[size_t(value)])];
    last = std::max(last, at);
  };
  for (int64_t i = 0; i < end; ++i) {
    const FlatInstruction &instruction = flat.body[size_t(i)];
    for (int result : instruction.results)
      made[size_t(result)] = i;
    if (isView(flat, instruction) && instruction.operands.size() == 1 && instruction.results.size() == 1)
      root[size_t(instruction.results[0])] = root[size_t(instruction.operands[0])];
    if (isUpdate(instruction))
      continue;
    for (int operand : instruction.operands) {
      use(operand, i);
      if (int read = pendingOperand[size_t(operand)]; read >= 0)
        use(read, i);
    }
    if (package::isAsynchronous(instruction.source->op))
      for (size_t r = 0; r < instruction.results.size(); ++r)
        pendingOperand[size_t(instruction.results[r])] = instruction.operands[r];
  }
  for (int result : flat.results)
    if (result >= 0)
      use(result, end);

  std::vector<std::vector<int64_t>> movedBehind(flat.body.size());
  std::vector<bool> moves(flat.body.size(), false);
  for (int64_t i = 0; i < end; ++i) {
    const FlatInstruction &update = flat.body[size_t(i)];
    if (!isUpdate(update))
      continue;
    int64_t behind = 0;
    for (int operand : update.operands)
      behind = std::max(behind, made[size_t(operand)]);
    for (size_t r = 0; r < update.results.size(); ++r) // in place of operand r
      behind = std::max(behind, lastUse[size_t(root[size_t(update.operands[r])])]);
    if (behind >= i)
      continue;
    movedBehind[size_t(behind)].push_back(i);
    moves[size_t(i)] = true;
  }
  std::vector<FlatInstruction> body;
  body.reserve(flat.body.size());
  for (size_t i = 0; i < flat.body.size(); ++i) {
    if (!moves[i])
      body.push_back(flat.body[i]);
    for (int64_t update : movedBehind[i])
      body.push_back(flat.body[size_t(update)]);
  }
  flat.body = std::move(body);
}

} // namespace kerf::runtime
