// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/FlatProgram.h"

#include <algorithm>
#include <map>

namespace kerf::package {

namespace {
const Function &entryOf(const Program &program) {
  return *std::find_if(program.functions.begin(), program.functions.end(),
                       [&](const Function &function) { return function.name == program.entry; });
}

/// Inlines the calls of the entry function.
class Expander {
public:
  explicit Expander(const Program &program) : program(program), microbatches(microbatchesOf(program)) {
    for (const Function &function : program.functions)
      functions.emplace(function.name, &function);
  }

  Expansion run() {
    const Function &entry = entryOf(program);
    expansion.entry = &entry;
    std::vector<int> numbers(entry.values.size(), -1); // for each value of the entry function: its expanded value
    for (size_t a = 0; a < entry.args.size(); ++a) {
      int &number = numbers[size_t(entry.args[a])];
      number = add(entry.values[size_t(entry.args[a])], microbatchPieces(program, a) > 1);
      expansion.args.push_back(number);
    }
    for (index = 0; index < entry.body.size(); ++index) {
      const Instruction &instruction = entry.body[index];
      inMicrobatches = instruction.task && !isOncePerStep(instruction.task->phase);
      place(entry, instruction, numbers);
    }
    for (int result : entry.results)
      expansion.results.push_back(numbers[size_t(result)]);
    return std::move(expansion);
  }

private:
  int add(const Value &value, bool ofMicrobatch) {
    expansion.values.push_back(value);
    expansion.ofMicrobatch.push_back(ofMicrobatch);
    return int(expansion.values.size()) - 1;
  }

  /// Appends an instruction of `function`, inlining it if it is a call. `numbers` maps values of `function` to
  /// expanded values.
  void place(const Function &function, const Instruction &instruction, std::vector<int> &numbers) {
    std::vector<int> operands;
    for (int operand : instruction.operands)
      operands.push_back(numbers[size_t(operand)]);
    const Function *callee =
        instruction.op == "call" ? functions.at(instruction.attrs["callee"].get_ref<const std::string &>()) : nullptr;
    if (callee && !callee->kernel) {
      std::vector<int> results = placeCall(*callee, operands);
      for (size_t r = 0; r < results.size(); ++r)
        numbers[size_t(instruction.results[r])] = results[r];
      return;
    }
    ExpandedOp op{&instruction, std::move(operands), {}, index, depth > 0 ? expansion.calls - 1 : -1, callee};
    for (int result : instruction.results) {
      const Value &value = function.values[size_t(result)];
      bool shared = instruction.op == kAccumulate || isKeptConstant(instruction, value);
      op.results.push_back(numbers[size_t(result)] = add(value, inMicrobatches && !shared));
    }
    if (instruction.op == kTransfer) {
      op.message = expansion.messages;
      expansion.messages += inMicrobatches ? microbatches : 1;
    }
    expansion.ops.push_back(std::move(op));
  }

  std::vector<int> placeCall(const Function &callee, const std::vector<int> &operands) {
    std::vector<int> numbers(callee.values.size(), -1);
    for (size_t i = 0; i < operands.size(); ++i)
      numbers[size_t(callee.args[i])] = operands[i];
    if (depth++ == 0)
      ++expansion.calls;
    for (const Instruction &inner : callee.body)
      place(callee, inner, numbers);
    --depth;
    std::vector<int> results;
    for (int result : callee.results)
      results.push_back(numbers[size_t(result)]);
    return results;
  }

  const Program &program;
  int64_t microbatches;
  std::map<std::string_view, const Function *> functions;
  Expansion expansion;
  size_t index = 0; // of the entry function's instruction that is being appended
  bool inMicrobatches = false;
  int depth = 0; // number of calls around the instruction
};
} // namespace

Expansion expand(const Program &program) { return Expander(program).run(); }

ProgramTask taskOf(const Expansion &expansion, int op) {
  return expansion.entry->body[expansion.ops[size_t(op)].entry].task.value_or(ProgramTask());
}

bool isKeptConstant(const Instruction &instruction, const Value &result) {
  return instruction.op == "constant" && elementsOf(result.shape) * bytesOf(result.dtype) <= kKeptConstantBytes;
}

int64_t microbatchPieces(const Program &program, size_t arg) {
  int axis = program.mesh.find(kMicrobatchAxis);
  for (const DimSharding &dim : program.args[arg].sharding.dims)
    for (const AxisRef &ref : dim.axes)
      if (ref.axis == axis)
        return microbatchesOf(program);
  return 1;
}

bool hasArg(const Program &program, size_t arg, int64_t stage) {
  int64_t home = program.args[arg].stage;
  if (home >= 0 || stagesOf(program) == 1)
    return home < 0 || home == stage;
  const Function &entry = entryOf(program);
  int value = entry.args[arg];
  for (const Instruction &instruction : entry.body)
    if (instruction.task->stage == stage && std::count(instruction.operands.begin(), instruction.operands.end(), value))
      return true;
  for (size_t r = 0; r < program.results.size(); ++r)
    if (entry.results[r] == value && hasResult(program, r, stage))
      return true;
  return false;
}

bool hasResult(const Program &program, size_t result, int64_t stage) {
  int64_t home = program.results[result].stage;
  return home < 0 || home == stage;
}

DType resultType(const Program &program, size_t result) {
  const Function &entry = entryOf(program);
  return entry.values[size_t(entry.results[result])].dtype;
}

} // namespace kerf::package
