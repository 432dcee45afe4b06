// SPDX-License-Identifier: Apache-2.0
#include "Unroll.h"

#include <algorithm>
#include <map>
#include <set>

namespace kerf::steps {

namespace {
using package::Expansion;
using package::Instruction;
using package::Phase;
using package::StepEntry;
using package::StepList;

TaskKind kindOf(Phase phase) {
  return phase == Phase::Forward         ? TaskKind::Forward
         : phase == Phase::Backward      ? TaskKind::Backward
         : phase == Phase::InputGradient ? TaskKind::InputGradient
                                         : TaskKind::WeightGradient;
}

/// A transfer between two stages, and the tasks that use its result.
struct Transfer {
  size_t index = 0; // of its instruction in the entry function's body
  int64_t from = 0, to = 0;
  bool once = false; // true for a transfer in the phase prepare or update
  std::vector<package::ProgramTask> users;
};

/// The point where a stage receives a transfer: in the phase prepare or update if the transfer belongs to that phase,
/// otherwise at the start of a task or of update.
struct Receipt {
  enum class Point { InPrepare, AtTask, AtUpdate, InUpdate } point = Point::AtTask;
  size_t task = 0; // index of the task, for AtTask
};

/// Makes the list of steps of one stage of a program with a schedule.
class Unroller {
public:
  Unroller(const package::Program &program, const Expansion &expansion, const StepOrder &order, int64_t stage)
      : entry(*expansion.entry), expansion(expansion), order(order), stage(stage),
        microbatches(package::microbatchesOf(program)), opsOf(entry.body.size()) {
    for (size_t op = 0; op < expansion.ops.size(); ++op)
      opsOf[expansion.ops[op].entry].push_back(int(op));
  }

  StepList run() {
    findTransfers();
    findReductions();
    tasks = order.schedule.order[size_t(stage)];
    waits.resize(tasks.size() + 1);
    receipts.resize(tasks.size() + 1);
    planMessages();
    appendOnce(Phase::Prepare);
    for (size_t t = 0; t <= tasks.size(); ++t) {
      for (auto [transfer, microbatch] : waits[t])
        appendMessage(StepEntry::Kind::Sent, *transfer, microbatch);
      for (auto [transfer, microbatch] : receipts[t])
        appendMessage(StepEntry::Kind::Receive, *transfer, microbatch);
      if (t == tasks.size())
        break;
      for (size_t i : byTask[{tasks[t].kind, tasks[t].chunk}]) {
        append(i, tasks[t].microbatch);
        if (auto found = reductions.find(i); found != reductions.end() && isLast(t))
          for (size_t reduction : found->second)
            append(reduction, 0);
      }
    }
    appendOnce(Phase::Update);
    for (auto [transfer, microbatch] : lastWaits)
      appendMessage(StepEntry::Kind::Sent, *transfer, microbatch);
    return std::move(list);
  }

private:
  void findTransfers() {
    for (size_t i = 0; i < entry.body.size(); ++i) {
      const Instruction &instruction = entry.body[i];
      if (instruction.op != package::kTransfer)
        continue;
      Transfer transfer{
          i, instruction.attrs["from"], instruction.attrs["to"], package::isOncePerStep(instruction.task->phase), {}};
      for (const Instruction &user : entry.body)
        if (std::count(user.operands.begin(), user.operands.end(), instruction.results[0]))
          transfer.users.push_back(*user.task);
      transfers.push_back(std::move(transfer));
    }
    for (size_t i = 0; i < entry.body.size(); ++i)
      if (const package::ProgramTask &task = *entry.body[i].task;
          task.stage == stage && !package::isOncePerStep(task.phase))
        byTask[{kindOf(task.phase), task.chunk}].push_back(i);
  }

  /// Finds the reductions of gradients, which start as soon as the sum over microbatches is complete instead of
  /// in update.
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

  /// Returns true if no later task of the same kind and chunk remains, that is, if this is the last microbatch's.
  bool isLast(size_t task) const {
    return std::none_of(tasks.begin() + int64_t(task) + 1, tasks.end(), [&](const Task &later) {
      return later.kind == tasks[task].kind && later.chunk == tasks[task].chunk;
    });
  }

  Receipt receiptOf(const Transfer &transfer, int64_t microbatch) const {
    Phase phase = entry.body[transfer.index].task->phase;
    if (phase == Phase::Update)
      return {Receipt::Point::InUpdate};
    bool inPrepare = std::any_of(transfer.users.begin(), transfer.users.end(),
                                 [](const package::ProgramTask &user) { return user.phase == Phase::Prepare; });
    if (inPrepare)
      return {Receipt::Point::InPrepare};
    const std::vector<Task> &theirs = order.schedule.order[size_t(transfer.to)];
    for (size_t t = 0; t < theirs.size(); ++t)
      for (const package::ProgramTask &user : transfer.users)
        if (!package::isOncePerStep(user.phase) && kindOf(user.phase) == theirs[t].kind &&
            user.chunk == theirs[t].chunk && (transfer.once || theirs[t].microbatch == microbatch))
          return {Receipt::Point::AtTask, t};
    return {Receipt::Point::AtUpdate};
  }

  /// Decides where this stage receives the messages of other stages and waits for its own sends.
  void planMessages() {
    for (const Transfer &transfer : transfers) {
      if (transfer.from != stage && transfer.to != stage)
        continue;
      for (int64_t m = 0, count = transfer.once ? 1 : microbatches; m < count; ++m) {
        Receipt receipt = receiptOf(transfer, m);
        bool atTask = receipt.point == Receipt::Point::AtTask;
        if (transfer.to == stage) {
          if (atTask || receipt.point == Receipt::Point::AtUpdate)
            receipts[atTask ? receipt.task : tasks.size()].push_back({&transfer, m});
          else
            inPlace[transfer.index] = &transfer;
          continue;
        }
        if (atTask)
          waits[waitTask(order, stage, transfer.to, receipt.task)].push_back({&transfer, m});
        else if (receipt.point == Receipt::Point::InPrepare)
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
        appendMessage(StepEntry::Kind::Receive, *found->second, 0);
    }
  }

  /// Appends the expanded instructions of one instruction of the entry function. Kept constants are appended once.
  void append(size_t index, int64_t microbatch) {
    for (int op : opsOf[index]) {
      const package::ExpandedOp &its = expansion.ops[size_t(op)];
      if (its.source->op == package::kTransfer) {
        list.push_back({StepEntry::Kind::Send, op, op, microbatch});
        continue;
      }
      bool kept =
          its.results.size() == 1 && package::isKeptConstant(*its.source, expansion.values[size_t(its.results[0])]);
      if (!kept || constants.insert(op).second)
        package::appendRun(list, op, microbatch);
    }
  }

  void appendMessage(StepEntry::Kind kind, const Transfer &transfer, int64_t microbatch) {
    int op = opsOf[transfer.index].front();
    list.push_back({kind, op, op, microbatch});
  }

  struct Message {
    const Transfer *transfer;
    int64_t microbatch;
  };

  const package::Function &entry;
  const Expansion &expansion;
  const StepOrder &order;
  int64_t stage, microbatches;
  StepList list;
  std::vector<std::vector<int>> opsOf; // for each instruction of the entry function: its expanded instructions
  std::vector<Transfer> transfers;
  std::map<std::pair<TaskKind, int64_t>, std::vector<size_t>> byTask; // kind and chunk -> instructions on this stage
  std::vector<Task> tasks;                                            // of this stage
  std::vector<std::vector<Message>> waits, receipts;                  // at the start of each task, and of update
  std::vector<Message> lastWaits;                                     // at the end of the step
  std::map<size_t, std::vector<size_t>> reductions;                   // for an accumulate: reductions of its sum
  std::set<size_t> begun;                                             // all such reductions, which update leaves out
  std::map<size_t, const Transfer *> inPlace;                         // by instruction: transfers received in place
  std::set<int> constants;                                            // kept constants that have been appended
};
} // namespace

package::StepList unroll(const package::Program &program, const Expansion &expansion,
                         const std::optional<StepOrder> &order, int64_t stage) {
  if (order)
    return Unroller(program, expansion, *order, stage).run();
  StepList list;
  if (!expansion.ops.empty())
    list.push_back({StepEntry::Kind::Run, 0, int(expansion.ops.size()) - 1, 0});
  return list;
}

bool reducesGradients(const Instruction &instruction) {
  return package::isCollective(instruction.op) && requestedStream(instruction) == "gradients";
}

std::string requestedStream(const Instruction &collective) {
  auto found = collective.attrs.find("stream");
  return found != collective.attrs.end() && found->is_string() ? found->get<std::string>() : "collective";
}

} // namespace kerf::steps
