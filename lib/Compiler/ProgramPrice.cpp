// SPDX-License-Identifier: Apache-2.0
#include "ProgramPrice.h"
#include "kerf/CostModel/Compute.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Package/ProgramSchedule.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Work.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

namespace {

/// Seconds of some ops on one rank.
struct Seconds {
  double forward = 0, backward = 0, optimizer = 0; // kernels
  std::map<std::string, double> collectives;       // by the names of their axes
  double sends = 0;                                // messages to another stage, after the ops

  double compute() const { return forward + backward + optimizer; }
  double communication() const {
    return std::accumulate(collectives.begin(), collectives.end(), 0.0,
                           [](double sum, const auto &entry) { return sum + entry.second; });
  }
  double all() const { return compute() + communication(); }
  void add(const Seconds &other, double times) {
    forward += times * other.forward;
    backward += times * other.backward;
    optimizer += times * other.optimizer;
    for (const auto &[axes, seconds] : other.collectives)
      collectives[axes] += times * seconds;
    sends += times * other.sends;
  }
};

enum class Pass { Forward, Backward, Update };

/// Where and when the ops of one task run; a program without a schedule is one task.
struct TaskKey {
  StringRef phase;
  int64_t stage = 0, chunk = 0;
  bool operator<(const TaskKey &other) const {
    return std::tuple(phase.str(), stage, chunk) < std::tuple(other.phase.str(), other.stage, other.chunk);
  }
};

class Pricing {
public:
  Pricing(ModuleOp device, const package::Program &program, const CollectiveModel &collectives)
      : device(device), program(program), collectives(collectives), symbols(device) {}
  Result<ProgramPrice> run();

private:
  std::string axisNames(ArrayRef<int64_t> flat) const;
  double kernelSeconds(func::FuncOp kernel) const;
  void addOp(Operation *op, Pass pass, Seconds &seconds);
  const Seconds &ofFunction(StringRef name, Pass pass);
  void addTransfer(TransferOp transfer, Seconds &seconds);
  void readTasks();
  const Seconds &of(const TaskKey &key) { return tasks[key]; }
  ProgramPrice inSchedule(const Schedule &schedule);

  ModuleOp device;
  const package::Program &program;
  const CollectiveModel &collectives;
  SymbolTable symbols;
  std::map<std::pair<std::string, Pass>, Seconds> functions;
  std::map<TaskKey, Seconds> tasks;
};

std::string Pricing::axisNames(ArrayRef<int64_t> flat) const {
  std::string text;
  for (const AxisRef &axis : axesFromFlat(flat))
    text += (text.empty() ? "" : ", ") + collectives.mesh().axes[axis.axis].name;
  return text;
}

void Pricing::addTransfer(TransferOp transfer, Seconds &seconds) {
  int stage = collectives.mesh().find(KerfDialect::kStageAxis.str());
  if (stage < 0)
    return;
  Value sent = transfer.getOperand();
  double bytes = static_cast<double>(elementsOf(shapeOf(sent))) * static_cast<double>(bytesPerElement(sent.getType()));
  const AxisRef axis = wholeAxis(collectives.mesh(), stage);
  seconds.sends += collectives.seconds(Collective::Permute, std::span(&axis, 1), bytes);
}

/// A chain of pointwise ops that is one kernel of machine code: it reads its arguments and writes its results once, and
/// does each op in one operation an element.
double Pricing::kernelSeconds(func::FuncOp kernel) const {
  auto bytesOf = [](Value value) {
    return static_cast<double>(elementsOf(shapeOf(value))) * static_cast<double>(bytesPerElement(value.getType()));
  };
  Work work;
  work.kernelClass = KernelClass::Pointwise;
  for (Operation &op : kernel.getOps()) {
    auto its = dyn_cast<WorkOpInterface>(op);
    if (!its || its.getKernelClass() == KernelClass::Nothing)
      continue;
    work.flops += static_cast<double>(elementsOf(shapeOf(op.getResult(0)))); // vectors hide a formula's length
    if (its.getKernelClass() == KernelClass::Reduction)
      work.kernelClass = KernelClass::Reduction;
    Type element = tensorType(op.getResult(0)).getElementType();
    work.dtype = (isa<FloatType>(element) ? "f" : "i") + std::to_string(element.getIntOrFloatBitWidth());
  }
  for (Value argument : kernel.getArguments())
    work.bytes += bytesOf(argument);
  for (Value result : kernel.front().getTerminator()->getOperands())
    work.bytes += bytesOf(result);
  return computeSeconds(collectives.cluster().device, work);
}

void Pricing::addOp(Operation *op, Pass pass, Seconds &seconds) {
  if (op->hasTrait<CopiesByHost>())
    return;
  if (auto transfer = dyn_cast<TransferOp>(op))
    return addTransfer(transfer, seconds);
  if (pass == Pass::Forward && op->hasAttr(KerfDialect::kBackwardAttr))
    pass = Pass::Backward;
  double took = 0;
  if (auto call = dyn_cast<CallOp>(op)) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || !callee->hasAttr(kKernelAttr))
      return seconds.add(ofFunction(call.getCallee(), pass), 1);
    took = kernelSeconds(callee);
  } else {
    took = deviceOpSeconds(op, collectives);
  }
  if (op->getNumResults() == 1 && isa<PendingType>(op->getResult(0).getType())) {
    auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
    seconds.collectives[axes ? axisNames(axes.asArrayRef()) : ""] += took;
    return;
  }
  bool updates = pass == Pass::Update || op->hasAttr(KerfDialect::kUpdateAttr);
  (updates ? seconds.optimizer : pass == Pass::Backward ? seconds.backward : seconds.forward) += took;
}

const Seconds &Pricing::ofFunction(StringRef name, Pass pass) {
  auto [known, isNew] = functions.try_emplace({name.str(), pass});
  if (isNew)
    if (auto function = symbols.lookup<func::FuncOp>(name)) {
      Seconds its;
      for (Operation &op : function.getOps())
        addOp(&op, pass, its);
      functions[{name.str(), pass}] = std::move(its);
    }
  return functions[{name.str(), pass}];
}

void Pricing::readTasks() {
  auto main = symbols.lookup<func::FuncOp>(KerfDialect::kEntryName);
  for (Operation &op : main.getOps()) {
    TaskKey key;
    if (auto attr = op.getAttrOfType<DictionaryAttr>(KerfDialect::kTaskAttr)) {
      key.phase = attr.getAs<StringAttr>("phase").getValue();
      key.stage = attr.getAs<IntegerAttr>("stage").getInt();
      key.chunk = attr.getAs<IntegerAttr>("chunk").getInt();
    }
    Pass pass = key.phase == "update"                                                   ? Pass::Update
                : key.phase.empty() || key.phase == "forward" || key.phase == "prepare" ? Pass::Forward
                                                                                        : Pass::Backward;
    addOp(&op, pass, tasks[key]);
  }
}

StringRef phaseOf(TaskKind kind) {
  switch (kind) {
  case TaskKind::Forward:
    return "forward";
  case TaskKind::Backward:
    return "backward";
  case TaskKind::InputGradient:
    return "input_gradient";
  case TaskKind::WeightGradient:
    return "weight_gradient";
  }
  return "";
}

ProgramPrice Pricing::inSchedule(const Schedule &schedule) {
  auto cost = [&](int64_t stage, const Task &task) -> const Seconds & {
    return of({phaseOf(task.kind), stage, task.chunk});
  };
  ScheduleTimes times = runSchedule(
      schedule, [&](int64_t stage, const Task &task) { return cost(stage, task).all(); },
      [&](StageChunk from, const Task &task) { return cost(from.stage, task).sends; });
  ProgramPrice price;
  double prepare = 0, update = 0, most = -1;
  Seconds busiest;
  for (int64_t s = 0; s < schedule.stages; ++s) {
    const Seconds &first = of({"prepare", s, 0}), &last = of({"update", s, 0});
    prepare = std::max(prepare, first.all() + first.sends);
    update = std::max(update, last.all() + last.sends);
    Seconds sum;
    sum.add(first, 1);
    sum.add(last, 1);
    for (const Task &task : schedule.order[s])
      sum.add(cost(s, task), 1);
    if (sum.all() > most) {
      most = sum.all();
      busiest = std::move(sum);
    }
  }
  for (int64_t s = 0; s < schedule.stages; ++s)
    for (size_t i = 0; i < schedule.order[s].size(); ++i) {
      const Task &task = schedule.order[s][i];
      double start = prepare + times.tasks[s][i].start, seconds = times.tasks[s][i].end - times.tasks[s][i].start;
      price.trace.push_back({s, false, toString(task, schedule.chunks), start, seconds, task, 0,
                             std::max(0.0, seconds - cost(s, task).compute())});
    }
  price.stepSeconds = prepare + times.makespan + update;
  for (int64_t s = 0; s < schedule.stages; ++s)
    price.trace.push_back({s, false, "optimizer", prepare + times.makespan, of({"update", s, 0}).all()});
  price.computeSeconds = busiest.compute();
  price.collectiveSeconds = busiest.communication() + busiest.sends;
  Breakdown &parts = price.breakdown;
  parts.forward = busiest.forward;
  parts.backward = busiest.backward;
  parts.optimizer = busiest.optimizer;
  parts.collectives = parts.exposed = busiest.collectives;
  if (busiest.sends > 0)
    parts.collectives["stage"] += busiest.sends;
  parts.bubble = std::max(0.0, price.stepSeconds - busiest.all());
  return price;
}

Result<ProgramPrice> Pricing::run() {
  readTasks();
  if (program.schedule) {
    auto schedule = package::scheduleOf(program);
    if (!schedule)
      return schedule.error();
    return inSchedule(*schedule);
  }
  const Seconds &all = of({});
  ProgramPrice price;
  price.stepSeconds = all.all();
  price.computeSeconds = all.compute();
  price.collectiveSeconds = all.communication();
  price.breakdown.forward = all.forward;
  price.breakdown.backward = all.backward;
  price.breakdown.optimizer = all.optimizer;
  price.breakdown.collectives = price.breakdown.exposed = all.collectives;
  price.trace.push_back({0, false, "step", 0, price.stepSeconds});
  return price;
}

} // namespace

Result<ProgramPrice> priceProgram(ModuleOp device, const package::Program &program,
                                  const CollectiveModel &collectives) {
  return Pricing(device, program, collectives).run();
}

} // namespace kerf
