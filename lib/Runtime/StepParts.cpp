// SPDX-License-Identifier: Apache-2.0
// Two passes find the needed instructions. The first goes over the entry function, in the same way on all stages, so
// that both ends of a message agree on whether it is sent. The second goes over the rank's own list of instructions,
// backward from the wanted results and the messages that are sent. All ranks of a stage have the same list, so they
// agree on every collective.
#include "StepParts.h"
#include "kerf/Package/Accumulation.h"

#include <algorithm>
#include <set>

namespace kerf::runtime {

namespace {
using package::ArgKind;
using package::Instruction;

/// Returns the instructions of the entry function that the wanted results depend on. A call counts as one instruction.
std::set<const Instruction *> neededInEntry(const package::Program &program, const std::vector<bool> &wanted) {
  const package::Function &entry = *std::find_if(program.functions.begin(), program.functions.end(),
                                                 [&](const auto &function) { return function.name == program.entry; });
  std::vector<bool> isNeeded(entry.values.size(), false);
  for (size_t r = 0; r < wanted.size(); ++r)
    if (wanted[r])
      isNeeded[size_t(entry.results[r])] = true;
  std::set<const Instruction *> needed;
  for (size_t i = entry.body.size(); i-- > 0;) {
    const Instruction &instruction = entry.body[i];
    if (std::none_of(instruction.results.begin(), instruction.results.end(),
                     [&](int value) { return isNeeded[size_t(value)]; }))
      continue;
    needed.insert(&instruction);
    for (int operand : instruction.operands)
      isNeeded[size_t(operand)] = true;
  }
  return needed;
}

bool replacesArgument(const package::Program &program, size_t result) {
  return std::any_of(program.args.begin(), program.args.end(),
                     [&](const package::Arg &arg) { return arg.updatedBy == int(result); });
}
} // namespace

StepPart partOf(const package::Program &program, const RankPlan &plan, const std::vector<bool> &wanted) {
  const FlatProgram &flat = plan.flat;
  const std::set<const Instruction *> needed = neededInEntry(program, wanted);
  StepPart part;
  part.runs.assign(flat.body.size(), false);
  std::vector<bool> isNeeded(flat.values.size(), false);
  for (size_t r = 0; r < wanted.size(); ++r)
    if (wanted[r] && flat.results[r] >= 0)
      isNeeded[size_t(flat.results[r])] = true;
  for (size_t i = flat.body.size(); i-- > 0;) {
    const FlatInstruction &instruction = flat.body[i];
    bool runs = instruction.kind != FlatInstruction::Kind::Op
                    ? needed.contains(instruction.source)
                    : std::any_of(instruction.results.begin(), instruction.results.end(),
                                  [&](int value) { return isNeeded[size_t(value)]; });
    if (!runs)
      continue;
    part.runs[i] = true;
    for (int operand : instruction.operands)
      isNeeded[size_t(operand)] = true;
  }

  std::set<int> replaced, ofArguments; // indices of arguments' buffers
  for (const FlatArg &arg : flat.args) {
    int buffer = plan.buffers.bufferOf[size_t(arg.value)], result = program.args[arg.arg].updatedBy;
    ofArguments.insert(buffer);
    if (result >= 0 && wanted[size_t(result)])
      replaced.insert(buffer);
  }
  for (size_t c = 0; c < plan.buffers.copies.size(); ++c)
    if (int to = plan.buffers.copies[c].to; !ofArguments.contains(to) || replaced.contains(to))
      part.copies.push_back(c);
  std::set<int> restoredBuffers;
  for (size_t i = 0; i < flat.body.size(); ++i)
    if (part.runs[i] && !package::isView(flat, flat.body[i]))
      for (int result : flat.body[i].results)
        if (int buffer = plan.buffers.bufferOf[size_t(result)];
            ofArguments.contains(buffer) && !replaced.contains(buffer))
          restoredBuffers.insert(buffer);
  part.restoredBuffers.assign(restoredBuffers.begin(), restoredBuffers.end());
  return part;
}

std::vector<bool> evaluatedResults(const package::Program &program) {
  std::vector<bool> wanted;
  for (size_t r = 0; r < program.results.size(); ++r)
    wanted.push_back(!replacesArgument(program, r) && !program.results[r].name.starts_with("gradient_norm_squared/"));
  return wanted;
}

std::vector<bool> accumulatedResults(const package::Program &program) {
  std::vector<bool> wanted;
  for (size_t r = 0; r < program.results.size(); ++r)
    wanted.push_back(program.results[r].name == "loss" && !replacesArgument(program, r));
  for (const package::Arg &arg : program.args)
    if (arg.updatedBy >= 0 && (arg.kind == ArgKind::Buffer || package::isAccumulator(arg)))
      wanted[size_t(arg.updatedBy)] = true;
  return wanted;
}

} // namespace kerf::runtime
