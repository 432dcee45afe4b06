// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Epilogue.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
using Kind = StepEntry::Kind;

FlatInstruction::Kind flatKind(Kind kind) {
  return kind == Kind::Send       ? FlatInstruction::Kind::Send
         : kind == Kind::Sent     ? FlatInstruction::Kind::Sent
         : kind == Kind::Receive  ? FlatInstruction::Kind::Receive
         : kind == Kind::Received ? FlatInstruction::Kind::Received
                                  : FlatInstruction::Kind::Op;
}

/// Flattens a list of steps entry by entry, tracking which values exist so that an early use is an error.
class Flattener {
public:
  Flattener(const Program &program, const Expansion &expansion, int64_t stage)
      : program(program), expansion(expansion), stage(stage), microbatches(microbatchesOf(program)),
        numbers(expansion.values.size()), sums(expansion.values.size(), kNoSum), ran(expansion.ops.size()),
        sides(expansion.ops.size()) {
    for (const ExpandedOp &op : expansion.ops)
      if (op.source->op == kAccumulate)
        sums[size_t(op.results[0])] = 0;
  }

  Result<FlatProgram> run(const StepList &list) {
    flat.origins = int(expansion.ops.size());
    flat.messages = expansion.messages;
    addArgs();
    for (size_t i = 0; i < list.size(); ++i)
      if (Status status = place(list[i]); !status)
        return Error{fmt::format("program, steps of stage {}, entry {} ({}): {}", stage, i, toString(list[i].kind),
                                 status.error().message)};
    Status status = finish();
    if (status)
      status = checkGroups(flat);
    if (!status)
      return Error{fmt::format("program, steps of stage {}: {}", stage, status.error().message)};
    return std::move(flat);
  }

private:
  static constexpr int64_t kNoSum = -1;
  /// Progress of one side of a transfer.
  enum class Side : uint8_t { NotBegun, Begun, Done };

  int add(const Value &value) {
    flat.values.push_back(value);
    return int(flat.values.size()) - 1;
  }

  /// Returns a reference to the flat value of an expanded value in a microbatch; -1 while that value does not exist.
  int &number(int value, int64_t microbatch) {
    std::vector<int> &all = numbers[size_t(value)];
    bool many = expansion.ofMicrobatch[size_t(value)];
    if (all.empty())
      all.assign(many ? size_t(microbatches) : 1, -1);
    return all[many ? size_t(microbatch) : 0];
  }

  void addArgs() {
    for (size_t a = 0; a < program.args.size(); ++a)
      if (hasArg(program, a, stage))
        for (int64_t m = 0, pieces = microbatchPieces(program, a); m < pieces; ++m) {
          int value = expansion.args[a], made = add(expansion.values[size_t(value)]);
          number(value, m) = made;
          flat.args.push_back({a, m, made});
        }
  }

  Status place(const StepEntry &entry) {
    switch (entry.kind) {
    case Kind::Run:
      if (entry.last < entry.first)
        return Error{fmt::format("it ends at instruction {}, before its first, {}", entry.last, entry.first)};
      for (int op = entry.first; op <= entry.last; ++op) {
        if (Status status = check({op, entry.microbatch}); !status)
          return status;
        if (Status status = placeOps({{op, entry.microbatch}}, ""); !status)
          return Error{fmt::format("instruction {}: {}", op, status.error().message)};
        if (op == entry.last)
          break; // op + 1 could overflow
      }
      return ok();
    case Kind::Add:
      return placeAdd(entry);
    case Kind::Join:
      return placeJoin(entry);
    case Kind::Start:
      return placeStart(entry);
    default:
      return placeTransfer(entry);
    }
  }

  /// Checks the conditions that every instruction of an entry must satisfy.
  Status check(const StepMember &member) {
    if (member.op < 0 || size_t(member.op) >= expansion.ops.size())
      return Error{
          fmt::format("there is no instruction {}: the expanded program has {}", member.op, expansion.ops.size())};
    if (member.microbatch < 0 || member.microbatch >= microbatches)
      return Error{fmt::format("there is no microbatch {}: there are {}", member.microbatch, microbatches)};
    const ExpandedOp &op = expansion.ops[size_t(member.op)];
    if (op.source->op != kTransfer && taskOf(expansion, member.op).stage != stage)
      return Error{fmt::format("instruction {} ({}) belongs to stage {}", member.op, op.source->op,
                               taskOf(expansion, member.op).stage)};
    if (!inMicrobatches(member.op) && member.microbatch != 0)
      return Error{fmt::format("instruction {} ({}) runs once a step, not in microbatch {}", member.op, op.source->op,
                               member.microbatch)};
    return ok();
  }

  bool inMicrobatches(int op) const {
    const auto &task = expansion.entry->body[expansion.ops[size_t(op)].entry].task;
    return task && !isOncePerStep(task->phase);
  }

  Status placeStart(const StepEntry &entry) {
    if (entry.members.empty())
      return Error{"it has no members to start"};
    for (const StepMember &member : entry.members) {
      if (Status status = check(member); !status)
        return status;
      const std::string &op = expansion.ops[size_t(member.op)].source->op;
      if (entry.members.size() > 1 ? !isCollective(op) : !isAsynchronous(op))
        return Error{
            fmt::format("instruction {} is {}: only collectives can be started together, only a collective or a host "
                        "copy can be started alone, and other instructions are run",
                        member.op, op)};
    }
    return placeOps(entry.members, entry.stream);
  }

  /// Appends the instructions of a group that a device may run as one. checkGroups checks the group at the end.
  Status placeJoin(const StepEntry &entry) {
    if (entry.members.size() < 2)
      return Error{
          fmt::format("it has {} instructions, and a product can only be joined with others", entry.members.size())};
    const size_t first = flat.body.size();
    for (const StepMember &member : entry.members) {
      if (Status status = check({member.op, entry.microbatch}); !status)
        return status;
      if (Status status = placeOps({{member.op, entry.microbatch}}, ""); !status)
        return Error{fmt::format("instruction {}: {}", member.op, status.error().message)};
    }
    flat.body[first].joined = int(entry.members.size()) - 1;
    return ok();
  }

  /// Appends a product that is added to a sum over microbatches, in one instruction.
  Status placeAdd(const StepEntry &entry) {
    const StepMember product{entry.first, entry.microbatch}, sum{entry.last, entry.microbatch};
    for (const StepMember &member : {product, sum})
      if (Status status = check(member); !status)
        return status;
    const ExpandedOp &multiplied = expansion.ops[size_t(product.op)], &added = expansion.ops[size_t(sum.op)];
    if (multiplied.source->op != kProduct || multiplied.operands.size() != 2 || multiplied.results.size() != 1)
      return Error{fmt::format("instruction {} ({}) is not a {} of two operands, which alone can be added to a sum",
                               product.op, multiplied.source->op, kProduct)};
    if (added.source->op != kAccumulate || added.operands[0] != multiplied.results[0])
      return Error{fmt::format("instruction {} ({}) does not {} the result of instruction {}", sum.op, added.source->op,
                               kAccumulate, product.op)};
    const Value &one = expansion.values[size_t(multiplied.results[0])],
                &all = expansion.values[size_t(added.results[0])];
    if (one.dtype != all.dtype)
      return Error{fmt::format("the product has the type {} and the sum the type {}: only a product of the sum's type "
                               "can be added to it; run the two instructions one by one",
                               toString(one.dtype), toString(all.dtype))};
    const int before = number(added.results[0], 0);
    if (before < 0)
      return Error{fmt::format("no microbatch has begun the sum of instruction {}: run the first product and its {} "
                               "one by one",
                               sum.op, kAccumulate)};
    FlatInstruction made;
    for (int operand : multiplied.operands) {
      auto found = use(operand, product.microbatch);
      if (!found)
        return found.error();
      made.operands.push_back(*found);
    }
    for (const StepMember &member : {product, sum})
      if (Status status = markRan(member); !status)
        return status;
    made.operands.push_back(before);
    made.results = {add(all)};
    number(added.results[0], 0) = made.results[0];
    ++sums[size_t(added.results[0])];
    describe(made, product);
    made.sum = sum.op;
    flat.body.push_back(std::move(made));
    return ok();
  }

  /// Writes down from which instruction of the expanded program, and from which call, an instruction comes.
  void describe(FlatInstruction &made, const StepMember &member) const {
    const ExpandedOp &op = expansion.ops[size_t(member.op)];
    made.source = op.source;
    made.microbatch = member.microbatch;
    made.origin = member.op;
    made.call = op.call < 0 ? -1 : int(op.call * microbatches + member.microbatch);
    made.kernel = op.kernel;
  }

  /// Appends one instruction, or a bucket of collectives. All operands of a bucket must exist before any of
  /// its results.
  Status placeOps(const std::vector<StepMember> &members, const std::string &stream) {
    FlatInstruction made;
    for (const StepMember &member : members) {
      const ExpandedOp &op = expansion.ops[size_t(member.op)];
      if (op.source->op == kTransfer)
        return Error{"it is a transfer, which is sent and received instead of run"};
      if (Status status = markRan(member); !status)
        return status;
      if (op.source->op == kAccumulate)
        if (int sum = number(op.results[0], 0); sum >= 0)
          made.operands.push_back(sum);
      for (int operand : op.operands) {
        auto found = use(operand, member.microbatch);
        if (!found)
          return found.error();
        made.operands.push_back(*found);
      }
    }
    for (const StepMember &member : members)
      for (int result : expansion.ops[size_t(member.op)].results) {
        made.results.push_back(add(expansion.values[size_t(result)]));
        number(result, member.microbatch) = made.results.back();
        sums[size_t(result)] += sums[size_t(result)] != kNoSum;
      }
    describe(made, members.front());
    made.stream = stream;
    for (size_t m = 1; m < members.size(); ++m)
      made.others.push_back({expansion.ops[size_t(members[m].op)].source, members[m].op, members[m].microbatch});
    flat.body.push_back(std::move(made));
    return ok();
  }

  /// Records that an instruction runs. It may run once in each microbatch; a kept constant runs once, in
  /// any microbatch.
  Status markRan(const StepMember &member) {
    const ExpandedOp &op = expansion.ops[size_t(member.op)];
    bool kept = op.results.size() == 1 && isKeptConstant(*op.source, expansion.values[size_t(op.results[0])]);
    std::vector<bool> &runs = ran[size_t(member.op)];
    if (runs.empty())
      runs.assign(inMicrobatches(member.op) && !kept ? size_t(microbatches) : 1, false);
    size_t at = runs.size() == 1 ? 0 : size_t(member.microbatch);
    if (runs[at])
      return Error{
          fmt::format("instruction {} ({}) runs twice in microbatch {}", member.op, op.source->op, member.microbatch)};
    runs[at] = true;
    return ok();
  }

  /// Returns the flat value of an operand. Fails if the value does not exist yet, is still being received, or is a sum
  /// that lacks microbatches.
  Result<int> use(int value, int64_t microbatch) {
    int found = number(value, microbatch);
    if (found < 0)
      return Error{fmt::format("an operand has not been computed yet in microbatch {}", microbatch)};
    if (size_t(found) < underWay.size() && underWay[size_t(found)])
      return Error{"an operand is still being received: a \"received\" entry must come first"};
    if (sums[size_t(value)] != kNoSum && sums[size_t(value)] < microbatches)
      return Error{fmt::format("it uses a sum over {} microbatches, but only {} have been added", microbatches,
                               sums[size_t(value)])};
    return found;
  }

  Status placeTransfer(const StepEntry &entry) {
    StepMember member{entry.first, entry.microbatch};
    if (Status status = check(member); !status)
      return status;
    const ExpandedOp &op = expansion.ops[size_t(entry.first)];
    if (op.source->op != kTransfer)
      return Error{fmt::format("instruction {} is {}, not a transfer", entry.first, op.source->op)};
    int64_t from = op.source->attrs["from"], to = op.source->attrs["to"];
    bool sends = entry.kind == Kind::Send || entry.kind == Kind::Sent;
    if ((sends ? from : to) != stage)
      return Error{fmt::format("instruction {} goes from stage {} to stage {}", entry.first, from, to)};
    if (Status status = proceed(entry); !status)
      return status;
    FlatInstruction made{op.source, {}, {}, flatKind(entry.kind), entry.microbatch, entry.first};
    made.peerStage = sends ? to : from;
    made.message = op.message + entry.microbatch;
    made.stream = entry.stream;
    if (sends) {
      auto value = use(op.operands[0], entry.microbatch);
      if (!value)
        return value.error();
      made.operands = {*value};
    } else if (entry.kind == Kind::Receive) {
      made.results = {add(expansion.values[size_t(op.results[0])])};
      number(op.results[0], entry.microbatch) = made.results[0];
      underWay.resize(flat.values.size(), false);
      underWay[size_t(made.results[0])] = true;
    } else {
      made.operands = {number(op.results[0], entry.microbatch)};
      underWay[size_t(made.operands[0])] = false;
    }
    flat.body.push_back(std::move(made));
    return ok();
  }

  /// Records that one side of a transfer begins or is waited for; each happens once, in this order.
  Status proceed(const StepEntry &entry) {
    std::vector<Side> &its = sides[size_t(entry.first)];
    if (its.empty())
      its.assign(inMicrobatches(entry.first) ? size_t(microbatches) : 1, Side::NotBegun);
    bool begins = entry.kind == Kind::Send || entry.kind == Kind::Receive;
    Side &side = its[size_t(entry.microbatch)];
    if (side != (begins ? Side::NotBegun : Side::Begun))
      return Error{begins ? "this transfer has begun already"
                          : "the transfer has not begun, or has been waited for already"};
    side = begins ? Side::Begun : Side::Done;
    return ok();
  }

  Status finish() {
    for (size_t op = 0; op < sides.size(); ++op)
      if (std::count(sides[op].begin(), sides[op].end(), Side::Begun))
        return Error{fmt::format("instruction {}, a transfer, begins and is never waited for", op)};
    for (size_t r = 0; r < program.results.size(); ++r) {
      flat.results.push_back(-1);
      if (!hasResult(program, r, stage))
        continue;
      auto value = use(expansion.results[r], 0);
      if (!value)
        return Error{fmt::format("result {} ('{}'): {}", r, program.results[r].name, value.error().message)};
      flat.results.back() = *value;
    }
    return ok();
  }

  const Program &program;
  const Expansion &expansion;
  int64_t stage, microbatches;
  FlatProgram flat;
  std::vector<std::vector<int>> numbers; // for each expanded value: its flat values
  std::vector<int64_t> sums;             // for each expanded value: microbatches summed, if an `accumulate` computes it
  std::vector<std::vector<bool>> ran;    // for each instruction: whether it has run in each microbatch
  std::vector<std::vector<Side>> sides;  // for each transfer: this stage's side in each microbatch
  std::vector<bool> underWay;            // for each flat value: whether it is still being received
};
} // namespace

std::string_view toString(StepEntry::Kind kind) {
  constexpr std::string_view kNames[] = {"run", "add", "join", "start", "send", "sent", "receive", "received"};
  return kNames[size_t(kind)];
}

Result<FlatProgram> flatten(const Program &program, const Expansion &expansion, int64_t stage, const StepList &list) {
  return Flattener(program, expansion, stage).run(list);
}

Result<FlatProgram> flatten(const Program &program, int64_t stage) {
  if (size_t(stage) >= program.steps.size())
    return Error{"the program has no list of the steps that its ranks run; compile the model again"};
  return flatten(program, expand(program), stage, program.steps[size_t(stage)]);
}

void appendRun(StepList &list, int op, int64_t microbatch) {
  if (!list.empty() && list.back().kind == Kind::Run && list.back().last + 1 == op &&
      list.back().microbatch == microbatch)
    list.back().last = op;
  else
    list.push_back({Kind::Run, op, op, microbatch});
}

StepList stepListOf(const FlatProgram &flat) {
  StepList list;
  for (size_t i = 0; i < flat.body.size(); ++i) {
    const FlatInstruction &instruction = flat.body[i];
    if (instruction.joined > 0 || !instruction.parts.empty()) {
      auto group = instruction.parts.empty() ? std::span(flat.body).subspan(i, size_t(instruction.joined) + 1)
                                             : std::span<const FlatInstruction>(instruction.parts);
      StepEntry entry{Kind::Join, 0, 0, instruction.microbatch};
      for (const FlatInstruction &member : group)
        entry.members.push_back({member.origin, member.microbatch});
      list.push_back(std::move(entry));
      i += size_t(instruction.joined);
      continue;
    }
    bool starts =
        isAsynchronous(instruction.source->op) && (!instruction.stream.empty() || !instruction.others.empty());
    if (instruction.sum >= 0) {
      list.push_back({Kind::Add, instruction.origin, instruction.sum, instruction.microbatch});
      continue;
    }
    if (instruction.kind == FlatInstruction::Kind::Op && !starts) {
      appendRun(list, instruction.origin, instruction.microbatch);
      continue;
    }
    StepEntry entry;
    entry.stream = instruction.stream;
    if (instruction.kind == FlatInstruction::Kind::Op) {
      entry.kind = Kind::Start;
      entry.members.push_back({instruction.origin, instruction.microbatch});
      for (const FlatInstruction::Member &other : instruction.others)
        entry.members.push_back({other.origin, other.microbatch});
    } else {
      constexpr Kind kKinds[] = {Kind::Run, Kind::Send, Kind::Sent, Kind::Receive, Kind::Received};
      entry.kind = kKinds[size_t(instruction.kind)];
      entry.first = instruction.origin;
      entry.microbatch = instruction.microbatch;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

bool isView(const FlatProgram &flat, const FlatInstruction &instruction) {
  if (instruction.kind != FlatInstruction::Kind::Op)
    return false;
  const std::string &op = instruction.source->op;
  if (op == "reshape" || op == "wait")
    return true;
  return op == kAccumulate && instruction.operands.size() == 1 &&
         flat.values[size_t(instruction.operands[0])].dtype == flat.values[size_t(instruction.results[0])].dtype;
}

bool isUpdate(const FlatInstruction &instruction) {
  return instruction.kind == FlatInstruction::Kind::Op && !instruction.source->update.empty();
}

std::vector<int> gradientsOf(const FlatProgram &flat) {
  std::vector<bool> isOther(flat.values.size(), false); // arguments, views of arguments, and results of updates
  for (const FlatArg &arg : flat.args)
    isOther[size_t(arg.value)] = true;
  std::vector<int> gradients;
  for (const FlatInstruction &instruction : flat.body) {
    bool updates = isUpdate(instruction);
    bool shows = isView(flat, instruction) && !instruction.operands.empty() && isOther[size_t(instruction.operands[0])];
    for (int result : instruction.results)
      isOther[size_t(result)] = updates || shows;
    if (updates)
      for (int operand : instruction.operands)
        if (!isOther[size_t(operand)] && !flat.values[size_t(operand)].shape.empty())
          gradients.push_back(operand);
  }
  return gradients;
}

std::string operatorName(const FlatInstruction &instruction) {
  std::string name = instruction.kernel ? instruction.kernel->name : instruction.source->op;
  for (size_t p = 1; p < instruction.parts.size(); ++p)
    name += " + " + operatorName(instruction.parts[p]);
  return name;
}

} // namespace kerf::package
