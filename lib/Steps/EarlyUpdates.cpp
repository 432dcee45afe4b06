// SPDX-License-Identifier: Apache-2.0
#include "EarlyUpdates.h"

#include <algorithm>

namespace kerf::steps {

namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// Returns which instructions may move: updates, and computations of scalars that only updates read, such as Adam's
/// bias corrections.
std::vector<bool> movableInstructions(const FlatProgram &flat) {
  std::vector<bool> readByOthers(flat.values.size(), false), moves(flat.body.size(), false);
  for (int result : flat.results)
    if (result >= 0)
      readByOthers[size_t(result)] = true;
  for (size_t i = flat.body.size(); i-- > 0;) {
    const FlatInstruction &instruction = flat.body[i];
    bool scalars = instruction.kind == FlatInstruction::Kind::Op && !instruction.results.empty() &&
                   std::all_of(instruction.results.begin(), instruction.results.end(), [&](int result) {
                     const package::Value &value = flat.values[size_t(result)];
                     return value.shape.empty() && !value.pending && !readByOthers[size_t(result)];
                   });
    moves[i] = isUpdate(instruction) || scalars;
    if (!moves[i])
      for (int operand : instruction.operands)
        readByOthers[size_t(operand)] = true;
  }
  return moves;
}

} // namespace

int64_t moveUpdatesAhead(package::FlatProgram &flat) {
  int64_t end = int64_t(flat.body.size());
  const std::vector<bool> mayMove = movableInstructions(flat);
  std::vector<int> root(flat.values.size()); // for each value: the value whose memory it shares
  // For each value: the instruction that computes it (-1: an argument), and the last use by an instruction that stays.
  std::vector<int64_t> made(flat.values.size(), -1), lastUse(flat.values.size(), -1);
  for (size_t value = 0; value < root.size(); ++value)
    root[value] = int(value);
  std::vector<int> pendingOperand(flat.values.size(),
                                  -1); // for a collective's result: the operand, read until the wait
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
    if (mayMove[size_t(i)])
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
    if (!mayMove[size_t(i)])
      continue;
    int64_t behind = 0;
    for (int operand : update.operands)
      behind = std::max(behind, made[size_t(operand)]);
    for (int operand : update.operands)
      if (int its = root[size_t(operand)];
          made[size_t(its)] < 0 && isUpdate(update)) // an argument, which the update may replace
        behind = std::max(behind, lastUse[size_t(its)]);
    if (behind >= i)
      continue;
    for (int result : update.results)
      made[size_t(result)] = behind;
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
  return std::count(moves.begin(), moves.end(), true);
}

} // namespace kerf::steps
