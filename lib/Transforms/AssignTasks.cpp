// SPDX-License-Identifier: Apache-2.0
// kerf-assign-tasks: when and where each op of the step runs. What depends on the microbatch runs for each one, in the
// forward or backward pass of a part of the pipeline; what depends on sums over all of them runs in the update; what
// depends on neither is made once, wherever it is needed. A value that another stage needs is transferred.
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

/// Of an op of the step.
enum class Dependence {
  Nothing,    // arguments and constants that every stage has: made wherever it is needed
  Microbatch, // done for each one
  Sums,       // of all microbatches: done in the update
};

struct Task {
  StringRef phase;
  int64_t stage = 0, chunk = 0;
};

/// A broadcast value, or a piece of one: its source is smaller.
bool isSpread(Operation *op) {
  if (isa<BroadcastInDimOp>(op))
    return true;
  Operation *definer = isa<LocalSliceOp, ReshapeOp>(op) ? op->getOperand(0).getDefiningOp() : nullptr;
  return definer && isSpread(definer);
}

class Assigner {
public:
  Assigner(func::FuncOp main, const Mesh &mesh, int64_t chunks, bool splitBackward)
      : splitBackward(splitBackward), main(main), module(main->getParentOfType<ModuleOp>()), mesh(mesh),
        time(timeAxis(mesh)), stages(stageAxis(mesh) >= 0 ? mesh.axes[stageAxis(mesh)].size : 1),
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
  FailureOr<Value> at(Value value, const Task &task, Operation *user);
  Value transferred(Value value, int64_t from, int64_t to, const Task &task);
  FailureOr<Value> cloned(Operation *op, OpResult result, Task task);
  void sumOfResults();
  void shareSums();
  void write(Operation *op, const Task &task);
  LogicalResult checkParts();

  Dependence of(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? dependence.lookup(op) : Dependence::Nothing;
  }
  bool isBackward(Operation *op) const { return backward.contains(op); }
  /// Made where it is needed: nothing large has to move for it.
  bool isMadeAnywhere(Operation *op) const {
    Dependence its = dependence.lookup(op);
    return its == Dependence::Nothing || isInputOnly(op) || (its == Dependence::Sums && isSpread(op));
  }
  /// For each microbatch: it depends on inputs alone.
  bool isInputOnly(Operation *op) const { return inputOnly.contains(op); }
  bool isAwaited(Operation *op) const { return awaited.contains(op); }
  bool isUpdated(BlockArgument argument) {
    return static_cast<bool>(main.getArgAttr(argument.getArgNumber(), KerfDialect::kUpdatedByAttr));
  }
  /// What the step replaces, and frozen parameters: others every stage has.
  bool hasHome(BlockArgument argument) {
    auto kind = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), KerfDialect::kKindAttr);
    return isUpdated(argument) || (kind && kind.getValue() == "parameter");
  }
  Task taskOf(Operation *op) const {
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
  DenseSet<Operation *> awaited; // with splitBackward: another part waits for what it leads to
  /// Of ops of microbatches: their part; of the update: their stage.
  DenseMap<Operation *, int64_t> parts;
  DenseMap<Value, int64_t> homes; // of arguments that live on one stage: which
  llvm::StringMap<bool> readsInFunction;
  DenseMap<std::pair<Value, int64_t>, Value> arrived;                                   // by the stage that it came to
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
  DenseSet<Operation *> untrained; // depends on no argument that the step replaces
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
                                "cut into microbatches; set microbatch to the samples of a data group";
    dependence[op] = sums ? Dependence::Sums : microbatch ? Dependence::Microbatch : Dependence::Nothing;
    if (microbatch && alone && !isa<CallOp, AccumulateOp>(op) && !op->hasAttr(KerfDialect::kPartAttr))
      inputOnly.insert(op);
    if (isa<AccumulateOp>(op))
      inputOnly.erase(op->getOperand(0).getDefiningOp()); // it is summed at one place
  }
  return success();
}

void Assigner::findParts() {
  parts.clear();
  auto given = [](Operation *op) { return op->getAttrOfType<IntegerAttr>(KerfDialect::kPartAttr); };
  DenseSet<Operation *> leads; // to an op that says its part
  for (Operation *op : llvm::reverse(ops))
    if (llvm::any_of(op->getUsers(), [&](Operation *user) { return given(user) || leads.contains(user); }))
      leads.insert(op);
  DenseMap<Operation *, int64_t> asks; // of gradients: the latest part that says so itself and that they lead to
  for (Operation *op : llvm::reverse(ops))
    for (Operation *user : op->getUsers())
      if (isBackward(op) && dependence.lookup(user) == Dependence::Microbatch)
        asks[op] = std::max(asks.lookup(op), given(user) ? given(user).getInt() : asks.lookup(user));
  DenseMap<Location, int64_t> forwardPart; // by location; kUnknown where ops of several parts have it
  for (Operation *op : ops) {
    if (dependence.lookup(op) != Dependence::Microbatch || isInputOnly(op))
      continue;
    SmallVector<int64_t> ofOperands;
    int64_t latest = partCount - 1; // gradients go from the last part to the first
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
      part = ofOperands.front(); // the piece is sent
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

/// What one other part alone gathers is sent in pieces, and gathered there.
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

/// What leads to another call or another part is waited for; what only leads to sums is not.
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

/// A gradient to which two stages add their share is summed over microbatches on each, so that shares meet once a step.
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

/// A parameter lives where it is used first; the states beside it, where they are updated.
LogicalResult Assigner::findHomes() {
  DenseMap<Value, int64_t> firstUse; // the lowest part that needs the value, through ops that are made anywhere
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
  DenseMap<StringAttr, int64_t> updates; // of parameters: their updates and states live beside them
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
  // What replaces an argument is made where the argument lives (scalars, such as a loss scale, have no other hold).
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

/// Where its largest operand is, so that what moves is small; of equal ones, on the first stage.
int64_t Assigner::stageOfUpdate(Operation *op) {
  if (isa<AccumulateOp>(op)) {
    Operation *definer = op->getOperand(0).getDefiningOp();
    if (!definer || !parts.contains(definer))
      return 0;
    return of(op->getOperand(0)) == Dependence::Sums ? parts.lookup(definer) : parts.lookup(definer) % stages;
  }
  int64_t stage = 0;
  std::pair<int64_t, bool> largest(-1, false); // elements; of equal ones, not a value that is spread
  for (Value operand : op->getOperands()) {
    bool spread = false;
    for (Operation *definer = operand.getDefiningOp(); definer && isSpread(definer);
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

void Assigner::write(Operation *op, const Task &task) {
  Builder builder(op->getContext());
  op->setAttr(KerfDialect::kTaskAttr,
              builder.getDictionaryAttr({builder.getNamedAttr("phase", builder.getStringAttr(task.phase)),
                                         builder.getNamedAttr("stage", builder.getI64IntegerAttr(task.stage)),
                                         builder.getNamedAttr("chunk", builder.getI64IntegerAttr(task.chunk))}));
  op->removeAttr(KerfDialect::kPartAttr);
}

Value Assigner::transferred(Value value, int64_t from, int64_t to, const Task &task) {
  if (from == to)
    return value;
  Value &there = arrived[{value, to}];
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

/// The result of an op that is made wherever it is needed, made there.
FailureOr<Value> Assigner::cloned(Operation *op, OpResult result, Task task) {
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

/// The value as `task` finds it on its stage.
FailureOr<Value> Assigner::at(Value value, const Task &task, Operation *user) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto home = homes.find(value);
    if (home == homes.end())
      return value;
    return transferred(value, home->second, task.stage, {"prepare", home->second, 0});
  }
  Operation *definer = value.getDefiningOp();
  if (definer->hasAttr(KerfDialect::kTaskAttr) && !dependence.contains(definer))
    return value; // made here
  if (isMadeAnywhere(definer))
    return cloned(definer, cast<OpResult>(value), task);
  Task from = taskOf(definer);
  if (dependence.lookup(definer) == Dependence::Microbatch && task.phase == "update" && !isa<AccumulateOp>(user))
    return user->emitError() << "needs what each microbatch makes, after the last one; only its sum is there";
  return transferred(value, from.stage, task.stage, from);
}

/// What the step returns is a sum over microbatches: where there is only one, of that one.
void Assigner::sumOfResults() {
  for (OpOperand &operand : main.front().getTerminator()->getOpOperands())
    if (of(operand.get()) == Dependence::Microbatch) {
      OpBuilder builder(main.getContext());
      builder.setInsertionPointAfter(operand.get().getDefiningOp());
      operand.set(AccumulateOp::create(builder, operand.get().getLoc(), operand.get().getType(), operand.get()));
    }
}

/// A gradient that no microbatch changes (of what only parameters are made into) is a share of each all the same.
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
    if (isMadeAnywhere(op))
      continue;
    Task task = taskOf(op);
    if (isa<AccumulateOp>(op)) // it runs where its operand is made
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
      if (isMadeAnywhere(definer)) {
        // As the argument that it replaces.
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
