// SPDX-License-Identifier: Apache-2.0
#include "ExpandKernels.h"

#include <map>

namespace kerf::runtime {

namespace {
using package::FlatInstruction;

class Expander {
public:
  Expander(package::FlatProgram &flat, const DeviceCode *code) : flat(flat), code(code) {}

  void run() {
    std::vector<FlatInstruction> body = std::move(flat.body);
    flat.body.clear();
    leaveGroups(body);
    for (FlatInstruction &instruction : body) {
      for (int &operand : instruction.operands)
        operand = replacementOf(operand);
      if (expands(instruction))
        expand(instruction);
      else
        flat.body.push_back(std::move(instruction));
    }
    for (int &result : flat.results)
      if (result >= 0)
        result = replacementOf(result);
  }

private:
  bool expands(const FlatInstruction &instruction) const {
    return instruction.kernel && !(code && code->has(instruction.kernel->name));
  }
  /// Takes the mark from each group with a kernel that is expanded: such a group runs one by one.
  void leaveGroups(std::vector<FlatInstruction> &body) const {
    for (size_t i = 0; i < body.size(); ++i)
      for (int next = 1; next <= body[i].joined; ++next)
        if (expands(body[i + size_t(next)]))
          body[i].joined = 0;
  }

  /// Returns the value that replaces a kernel's result, or `value` itself if it is not replaced.
  int replacementOf(int value) const {
    auto found = replaced.find(value);
    return found == replaced.end() ? value : found->second;
  }

  void expand(const FlatInstruction &call) {
    const package::Function &kernel = *call.kernel;
    auto [origin, isNew] = firstOrigin.try_emplace(call.origin, flat.origins);
    if (isNew)
      flat.origins += int(kernel.body.size());
    std::vector<int> numbers(kernel.values.size(), -1);
    for (size_t a = 0; a < kernel.args.size(); ++a)
      numbers[size_t(kernel.args[a])] = call.operands[a];
    for (size_t i = 0; i < kernel.body.size(); ++i)
      addInstruction(kernel, i, origin->second + int(i), call, numbers);
    for (size_t r = 0; r < kernel.results.size(); ++r)
      replaced[call.results[r]] = numbers[size_t(kernel.results[r])];
  }

  /// Adds instruction number `index` of a kernel to the program. `numbers` maps the kernel's values to flat values.
  void addInstruction(const package::Function &kernel, size_t index, int origin, const FlatInstruction &call,
                      std::vector<int> &numbers) {
    const package::Instruction &source = kernel.body[index];
    if (auto kept = constants.find(origin); kept != constants.end()) {
      numbers[size_t(source.results[0])] = kept->second;
      return;
    }
    FlatInstruction made{&source, {}, {}, FlatInstruction::Kind::Op, call.microbatch, origin};
    made.call = call.call;
    for (int operand : source.operands)
      made.operands.push_back(numbers[size_t(operand)]);
    for (int result : source.results) {
      flat.values.push_back(kernel.values[size_t(result)]);
      made.results.push_back(numbers[size_t(result)] = int(flat.values.size()) - 1);
    }
    if (source.results.size() == 1 && package::isKeptConstant(source, kernel.values[size_t(source.results[0])]))
      constants.emplace(origin, made.results[0]);
    flat.body.push_back(std::move(made));
  }

  package::FlatProgram &flat;
  const DeviceCode *code;
  std::map<int, int> replaced;    // from the result of a call to the flat value that replaces it
  std::map<int, int> firstOrigin; // from a call's origin to the origin of its first new instruction
  std::map<int, int> constants;   // from a constant's origin to the flat value that all microbatches share
};
} // namespace

void expandKernels(package::FlatProgram &flat, const DeviceCode *code) { Expander(flat, code).run(); }

} // namespace kerf::runtime
