// SPDX-License-Identifier: Apache-2.0
// kerf-assign-tasks: assigns a phase, stage and chunk to each op of the step. An op that depends on the microbatch runs
// for each microbatch, in the forward or backward pass of a part of the pipeline. An op that depends on sums over
// microbatches runs in the update. An op that depends on neither runs once, on each stage that needs it. A value that
// another stage needs is transferred.
#include "Calls.h"
#include "TimeAxis.h"
#include "kerf/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

#define GEN_PASS_DEF_ASSIGNTASKS
#include "kerf/Transforms/Passes.h.inc"

namespace {

constexpr int64_t kUnknown = -1;

/// The data on which an op of the step depends, which determines how often it runs.
enum class Dependence {
  Nothing,    // arguments and constants only: it runs once, on each stage that needs it
  Microbatch, // the microbatch: it runs for each microbatch
  Sums,       // sums over all microbatches: it runs once, in the update
};

/// The task in which an op of the step runs: a phase of a chunk on a pipeline stage.
struct OpTask {
  StringRef phase;
  int64_t stage = 0, chunk = 0;
};

/// Returns whether the op's result is a broadcast, or a slice of one, so that its operand is smaller than the result.
bool isBroadcast(Operation *op) {
  if (isa<BroadcastInDimOp>(op))
    return true;
  Operation *definer = isa<LocalSliceOp, ReshapeOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return definer && isBroadcast(definer);
}

class Assigner {
public:
  Assigner(func::FuncOp main, const Mesh &mesh, int64_t chunks, bool splitBackward)
      : splitBackward(splitBackward), main(main), module(main->getParentOfType<ModuleOp>()), mesh(mesh),
        time(microbatchAxis(mesh)), stages(stageAxis(mesh) >= 0 ? mesh.axes[stageAxis(mesh)].size : 1),
        partCount(stages * chunks) {}

  LogicalResult run();

private:
  void collect();
  LogicalResult findDependences();
  bool readsMicrobatch(Operation *op);
  void findParts();
  void gatherWhereNeeded();
  void findAwaited();
  void splitSums();
  LogicalResult findHomes();
  int64_t stageOfUpdate(Operation *op);
  LogicalResult rewrite();
  FailureOr<Value> at(Value value, const OpTask &task, Operation *user);
  Value transferred(Value value, int64_t from, int64_t to, const OpTask &task);
  FailureOr<Value> cloned(Operation *op, OpResult result, OpTask task);
  void sumOfResults();
  void shareSums();
  void write(Operation *op, const OpTask &task);
  LogicalResult checkParts();

  Dependence of(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? dependence.lookup(op) : Dependence::Nothing;
  }
  bool isBackward(Operation *op) const { return backward.contains(op); }
  /// Returns whether the op runs on each stage that needs its result, which is cheaper than to transfer the result.
  bool runsAnywhere(Operation *op) const {
    Dependence its = dependence.lookup(op);
    return its == Dependence::Nothing || isInputOnly(op) || (its == Dependence::Sums && isBroadcast(op));
  }
  /// Returns whether the op depends on inputs alone, so that it runs for each microbatch on each stage that needs it.
  bool isInputOnly(Operation *op) const { return inputOnly.contains(op); }
  bool isAwaited(Operation *op) const { return awaited.contains(op); }
  bool isUpdated(BlockArgument argument) {
    return static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr));
  }
  /// Returns whether the argument resides on one stage: those that the step replaces, and frozen parameters. All other
  /// arguments are on every stage.
  bool hasHome(BlockArgument argument) { return isUpdated(argument) || isParameter(argument); }
  OpTask taskOf(Operation *op) const {
    int64_t part = parts.lookup(op);
    if (dependence.lookup(op) == Dependence::Sums)
      return {"update", part, 0};
    StringRef back = !splitBackward ? "backward" : isAwaited(op) ? "input_gradient" : "weight_gradient";
    return {isBackward(op) ? back : "forward", part % stages, part / stages};
  }

  bool splitBackward;
  func::FuncOp main;
  ModuleOp module;
  const Mesh &mesh;
  int time;
  int64_t stages, partCount;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, Dependence> dependence;
  DenseSet<Operation *> backward, inputOnly;
  DenseSet<Operation *> awaited; // with splitBackward: ops on whose results another part waits
  /// For ops that run for each microbatch, their pipeline part; for ops of the update, their stage.
  DenseMap<Operation *, int64_t> parts;
  DenseMap<Value, int64_t> homes; // the stage of an argument that resides on one stage
  llvm::StringMap<bool> readsInFunction;
  /// A value on another stage than its own, by the value and the stage to which it has been transferred.
  DenseMap<std::pair<Value, int64_t>, Value> transferredValues;
  std::map<std::tuple<Operation *, std::string, int64_t, int64_t>, Operation *> copies; // by phase, stage, chunk
};

void Assigner::collect() {
  ops.clear();
  for (Operation &op : main.front().without_terminator())
    ops.push_back(&op);
}

bool Assigner::readsMicrobatch(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op)) {
    auto [known, isNew] = readsInFunction.try_emplace(call.getCallee(), false);
    if (isNew) {
      bool reads = false;
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
        callee.walk([&](Operation *inner) { reads |= inner != callee.getOperation() && readsMicrobatch(inner); });
      readsInFunction[call.getCallee()] = reads;
    }
    return readsInFunction[call.getCallee()];
  }
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  for (size_t i = 0; time >= 0 && axes && i + 2 < axes.asArrayRef().size(); i += 3)
    if (axes.asArrayRef()[i] == time)
      return true;
  return false;
}

LogicalResult Assigner::findDependences() {
  dependence.clear();
  backward.clear();
  inputOnly.clear();
  auto isInput = [&](BlockArgument argument) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    return kind && kind.getValue() == "input";
  };
  DenseSet<Operation *> untrained; // ops that depend on no argument that the step replaces
  for (Operation *op : ops) {
    bool microbatch = readsMicrobatch(op) || op->hasAttr(KerfDialect::kPartAttr), sums = false, alone = true;
    if (op->hasAttr(KerfDialect::kBackwardAttr))
      backward.insert(op);
    for (Value operand : op->getOperands()) {
      if (auto argument = dyn_cast<BlockArgument>(operand)) {
        microbatch |= time < 0 && isInput(argument);
        alone &= !isUpdated(argument);
        continue;
      }
      Operation *definer = operand.getDefiningOp();
      microbatch |= of(operand) == Dependence::Microbatch;
      sums |= of(operand) == Dependence::Sums;
      alone &= untrained.contains(definer);
      if (isBackward(definer) && of(operand) == Dependence::Microbatch)
        backward.insert(op);
    }
    if (alone && !isa<AccumulateOp>(op))
      untrained.insert(op);
    if (isa<AccumulateOp>(op))
      sums = true;
    else if (microbatch && sums)
      return op->emitError() << "needs a sum over all microbatches before the last one is done, so the step can't be "
                                "cut into microbatches; set microbatch to the samples of a model replica";
    dependence[op] = sums ? Dependence::Sums : microbatch ? Dependence::Microbatch : Dependence::Nothing;
    if (microbatch && alone && !isa<CallOp, AccumulateOp>(op) && !op->hasAttr(KerfDialect::kPartAttr))
      inputOnly.insert(op);
    if (isa<AccumulateOp>(op))
      inputOnly.erase(op->getOperand(0).getDefiningOp()); // its result is summed, so it runs in one place
  }
  return success();
}

void Assigner::findParts() {
  parts.clear();
  auto given = [](Operation *op) { return op->getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr); };
  DenseSet<Operation *> leads; // ops on which an op with a given part depends
  for (Operation *op : llvm::reverse(ops))
    if (llvm::any_of(op->getUsers(), [&](Operation *user) { return given(user) || leads.contains(user); }))
      leads.insert(op);
  DenseMap<Operation *, int64_t> asks; // for ops of gradients: the latest given part that depends on them
  for (Operation *op : llvm::reverse(ops))
    for (Operation *user : op->getUsers())
      if (isBackward(op) && dependence.lookup(user) == Dependence::Microbatch)
        asks[op] = std::max(asks.lookup(op), given(user) ? given(user).getInt() : asks.lookup(user));
  DenseMap<Location, int64_t> forwardPart; // by location; kUnknown where ops of several parts have it
  for (Operation *op : ops) {
    if (dependence.lookup(op) != Dependence::Microbatch || isInputOnly(op))
      continue;
    SmallVector<int64_t> ofOperands;
    int64_t latest = partCount - 1; // the backward pass begins with the last part
    for (Value operand : op->getOperands())
      if (Operation *definer = operand.getDefiningOp(); definer && parts.contains(definer)) {
        ofOperands.push_back(parts.lookup(definer));
        if (isBackward(definer))
          latest = std::min(latest, parts.lookup(definer));
      }
    int64_t part;
    if (given(op)) {
      part = given(op).getInt();
    } else if (isa<LocalSliceOp>(op) && !ofOperands.empty()) {
      part = ofOperands.front(); // the slice is transferred, not the whole value
    } else if (!isBackward(op)) {
      int64_t before = ofOperands.empty() ? 0 : *llvm::max_element(ofOperands);
      part = leads.contains(op) ? before : partCount - 1;
    } else {
      auto itsForward = forwardPart.find(op->getLoc());
      part = itsForward != forwardPart.end() && itsForward->second != kUnknown ? std::min(itsForward->second, latest)
             : ofOperands.empty()                                              ? partCount - 1
                                                                               : *llvm::min_element(ofOperands);
      part = std::max(part, asks.lookup(op));
    }
    parts[op] = part;
    if (!isBackward(op)) {
      auto [known, isNew] = forwardPart.try_emplace(op->getLoc(), part);
      if (!isNew && known->second != part)
        known->second = kUnknown;
    }
  }
}

/// A value that is gathered for one other part only is transferred as shards, and gathered on the stage that reads it.
void Assigner::gatherWhereNeeded() {
  for (Operation *op : llvm::reverse(ops)) {
    Operation *gather = isa<WaitOp>(op) ? op->getOperand(0).getDefiningOp() : op;
    if (!isa_and_nonnull<AllGatherOp>(gather) || !parts.contains(op) || op->use_empty())
      continue;
    auto first = parts.find(*op->user_begin());
    if (llvm::all_of(op->getUsers(), [&](Operation *user) {
          auto its = parts.find(user);
          return its != parts.end() && its->second == first->second;
        }))
      parts[op] = first->second;
  }
}

/// Finds the ops on which another call or another part depends, and not only sums over microbatches.
void Assigner::findAwaited() {
  awaited.clear();
  auto elsewhere = [&](Operation *op, Operation *user) {
    auto its = parts.find(op), users = parts.find(user);
    return its != parts.end() && users != parts.end() && its->second != users->second;
  };
  for (Operation *op : llvm::reverse(ops))
    if (llvm::any_of(op->getUsers(), [&](Operation *user) {
          return isa<CallOp>(user) || awaited.contains(user) || elsewhere(op, user);
        }))
      awaited.insert(op);
}

/// Splits the sum of a gradient to which two stages contribute. Each stage sums its own contribution over microbatches,
/// so that contributions are transferred once for each step.
void Assigner::splitSums() {
  for (Operation *op : ops) {
    auto sum = dyn_cast<AccumulateOp>(op);
    auto add = sum ? sum.getOperand().getDefiningOp<AddOp>() : AddOp();
    if (!add || !add->hasOneUse() || add->getNumOperands() != 2)
      continue;
    Operation *shares[] = {add->getOperand(0).getDefiningOp(), add->getOperand(1).getDefiningOp()};
    if (!parts.contains(shares[0]) || !parts.contains(shares[1]) ||
        parts[shares[0]] % stages == parts[shares[1]] % stages)
      continue;
    OpBuilder builder(sum);
    SmallVector<Value> sums;
    for (Value share : add->getOperands())
      sums.push_back(AccumulateOp::create(builder, sum.getLoc(), share.getType(), share));
    Operation *total = builder.clone(*add);
    total->setOperands(sums);
    sum.getResult().replaceAllUsesWith(total->getResult(0));
    sum.erase();
    add.erase();
  }
  collect();
}

/// A parameter resides on the stage that uses it first; its states reside on the stage that updates them.
LogicalResult Assigner::findHomes() {
  DenseMap<Value, int64_t> firstUse; // the lowest part that needs the value, also through ops that run anywhere
  auto need = [&](Value value, int64_t part) {
    auto [known, isNew] = firstUse.try_emplace(value, part);
    known->second = std::min(known->second, part);
  };
  for (Operation *op : llvm::reverse(ops)) {
    if (dependence.lookup(op) == Dependence::Sums)
      continue;
    int64_t part = kUnknown;
    if (auto found = parts.find(op); found != parts.end()) {
      part = found->second;
    } else {
      for (Value result : op->getResults())
        if (auto known = firstUse.find(result); known != firstUse.end())
          part = part == kUnknown ? known->second : std::min(part, known->second);
    }
    if (part != kUnknown)
      for (Value operand : op->getOperands())
        need(operand, part);
  }
  for (BlockArgument argument : main.getArguments())
    if (auto known = firstUse.find(argument); known != firstUse.end() && hasHome(argument))
      homes[argument] = known->second % stages;
  DenseMap<StringAttr, int64_t> updates; // by parameter: its update and states reside on this stage
  for (BlockArgument argument : main.getArguments())
    if (auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kNameAttr);
        name && homes.contains(argument))
      updates[name] = homes.lookup(argument);
  for (Operation *op : ops) {
    if (dependence.lookup(op) != Dependence::Sums)
      continue;
    auto update = updates.find(op->getAttrOfType<StringAttr>(KerfDialect::kUpdateAttr));
    int64_t stage = update == updates.end() ? stageOfUpdate(op) : update->second;
    parts[op] = stage;
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand); argument && hasHome(argument))
        homes.try_emplace(argument, stage);
  }
  // The new value of an argument is computed where the argument resides. For scalars such as a loss scale, nothing else
  // determines the stage.
  for (BlockArgument argument : main.getArguments()) {
    auto by = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr);
    if (!by && hasHome(argument))
      homes.try_emplace(argument, 0);
    if (!by)
      continue;
    Operation *made = main.front().getTerminator()->getOperand(static_cast<unsigned>(by.getInt())).getDefiningOp();
    bool sums = made && dependence.lookup(made) == Dependence::Sums;
    int64_t home = homes.try_emplace(argument, sums ? parts.lookup(made) : 0).first->second;
    if (sums && !isa<WaitOp, AccumulateOp>(made))
      parts[made] = home;
  }
  return success();
}

/// Returns the stage of an op's largest operand, so that only smaller ones are transferred; of equally large ones, the
/// first stage.
int64_t Assigner::stageOfUpdate(Operation *op) {
  if (isa<AccumulateOp>(op)) {
    Operation *definer = op->getOperand(0).getDefiningOp();
    if (!definer || !parts.contains(definer))
      return 0;
    return of(op->getOperand(0)) == Dependence::Sums ? parts.lookup(definer) : parts.lookup(definer) % stages;
  }
  int64_t stage = 0;
  std::pair<int64_t, bool> largest(-1, false); // number of elements; of equal ones, not a broadcast
  for (Value operand : op->getOperands()) {
    bool spread = false;
    for (Operation *definer = operand.getDefiningOp(); definer && isBroadcast(definer);
         definer = operand.getDefiningOp()) {
      operand = definer->getOperand(0);
      spread = true;
    }
    int64_t its = kUnknown;
    if (auto known = homes.find(operand); known != homes.end())
      its = known->second;
    else if (of(operand) == Dependence::Sums)
      its = parts.lookup(operand.getDefiningOp());
    if (its == kUnknown)
      continue;
    auto pending = dyn_cast<PendingType>(operand.getType());
    auto type = pending ? pending.getTensor() : cast<RankedTensorType>(operand.getType());
    std::pair<int64_t, bool> size(type.getNumElements(), !spread);
    if (size > largest || (size == largest && its < stage))
      stage = its, largest = size;
  }
  return stage;
}

void Assigner::write(Operation *op, const OpTask &task) {
  Builder builder(op->getContext());
  op->setAttr(KerfDialect::kTaskAttr,
              builder.getDictionaryAttr({builder.getNamedAttr("phase", builder.getStringAttr(task.phase)),
                                         builder.getNamedAttr("stage", builder.getI64IntegerAttr(task.stage)),
                                         builder.getNamedAttr("chunk", builder.getI64IntegerAttr(task.chunk))}));
  op->removeAttr(KerfDialect::kPartAttr);
}

Value Assigner::transferred(Value value, int64_t from, int64_t to, const OpTask &task) {
  if (from == to)
    return value;
  Value &there = transferredValues[{value, to}];
  if (!there) {
    OpBuilder builder(main.getContext());
    if (Operation *definer = value.getDefiningOp())
      builder.setInsertionPointAfter(definer);
    else
      builder.setInsertionPointToStart(&main.front());
    auto transfer = TransferOp::create(builder, value.getLoc(), value.getType(), value, builder.getI64IntegerAttr(from),
                                       builder.getI64IntegerAttr(to));
    write(transfer, task);
    there = transfer;
  }
  return there;
}

/// Returns a copy of `result`, the result of an op that runs on each stage that needs it, for `task`.
FailureOr<Value> Assigner::cloned(Operation *op, OpResult result, OpTask task) {
  Dependence its = dependence.lookup(op);
  if (its == Dependence::Sums) {
    task.phase = "update";
  } else if (its == Dependence::Nothing) {
    task.chunk = 0;
    if (task.phase != "update")
      task.phase = "prepare";
    else if (copies.contains({op, "prepare", task.stage, 0}))
      task.phase = "prepare";
  } else if (copies.contains({op, "forward", task.stage, task.chunk})) {
    task.phase = "forward";
  }
  Operation *&copy = copies[{op, task.phase.str(), task.stage, task.chunk}];
  if (!copy) {
    OpBuilder builder(op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto value = at(operand, task, op);
      if (failed(value))
        return failure();
      operands.push_back(*value);
    }
    Operation *made = builder.clone(*op);
    made->setOperands(operands);
    write(made, task);
    copies[{op, task.phase.str(), task.stage, task.chunk}] = made;
    return Value(made->getResult(result.getResultNumber()));
  }
  return Value(copy->getResult(result.getResultNumber()));
}

/// Returns `value` as it is available to `task` on the task's stage: transferred or computed there if necessary.
FailureOr<Value> Assigner::at(Value value, const OpTask &task, Operation *user) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto home = homes.find(value);
    if (home == homes.end())
      return value;
    return transferred(value, home->second, task.stage, {"prepare", home->second, 0});
  }
  Operation *definer = value.getDefiningOp();
  if (definer->hasAttr(KerfDialect::kTaskAttr) && !dependence.contains(definer))
    return value; // computed on this stage
  if (runsAnywhere(definer))
    return cloned(definer, cast<OpResult>(value), task);
  OpTask from = taskOf(definer);
  if (dependence.lookup(definer) == Dependence::Microbatch && task.phase == "update" && !isa<AccumulateOp>(user))
    return user->emitError() << "needs a value of every microbatch after the last one, when only the sum over all "
                                "microbatches is available; set microbatch to the samples of a model replica";
  return transferred(value, from.stage, task.stage, from);
}

/// Every result of the step that depends on microbatches is a sum over microbatches, even where there is
/// only one microbatch.
void Assigner::sumOfResults() {
  for (OpOperand &operand : main.front().getTerminator()->getOpOperands())
    if (of(operand.get()) == Dependence::Microbatch) {
      OpBuilder builder(main.getContext());
      builder.setInsertionPointAfter(operand.get().getDefiningOp());
      operand.set(AccumulateOp::create(builder, operand.get().getLoc(), operand.get().getType(), operand.get()));
    }
}

/// A gradient that depends on no microbatch (that of a value computed from parameters only) is still a
/// contribution of each microbatch to the sum. Its op is copied into the backward pass of the last part, which
/// runs for each microbatch.
void Assigner::shareSums() {
  for (Operation *op : ops) {
    auto sum = dyn_cast<AccumulateOp>(op);
    if (!sum || of(sum.getOperand()) != Dependence::Nothing)
      continue;
    OpBuilder builder(sum);
    Value share = sum.getOperand();
    if (auto result = dyn_cast<OpResult>(share))
      share = builder.clone(*result.getOwner())->getResult(result.getResultNumber());
    else
      share = ReshapeOp::create(builder, sum.getLoc(), share.getType(), share);
    share.getDefiningOp()->setAttr(KerfDialect::kBackwardAttr, builder.getUnitAttr());
    share.getDefiningOp()->setAttr(KerfDialect::kPartAttr, builder.getI64IntegerAttr(partCount - 1));
    sum->setOperand(0, share);
  }
}

LogicalResult Assigner::rewrite() {
  for (Operation *op : ops) {
    if (runsAnywhere(op))
      continue;
    OpTask task = taskOf(op);
    if (isa<AccumulateOp>(op)) // it runs where its operand is computed
      if (Operation *definer = op->getOperand(0).getDefiningOp();
          definer && of(op->getOperand(0)) == Dependence::Microbatch)
        task = taskOf(definer);
    for (OpOperand &operand : op->getOpOperands()) {
      auto value = at(operand.get(), task, op);
      if (failed(value))
        return failure();
      operand.set(*value);
    }
    write(op, task);
  }
  Operation *terminator = main.front().getTerminator();
  Builder builder(main.getContext());
  for (OpOperand &operand : terminator->getOpOperands()) {
    int64_t stage = 0;
    if (Operation *definer = operand.get().getDefiningOp()) {
      if (runsAnywhere(definer)) {
        // A result that replaces an argument is on the argument's stage.
        for (BlockArgument argument : main.getArguments())
          if (auto by = main.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), KerfDialect::kUpdatedByAttr);
              by && by.getInt() == operand.getOperandNumber())
            stage = homes.try_emplace(argument, 0).first->second;
        auto value = at(operand.get(), {"update", stage, 0}, terminator);
        if (failed(value))
          return failure();
        operand.set(*value);
      } else {
        stage = parts.lookup(definer);
      }
    } else if (auto home = homes.find(operand.get()); home != homes.end()) {
      stage = home->second;
    }
    main.setResultAttr(operand.getOperandNumber(), KerfDialect::kStageAttr, builder.getI64IntegerAttr(stage));
  }
  for (auto [argument, stage] : homes)
    main.setArgAttr(cast<BlockArgument>(argument).getArgNumber(), KerfDialect::kStageAttr,
                    builder.getI64IntegerAttr(stage));
  for (Operation *op : llvm::reverse(ops))
    if (!op->hasAttr(KerfDialect::kTaskAttr))
      op->erase();
  return success();
}

LogicalResult Assigner::checkParts() {
  for (Operation *op : ops)
    if (auto found = parts.find(op); found != parts.end() && (found->second < 0 || found->second >= partCount))
      return op->emitError() << "kerf.part is " << found->second << "; " << stages << " stages of "
                             << partCount / stages << " chunks have parts 0 to " << partCount - 1;
  return success();
}

LogicalResult Assigner::run() {
  collect();
  if (failed(findDependences()))
    return failure();
  sumOfResults();
  shareSums();
  collect();
  if (failed(findDependences()))
    return failure();
  findParts();
  splitSums();
  if (failed(findDependences()))
    return failure();
  findParts();
  gatherWhereNeeded();
  findAwaited();
  if (failed(checkParts()) || failed(findHomes()))
    return failure();
  return rewrite();
}

struct AssignTasks : impl::AssignTasksBase<AssignTasks> {
  using AssignTasksBase::AssignTasksBase;
  void runOnOperation() override {
    Mesh mesh = meshOf(getOperation());
    auto main = getOperation().lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
    if (!isScheduled(mesh) || !main)
      return;
    if (failed(Assigner(main, mesh, chunks, splitBackward).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace kerf
