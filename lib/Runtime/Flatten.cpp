// SPDX-License-Identifier: Apache-2.0
#include "Flatten.h"
#include "StepOrder.h"
#include "kerf/Package/ProgramSchedule.h"

#include <algorithm>
#include <map>
#include <set>

namespace kerf::runtime {

namespace {
using package::Instruction;
using package::Phase;

const package::Function &entryOf(const package::Program &program) {
  return *std::find_if(program.functions.begin(), program.functions.end(),
                       [&](const package::Function &function) { return function.name == program.entry; });
}

const std::string &calleeOf(const Instruction &call) { return call.attrs["callee"].get_ref<const std::string &>(); }

TaskKind kindOf(Phase phase) {
  return phase == Phase::Forward         ? TaskKind::Forward
         : phase == Phase::Backward      ? TaskKind::Backward
         : phase == Phase::InputGradient ? TaskKind::InputGradient
                                         : TaskKind::WeightGradient;
}

/// Appends instructions of the entry function, calls expanded.
class Appender {
public:
  Appender(const package::Program &program, FlatProgram &flat, const DeviceCode *code) : flat(flat), code(code) {
    for (const package::Function &function : program.functions)
      functions.emplace(function.name, &function);
  }

  int add(const package::Value &value) {
    flat.values.push_back(value);
    return int(flat.values.size()) - 1;
  }

  /// Each gets the next origin.
  void append(FlatInstruction instruction) {
    instruction.origin = origin++;
    instruction.call = depth > 0 ? calls - 1 : -1;
    flat.origins = std::max(flat.origins, origin);
    flat.body.push_back(std::move(instruction));
  }

  /// Of `function`'s instruction, on the flat values `operands`; the flat values of its results.
  std::vector<int> append(const package::Function &function, const Instruction &instruction, std::vector<int> operands,
                          int64_t microbatch) {
    std::vector<int> results;
    const package::Function *kernel = kernelOf(instruction);
    if (instruction.op != "call" || kernel) {
      if (auto kept = constants.find(origin); kept != constants.end()) {
        ++origin;
        return {kept->second};
      }
      for (int result : instruction.results)
        results.push_back(add(function.values[size_t(result)]));
      if (results.size() == 1 && isKeptConstant(instruction, function.values[size_t(instruction.results[0])]))
        constants.emplace(origin, results[0]);
      FlatInstruction made{&instruction, std::move(operands), results, FlatInstruction::Kind::Op, microbatch};
      made.kernel = kernel;
      append(std::move(made));
      return results;
    }
    const package::Function &callee = *functions.at(calleeOf(instruction));
    std::vector<int> numbers(callee.values.size(), -1); // flat value of each of the callee's
    for (size_t i = 0; i < operands.size(); ++i)
      numbers[size_t(callee.args[i])] = operands[i];
    auto mapped = [&](const std::vector<int> &values) {
      std::vector<int> flat;
      for (int value : values)
        flat.push_back(numbers[size_t(value)]);
      return flat;
    };
    bool isLayer = !callee.kernel;
    if (isLayer && depth++ == 0)
      ++calls;
    for (const Instruction &inner : callee.body) {
      std::vector<int> made = append(callee, inner, mapped(inner.operands), microbatch);
      for (size_t i = 0; i < made.size(); ++i)
        numbers[size_t(inner.results[i])] = made[i];
    }
    depth -= isLayer;
    return mapped(callee.results);
  }

  int origin = 0; // of the next instruction

private:
  const package::Function *kernelOf(const Instruction &instruction) const {
    bool isKernel = code && instruction.op == "call" && code->has(calleeOf(instruction));
    return isKernel ? functions.at(calleeOf(instruction)) : nullptr;
  }

  FlatProgram &flat;
  const DeviceCode *code;
  std::map<std::string_view, const package::Function *> functions;
  int depth = 0, calls = 0;     // of calls
  std::map<int, int> constants; // origin -> the value that all microbatches share
};

/// A transfer, and who on its receiving stage uses it.
struct Transfer {
  size_t index = 0; // in the entry function's body
  int64_t from = 0, to = 0;
  bool once = false; // in prepare or update
  std::vector<package::Task> users;
  int64_t message = 0; // of its first microbatch
};

/// Where a stage receives a transfer: in the phase prepare or update where the transfer stands there, else at the start
/// of the task, or of update.
struct Receipt {
  enum class Where { InPrepare, AtTask, AtUpdate, InUpdate } where = Where::AtTask;
  size_t task = 0;
};

class Unroller {
public:
  Unroller(const package::Program &program, int64_t stage, StepOrder order, const DeviceCode *code)
      : program(program), entry(entryOf(program)), stage(stage), microbatches(package::microbatchesOf(program)),
        order(std::move(order)), appender(program, flat, code), numbers(entry.values.size()),
        firstOrigin(entry.body.size(), -1), receiveOrigin(entry.body.size(), -1) {}

  FlatProgram run() {
    addArgs();
    findTransfers();
    findReductions();
    tasks = this->order.schedule.order[size_t(stage)];
    waits.resize(tasks.size() + 1);
    receipts.resize(tasks.size() + 1);
    planMessages();
    appendOnce(Phase::Prepare);
    for (size_t t = 0; t <= tasks.size(); ++t) {
      for (auto [transfer, microbatch] : waits[t])
        appendWait(*transfer, microbatch);
      for (auto [transfer, microbatch] : receipts[t])
        appendReceive(*transfer, microbatch);
      if (t == tasks.size())
        break;
      for (size_t i : instructionsOf(tasks[t])) {
        append(i, tasks[t].microbatch);
        if (auto found = reductions.find(i); found != reductions.end() && isLast(t))
          for (size_t reduction : found->second)
            append(reduction, 0);
      }
    }
    appendOnce(Phase::Update);
    for (auto [transfer, microbatch] : lastWaits)
      appendWait(*transfer, microbatch);
    for (size_t r = 0; r < program.results.size(); ++r)
      flat.results.push_back(hasResult(program, r, stage) ? number(entry.results[r], 0) : -1);
    return std::move(flat);
  }

private:
  /// Of a value of the entry function: one number a microbatch, or one for all.
  int &number(int value, int64_t microbatch) {
    std::vector<int> &all = numbers[size_t(value)];
    if (all.empty())
      all.assign(1, -1);
    return all[all.size() == 1 ? 0 : size_t(microbatch)];
  }

  void addArgs() {
    for (const Instruction &instruction : entry.body)
      if (!package::isOnce(instruction.task->phase) && instruction.op != package::kAccumulate)
        for (int result : instruction.results)
          numbers[size_t(result)].assign(size_t(microbatches), -1);
    for (size_t a = 0; a < program.args.size(); ++a) {
      if (!hasArg(program, a, stage))
        continue;
      std::vector<int> &mine = numbers[size_t(entry.args[a])];
      for (int64_t m = 0, pieces = piecesOf(program, a); m < pieces; ++m) {
        mine.push_back(appender.add(entry.values[size_t(entry.args[a])]));
        flat.args.push_back({a, m, mine.back()});
      }
    }
  }

  void findTransfers() {
    for (size_t i = 0; i < entry.body.size(); ++i) {
      const Instruction &instruction = entry.body[i];
      if (instruction.op != package::kTransfer)
        continue;
      Transfer transfer{i,
                        instruction.attrs["from"],
                        instruction.attrs["to"],
                        package::isOnce(instruction.task->phase),
                        {},
                        flat.messages};
      for (const Instruction &user : entry.body)
        if (std::count(user.operands.begin(), user.operands.end(), instruction.results[0]))
          transfer.users.push_back(*user.task);
      flat.messages += transfer.once ? 1 : microbatches;
      transfers.push_back(std::move(transfer));
    }
    for (size_t i = 0; i < entry.body.size(); ++i)
      if (const package::Task &task = *entry.body[i].task; task.stage == stage && !package::isOnce(task.phase))
        byTask[{kindOf(task.phase), task.chunk}].push_back(i);
  }

  /// Reductions of gradients begin as soon as the sum over microbatches is there, beside what is still to do.
  void findReductions() {
    std::map<int, size_t> sums; // the accumulate that makes a value
    for (size_t i = 0; i < entry.body.size(); ++i)
      if (entry.body[i].op == package::kAccumulate && entry.body[i].task->stage == stage)
        sums[entry.body[i].results[0]] = i;
    for (size_t i = 0; i < entry.body.size(); ++i) {
      const Instruction &instruction = entry.body[i];
      if (instruction.task->phase != Phase::Update || instruction.task->stage != stage ||
          !reducesGradients(instruction))
        continue;
      if (auto sum = sums.find(instruction.operands[0]); sum != sums.end()) {
        reductions[sum->second].push_back(i);
        begun.insert(i);
      }
    }
  }

  /// No later task does the same for another microbatch.
  bool isLast(size_t task) const {
    return std::none_of(tasks.begin() + int64_t(task) + 1, tasks.end(), [&](const Task &later) {
      return later.kind == tasks[task].kind && later.chunk == tasks[task].chunk;
    });
  }

  const std::vector<size_t> &instructionsOf(const Task &task) { return byTask[{task.kind, task.chunk}]; }

  Receipt receiptOf(const Transfer &transfer, int64_t microbatch) const {
    Phase phase = entry.body[transfer.index].task->phase;
    if (phase == Phase::Update)
      return {Receipt::Where::InUpdate};
    bool inPrepare = std::any_of(transfer.users.begin(), transfer.users.end(),
                                 [](const package::Task &user) { return user.phase == Phase::Prepare; });
    if (inPrepare)
      return {Receipt::Where::InPrepare};
    const std::vector<Task> &theirs = order.schedule.order[size_t(transfer.to)];
    for (size_t t = 0; t < theirs.size(); ++t)
      for (const package::Task &user : transfer.users)
        if (!package::isOnce(user.phase) && kindOf(user.phase) == theirs[t].kind && user.chunk == theirs[t].chunk &&
            (transfer.once || theirs[t].microbatch == microbatch))
          return {Receipt::Where::AtTask, t};
    return {Receipt::Where::AtUpdate};
  }

  /// When this stage receives what others send, and waits for what it sends.
  void planMessages() {
    for (const Transfer &transfer : transfers) {
      if (transfer.from != stage && transfer.to != stage)
        continue;
      for (int64_t m = 0, count = transfer.once ? 1 : microbatches; m < count; ++m) {
        Receipt receipt = receiptOf(transfer, m);
        bool atTask = receipt.where == Receipt::Where::AtTask;
        if (transfer.to == stage) {
          if (atTask || receipt.where == Receipt::Where::AtUpdate)
            receipts[atTask ? receipt.task : tasks.size()].push_back({&transfer, m});
          if (receipt.where == Receipt::Where::InPrepare || receipt.where == Receipt::Where::InUpdate)
            inPlace[transfer.index] = &transfer;
          continue;
        }
        sending[transfer.index] = &transfer;
        if (atTask)
          waits[waitTask(order, stage, transfer.to, receipt.task)].push_back({&transfer, m});
        else if (receipt.where == Receipt::Where::InPrepare)
          waits[0].push_back({&transfer, m});
        else
          lastWaits.push_back({&transfer, m});
      }
    }
  }

  void appendOnce(Phase phase) {
    for (size_t i = 0; i < entry.body.size(); ++i) {
      if (entry.body[i].task->phase != phase || begun.contains(i))
        continue;
      if (entry.body[i].task->stage == stage)
        append(i, 0);
      else if (auto found = inPlace.find(i); found != inPlace.end())
        appendReceive(*found->second, 0);
    }
  }

  void append(size_t index, int64_t microbatch) {
    const Instruction &instruction = entry.body[index];
    std::vector<int> operands;
    for (int operand : instruction.operands)
      operands.push_back(number(operand, microbatch));
    if (instruction.op == package::kTransfer) {
      appendMessage(*sending.at(index), microbatch, FlatInstruction::Kind::Send, firstOrigin[index],
                    std::move(operands), {});
      return;
    }
    if (instruction.op == package::kAccumulate)
      if (int sum = number(instruction.results[0], microbatch); sum >= 0)
        operands.insert(operands.begin(), sum);
    beginOrigins(firstOrigin[index]);
    std::vector<int> results = appender.append(entry, instruction, std::move(operands), microbatch);
    for (size_t i = 0; i < results.size(); ++i)
      number(instruction.results[i], microbatch) = results[i];
  }

  /// The next instructions are of the origins from `first` on, which it gets the first time.
  void beginOrigins(int &first) {
    if (first < 0)
      first = flat.origins;
    appender.origin = first;
  }

  void appendMessage(const Transfer &transfer, int64_t microbatch, FlatInstruction::Kind kind, int &origin,
                     std::vector<int> operands, std::vector<int> results) {
    beginOrigins(origin);
    FlatInstruction message{&entry.body[transfer.index], std::move(operands), std::move(results), kind, microbatch};
    message.peerStage = transfer.from == stage ? transfer.to : transfer.from;
    message.message = transfer.message + microbatch;
    appender.append(std::move(message));
  }

  void appendReceive(const Transfer &transfer, int64_t microbatch) {
    int value = entry.body[transfer.index].results[0];
    int received = appender.add(entry.values[size_t(value)]);
    number(value, microbatch) = received;
    appendMessage(transfer, microbatch, FlatInstruction::Kind::Receive, receiveOrigin[transfer.index], {}, {received});
  }

  /// Of the same origin as the send.
  void appendWait(const Transfer &transfer, int64_t microbatch) {
    appendMessage(transfer, microbatch, FlatInstruction::Kind::WaitForSend, firstOrigin[transfer.index],
                  {number(entry.body[transfer.index].operands[0], microbatch)}, {});
  }

  struct Message {
    const Transfer *transfer;
    int64_t microbatch;
  };

  const package::Program &program;
  const package::Function &entry;
  int64_t stage, microbatches;
  StepOrder order;
  FlatProgram flat;
  Appender appender;
  std::vector<std::vector<int>> numbers;       // flat values of each of the entry function's
  std::vector<int> firstOrigin, receiveOrigin; // of each instruction of the entry function
  std::vector<Transfer> transfers;
  std::map<std::pair<TaskKind, int64_t>, std::vector<size_t>> byTask; // kind and chunk -> instructions on this stage
  std::vector<Task> tasks;                                            // of this stage
  std::vector<std::vector<Message>> waits, receipts;                  // at the start of each task, and of update
  std::vector<Message> lastWaits;                                     // at the end of the step
  std::map<size_t, std::vector<size_t>> reductions;                   // of the sum that an accumulate makes
  std::set<size_t> begun;                                             // all of them: they are not begun again in update
  std::map<size_t, const Transfer *> sending, inPlace; // by instruction; inPlace: received where it stands
};

FlatProgram flattenWhole(const package::Program &program, const DeviceCode *code) {
  FlatProgram flat;
  Appender appender(program, flat, code);
  const package::Function &entry = entryOf(program);
  std::vector<int> numbers(entry.values.size(), -1);
  for (size_t a = 0; a < entry.args.size(); ++a) {
    int &number = numbers[size_t(entry.args[a])];
    number = appender.add(entry.values[size_t(entry.args[a])]);
    flat.args.push_back({a, 0, number});
  }
  for (const Instruction &instruction : entry.body) {
    std::vector<int> operands;
    for (int operand : instruction.operands)
      operands.push_back(numbers[size_t(operand)]);
    std::vector<int> results = appender.append(entry, instruction, std::move(operands), 0);
    for (size_t i = 0; i < results.size(); ++i)
      numbers[size_t(instruction.results[i])] = results[i];
  }
  for (int result : entry.results)
    flat.results.push_back(numbers[size_t(result)]);
  return flat;
}
} // namespace

Result<FlatProgram> flatten(const package::Program &program, int64_t stage, const DeviceCode *code) {
  if (!program.schedule)
    return flattenWhole(program, code);
  auto schedule = package::scheduleOf(program);
  if (!schedule)
    return schedule.error();
  return Unroller(program, stage, stepOrder(std::move(*schedule)), code).run();
}

bool reducesGradients(const Instruction &instruction) {
  return package::isCollective(instruction.op) && streamNamed(instruction) == "gradients";
}

std::string streamNamed(const Instruction &collective) {
  auto found = collective.attrs.find("stream");
  return found != collective.attrs.end() && found->is_string() ? found->get<std::string>() : "collective";
}

bool isKeptConstant(const Instruction &instruction, const package::Value &result) {
  return instruction.op == "constant" && elementsOf(result.shape) * bytesOf(result.dtype) <= kKeptConstantBytes;
}

std::string opOf(const FlatInstruction &instruction) {
  return instruction.kernel ? instruction.kernel->name : instruction.source->op;
}

bool isView(const FlatProgram &flat, const FlatInstruction &instruction) {
  if (instruction.kind != FlatInstruction::Kind::Op)
    return false;
  const std::string &op = instruction.source->op;
  if (op == "reshape" || op == "wait")
    return true;
  return op == package::kAccumulate && instruction.operands.size() == 1 &&
         flat.values[size_t(instruction.operands[0])].dtype == flat.values[size_t(instruction.results[0])].dtype;
}

int64_t piecesOf(const package::Program &program, size_t arg) {
  int axis = program.mesh.find(package::kMicrobatchAxis);
  for (const DimSharding &dim : program.args[arg].sharding.dims)
    for (const AxisRef &ref : dim.axes)
      if (ref.axis == axis)
        return package::microbatchesOf(program);
  return 1;
}

bool hasArg(const package::Program &program, size_t arg, int64_t stage) {
  int64_t home = program.args[arg].stage;
  if (home >= 0 || package::stagesOf(program) == 1)
    return home < 0 || home == stage;
  const package::Function &entry = entryOf(program);
  int value = entry.args[arg];
  for (const Instruction &instruction : entry.body)
    if (instruction.task->stage == stage && std::count(instruction.operands.begin(), instruction.operands.end(), value))
      return true;
  for (size_t r = 0; r < program.results.size(); ++r)
    if (entry.results[r] == value && hasResult(program, r, stage))
      return true;
  return false;
}

bool hasResult(const package::Program &program, size_t result, int64_t stage) {
  int64_t home = program.results[result].stage;
  return home < 0 || home == stage;
}

DType resultType(const package::Program &program, size_t result) {
  const package::Function &entry = entryOf(program);
  return entry.values[size_t(entry.results[result])].dtype;
}

} // namespace kerf::runtime
