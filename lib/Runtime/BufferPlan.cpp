// SPDX-License-Identifier: Apache-2.0
#include "BufferPlan.h"
#include "InstructionText.h"
#include "kerf/Package/Addition.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace kerf::runtime {

namespace {
int64_t bytesOfValue(const package::Value &value) { return elementsOf(value.shape) * bytesOf(value.dtype); }

class Planner {
public:
  Planner(const package::Program &program, const FlatProgram &flat, Sharing sharing, const Device &device)
      : program(program), flat(flat), sharing(sharing), device(device), end(int64_t(flat.body.size())),
        root(flat.values.size()), lastUse(flat.values.size(), -1), updates(flat.values.size(), -1) {
    plan.bufferOf.assign(flat.values.size(), -1);
  }

  Result<BufferPlan> run() {
    if (Status status = findRoots(); !status)
      return status.error();
    findUses();
    for (const FlatArg &arg : flat.args) {
      plan.bufferOf[size_t(arg.value)] = addBuffer(arg.value, BufferKind::Argument, 0);
      argOccupied.push_back(false);
    }
    for (size_t i = 0; i < flat.args.size(); ++i)
      if (int result = program.args[flat.args[i].arg].updatedBy; result >= 0) {
        int &update = updates[size_t(root[size_t(flat.results[size_t(result)])])];
        if (update < 0)
          update = int(i); // a value that updates two arguments is copied to the second at the end of the step
      }
    for (int64_t position = 0; position < end; ++position)
      placeResults(position);
    for (size_t value = 0; value < flat.values.size(); ++value)
      plan.bufferOf[value] = plan.bufferOf[size_t(root[value])];
    if (Status status = checkHostReads(); !status)
      return status.error();
    addCopies();
    return std::move(plan);
  }

private:
  Status findRoots() {
    for (size_t value = 0; value < root.size(); ++value)
      root[value] = int(value);
    for (const FlatInstruction &instruction : flat.body) {
      const std::string &op = instruction.source->op;
      if (!package::isView(flat, instruction))
        continue;
      if (instruction.operands.size() != 1 || instruction.results.size() != 1)
        return Error{
            fmt::format("{} of '{}' takes one operand and gives one result, not {} and {}; compile the package "
                        "again",
                        op, instruction.source->name, instruction.operands.size(), instruction.results.size())};
      const package::Value &from = flat.values[size_t(instruction.operands[0])],
                           &to = flat.values[size_t(instruction.results[0])];
      if (from.dtype != to.dtype || elementsOf(from.shape) != elementsOf(to.shape))
        return Error{fmt::format("{} of '{}' must keep number and type of the elements: the operand has {} of type {}, "
                                 "the result {} of type {}; compile the package again",
                                 op, instruction.source->name, elementsOf(from.shape), toString(from.dtype),
                                 elementsOf(to.shape), toString(to.dtype))};
      root[size_t(instruction.results[0])] = root[size_t(instruction.operands[0])];
    }
    return ok();
  }

  /// Fails if any instruction but a prefetch reads a value in host memory, which devices cannot address.
  Status checkHostReads() const {
    for (const FlatInstruction &instruction : flat.body) {
      bool prefetch = instruction.kind == FlatInstruction::Kind::Op && instruction.source->op == package::kPrefetch;
      if (prefetch || package::isView(flat, instruction))
        continue;
      for (int operand : instruction.operands)
        if (plan.buffers[size_t(plan.bufferOf[size_t(operand)])].kind == BufferKind::Host)
          return Error{
              fmt::format("{}: reads a copy in the host's memory, which only the op prefetch can read; report this "
                          "plan, it is a bug of Kerf",
                          instructionText(*instruction.source)),
              ExitStatus::InternalCheck};
    }
    return ok();
  }

  void use(int value, int64_t position) {
    int64_t &last = lastUse[size_t(root[size_t(value)])];
    last = std::max(last, position);
  }

  void findUses() {
    plan.firstWait.assign(flat.body.size(), -1);
    std::map<int, size_t> started; // from the result of a started instruction to that instruction's number
    for (size_t i = 0; i < flat.body.size(); ++i) {
      const FlatInstruction &instruction = flat.body[i];
      for (int operand : instruction.operands)
        use(operand, int64_t(i));
      if (package::isAsynchronous(instruction.source->op)) {
        for (int result : instruction.results)
          started[result] = i;
        plan.firstWait[i] = end;
      } else if (instruction.source->op == "wait") {
        int64_t &at = plan.firstWait[started.at(instruction.operands[0])];
        at = std::min(at, int64_t(i));
      }
    }
    // A collective reads its operand and writes its result until the wait for it.
    for (size_t i = 0; i < flat.body.size(); ++i)
      if (plan.firstWait[i] >= 0)
        for (const std::vector<int> *values : {&flat.body[i].operands, &flat.body[i].results})
          for (int value : *values)
            use(value, plan.firstWait[i]);
    for (int result : flat.results)
      if (result >= 0)
        use(result, end);
  }

  int addBuffer(int value, BufferKind kind, int64_t begin) {
    int64_t last = std::max(lastUse[size_t(value)], begin);
    plan.buffers.push_back({kind, {bytesOfValue(flat.values[size_t(value)]), begin, last}});
    return int(plan.buffers.size()) - 1;
  }

  /// Returns whether the instruction may write result number `result` over `buffer`, whose last uses are its operands.
  bool mayTake(const FlatInstruction &instruction, int result, int buffer) const {
    // Parts of rows differ in size. The library reads the operands of a group until the last result is written; only a
    // product that another tensor alone is added to is like one that is added to a sum.
    if (!instruction.operandParts.empty() || !instruction.resultParts.empty())
      return false;
    if (!instruction.parts.empty()) {
      auto addition = package::additionOf(flat.values, instruction.parts);
      if (!addition || addition->bias >= 0)
        return false;
    }
    bool read = false;
    for (size_t o = 0; o < instruction.operands.size(); ++o) {
      if (plan.bufferOf[size_t(root[size_t(instruction.operands[o])])] != buffer)
        continue;
      read = true;
      if (!device.mayOverwrite(*instruction.source, instruction.kernel, int(o), result))
        return false;
    }
    return read;
  }

  void placeResults(int64_t position) {
    const FlatInstruction &instruction = flat.body[size_t(position)];
    if (package::isView(flat, instruction))
      return;
    bool collective = package::isAsynchronous(instruction.source->op);
    BufferKind kind = instruction.source->op == package::kOffload ? BufferKind::Host : BufferKind::Working;
    std::vector<int> taken;
    for (size_t r = 0; r < instruction.results.size(); ++r) {
      int value = instruction.results[r];
      int64_t bytes = bytesOfValue(flat.values[size_t(value)]);
      bool constant = package::isKeptConstant(*instruction.source, flat.values[size_t(value)]);
      int buffer = -1;
      if (sharing == Sharing::InPlace && !constant)
        buffer = updatedArgument(instruction, int(r), position, collective, taken);
      if (sharing == Sharing::InPlace && buffer < 0 && !constant && !collective)
        buffer = dyingOperand(instruction, int(r), position, bytes, taken);
      if (buffer < 0)
        buffer = addBuffer(value, constant ? BufferKind::Constant : kind, position);
      else
        taken.push_back(buffer);
      plan.bufferOf[size_t(value)] = buffer;
      int64_t &last = plan.buffers[size_t(buffer)].lifetime.end;
      last = std::max({last, lastUse[size_t(value)], position});
    }
  }

  /// Returns the buffer of the argument that this result updates, if the argument's old value is no longer needed and
  /// the update can be computed in place; otherwise -1.
  int updatedArgument(const FlatInstruction &instruction, int result, int64_t position, bool collective,
                      const std::vector<int> &taken) {
    int arg = updates[size_t(instruction.results[size_t(result)])];
    if (arg < 0 || argOccupied[size_t(arg)])
      return -1;
    int value = flat.args[size_t(arg)].value, buffer = plan.bufferOf[size_t(value)];
    int64_t last = lastUse[size_t(value)];
    bool dead = last < position || (last == position && !collective && mayTake(instruction, result, buffer));
    if (!dead || std::find(taken.begin(), taken.end(), buffer) != taken.end())
      return -1;
    argOccupied[size_t(arg)] = true;
    return buffer;
  }

  /// Returns the buffer of an operand that is used for the last time and that the result may overwrite; otherwise -1.
  int dyingOperand(const FlatInstruction &instruction, int result, int64_t position, int64_t bytes,
                   const std::vector<int> &taken) const {
    for (int operand : instruction.operands) {
      int buffer = plan.bufferOf[size_t(root[size_t(operand)])];
      const Buffer &candidate = plan.buffers[size_t(buffer)];
      if (candidate.kind == BufferKind::Working && candidate.lifetime.end == position &&
          candidate.lifetime.bytes == bytes && std::find(taken.begin(), taken.end(), buffer) == taken.end() &&
          mayTake(instruction, result, buffer))
        return buffer;
    }
    return -1;
  }

  void addCopies() {
    std::vector<EndCopy> updates;
    // Maps the buffer of an argument that is updated at the end to the buffer that saves its old content; -1: the old
    // content is not needed (so far).
    std::map<int, int> saved;
    for (const FlatArg &arg : flat.args) {
      int result = program.args[arg.arg].updatedBy;
      if (result < 0)
        continue;
      int to = plan.bufferOf[size_t(arg.value)], from = plan.bufferOf[size_t(flat.results[size_t(result)])];
      if (from != to) {
        updates.push_back({from, to});
        saved[to] = -1;
      }
    }
    auto oldContentOf = [&](int buffer) {
      auto found = saved.find(buffer);
      if (found == saved.end())
        return buffer;
      if (found->second < 0) {
        found->second = int(plan.buffers.size());
        plan.copies.push_back({buffer, found->second});
        plan.buffers.push_back({BufferKind::Working, {plan.buffers[size_t(buffer)].lifetime.bytes, end, end}});
      }
      return found->second;
    };
    for (EndCopy &update : updates)
      update.from = oldContentOf(update.from);
    for (int result : flat.results)
      plan.resultBuffers.push_back(result < 0 ? -1 : oldContentOf(plan.bufferOf[size_t(result)]));
    plan.copies.insert(plan.copies.end(), updates.begin(), updates.end());
  }

  const package::Program &program;
  const FlatProgram &flat;
  Sharing sharing;
  const Device &device;
  int64_t end;
  std::vector<int> root;         // for each value: the value whose buffer it shares as a view, or itself
  std::vector<int64_t> lastUse;  // for each root: position of its last use, or -1
  std::vector<int> updates;      // for each root: the argument that it updates, or -1
  std::vector<bool> argOccupied; // for each argument: whether its update is computed in place
  BufferPlan plan;
};
} // namespace

Result<BufferPlan> planBuffers(const package::Program &program, const FlatProgram &flat, Sharing sharing,
                               const Device &device) {
  return Planner(program, flat, sharing, device).run();
}

} // namespace kerf::runtime
