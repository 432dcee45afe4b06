// SPDX-License-Identifier: Apache-2.0
// The checks of pipeline stages, microbatches and tasks. A program that passes them can be unrolled in the order of its
// schedule, whichever schedule that is, without using a value before it exists and without stages that wait for each
// other in a circle.
#include "CheckPipeline.h"
#include "kerf/Schedule/Schedule.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
std::string text(const ProgramTask &task) {
  return fmt::format("{} of stage {}, chunk {}", toString(task.phase), task.stage, task.chunk);
}

std::string place(size_t index, const Instruction &instruction) {
  return fmt::format("instruction {} ({}{}{})", index, instruction.op, instruction.name.empty() ? "" : " of ",
                     instruction.name);
}

bool isWider(DType from, DType to) {
  auto floating = [](DType dtype) { return dtype <= DType::F16; };
  return floating(from) && floating(to) && bytesOf(from) < bytesOf(to);
}

/// Indices of the mesh axes `stage` and `microbatch`; -1 for an axis that the mesh does not have.
struct SpecialAxes {
  explicit SpecialAxes(const Mesh &mesh) : stage(mesh.find(kStageAxis)), microbatch(mesh.find(kMicrobatchAxis)) {}
  int stage, microbatch;
};

/// Checks that a collective does not run over the axes `stage` and `microbatch`: it exchanges values between the ranks
/// of one stage in one microbatch.
Status checkCollectiveAxes(const Mesh &mesh, const SpecialAxes &special, const Instruction &instruction) {
  auto axes = instruction.attrs.find("axes");
  if (axes == instruction.attrs.end() || !axes->is_array())
    return ok(); // refused when the kernel is bound
  for (size_t i = 0; i < axes->size(); i += 3)
    for (int axis : {special.stage, special.microbatch})
      if (axis >= 0 && (*axes)[i] == axis)
        return Error{fmt::format("it runs over the axis '{}': ranks of different {} exchange values only by {}",
                                 mesh.axes[size_t(axis)].name, axis == special.stage ? "stages" : "microbatches",
                                 axis == special.stage ? kTransfer : kAccumulate)};
  return ok();
}

/// Checks where (pipeline stage) and when (phase, microbatch) each value of the entry function exists.
class PipelineCheck {
public:
  PipelineCheck(const Program &program, const Function &entry)
      : program(program), entry(entry), special(program.mesh), stages(stagesOf(program)), values(entry.values.size()) {}

  Status run() {
    for (const Function &function : program.functions)
      for (size_t i = 0; i < function.body.size(); ++i)
        if (Status status = checkPlace(function, function.body[i]); !status)
          return fail(function, i, status);
    for (size_t i = 0; i < program.args.size(); ++i)
      if (Status status = checkArg(program.args[i], values[size_t(entry.args[i])]); !status)
        return Error{fmt::format("program, argument {} ('{}'): {}", i, program.args[i].name, status.error().message)};
    if (program.schedule)
      for (size_t i = 0; i < entry.body.size(); ++i)
        if (Status status = checkInstruction(entry.body[i]); !status)
          return fail(entry, i, status);
    for (size_t i = 0; i < program.results.size(); ++i)
      if (Status status = checkResult(program.results[i], entry.results[i]); !status)
        return Error{fmt::format("program, result {} ('{}'): {}", i, program.results[i].name, status.error().message)};
    for (size_t i = 0; i < entry.body.size(); ++i)
      if (entry.body[i].op == kTransfer && !values[size_t(entry.body[i].results[0])].used)
        return fail(entry, i, Error{"no instruction uses its result; remove the transfer"});
    return checkUpdates();
  }

private:
  /// On which stage, and when in the step, a value of the entry function exists.
  struct Known {
    int64_t stage = -1;              // -1: on every stage
    bool ofMicrobatch = false;       // each microbatch has its own
    bool fromUpdate = false;         // exists only at the end of the step
    std::optional<ProgramTask> task; // in which it is computed; none for arguments
    bool used = false;
  };

  Error fail(const Function &function, size_t index, const Status &status) const {
    return {fmt::format("program, function '{}': {}: {}", function.name, place(index, function.body[index]),
                        status.error().message)};
  }

  /// Checks that tasks, `transfer` and `accumulate` occur exactly in the entry function of a program with a schedule.
  Status checkPlace(const Function &function, const Instruction &instruction) const {
    if (isCollective(instruction.op))
      if (Status status = checkCollectiveAxes(program.mesh, special, instruction); !status)
        return status;
    bool scheduled = program.schedule && &function == &entry;
    if (!scheduled && instruction.task)
      return Error{"it has a task, which only instructions of the entry function of a program with a schedule have"};
    if (!scheduled && (instruction.op == kTransfer || instruction.op == kAccumulate))
      return Error{"it can only be in the entry function of a program with a schedule"};
    if (scheduled && !instruction.task)
      return Error{"it has no task: in a program with a schedule, each instruction of the entry function needs one"};
    return ok();
  }

  Status checkStage(int64_t stage) const {
    if (stage >= -1 && stage < stages)
      return ok();
    return Error{fmt::format("it is on stage {}, but there are {}: 0 to {}", stage, stages, stages - 1)};
  }

  bool cutBy(const Sharding &sharding, int axis) const {
    auto names = [&](const AxisRef &ref) { return axis >= 0 && ref.axis == axis; };
    return std::any_of(sharding.dims.begin(), sharding.dims.end(),
                       [&](const DimSharding &dim) { return std::any_of(dim.axes.begin(), dim.axes.end(), names); });
  }

  Status checkArg(const Arg &arg, Known &known) {
    if (Status status = checkStage(arg.stage); !status)
      return status;
    if (stages > 1 && arg.stage < 0 && (arg.kind == ArgKind::Parameter || arg.kind == ArgKind::State))
      return Error{fmt::format("a {} must be on one of the {} stages, but names none", toString(arg.kind), stages)};
    if (cutBy(arg.sharding, special.stage))
      return Error{"it is sharded over the axis 'stage', which shards no tensor"};
    known.stage = arg.stage;
    known.ofMicrobatch = cutBy(arg.sharding, special.microbatch);
    if (!known.ofMicrobatch)
      return ok();
    if (arg.kind != ArgKind::Input || arg.updatedBy >= 0)
      return Error{"it is sharded over the axis 'microbatch': only an input that no result replaces may be"};
    AxisRef whole = wholeAxis(program.mesh, special.microbatch);
    for (const DimSharding &dim : arg.sharding.dims)
      for (size_t i = 0; i < dim.axes.size(); ++i)
        if (dim.axes[i].axis == special.microbatch && (dim.axes[i] != whole || i + 1 < dim.axes.size()))
          return Error{"the whole axis 'microbatch' must be the last of the axes that shard a dimension"};
    return ok();
  }

  Status checkTask(const ProgramTask &task) const {
    const ScheduleRecord *record = findSchedule(program.schedule->name, program.schedule->variant);
    const bool split = record && record->splitsBackward;
    int64_t chunks = isOncePerStep(task.phase) ? 1 : program.schedule->chunks;
    if (task.stage < 0 || task.stage >= stages)
      return Error{fmt::format("its task is on stage {}, but there are {}: 0 to {}", task.stage, stages, stages - 1)};
    if (task.chunk < 0 || task.chunk >= chunks)
      return Error{
          fmt::format("its task is of chunk {}, but {} has {} chunk(s)", task.chunk, toString(task.phase), chunks)};
    bool ofSplit = task.phase == Phase::InputGradient || task.phase == Phase::WeightGradient;
    if (task.phase == Phase::Backward ? split : ofSplit && !split)
      return Error{fmt::format("its task is a {}, but the schedule {} {}", toString(task.phase), program.schedule->name,
                               split ? "splits the backward: input_gradient and weight_gradient"
                                     : "does not split the backward")};
    return ok();
  }

  /// Returns the task's place among the parts of the model, in the order in which a microbatch's forward pass
  /// visits them.
  int64_t part(const ProgramTask &task) const { return task.chunk * stages + task.stage; }

  /// Returns true if in every schedule task `first` of a microbatch is done before task `then` of the same microbatch
  /// begins, or if both are the same task.
  bool precedes(const ProgramTask &first, const ProgramTask &then) const {
    if (first.phase == Phase::Forward)
      return then.phase != Phase::Forward || part(first) <= part(then);
    if (then.phase == Phase::Forward)
      return false;
    if (first.phase == Phase::WeightGradient) // no other task waits for a weight gradient
      return then.phase == Phase::WeightGradient && part(first) == part(then);
    return part(first) >= part(then);
  }

  Status checkUse(int value, const ProgramTask &task) {
    Known &known = values[size_t(value)];
    known.used = true;
    if (known.stage >= 0 && known.stage != task.stage)
      return Error{fmt::format("value {} is on stage {}, its task is on stage {}: {} it", value, known.stage,
                               task.stage, kTransfer)};
    if (known.fromUpdate && task.phase != Phase::Update)
      return Error{
          fmt::format("value {} exists only in the phase update, but the instruction that uses it has the phase {}",
                      value, toString(task.phase))};
    if (known.ofMicrobatch && isOncePerStep(task.phase))
      return Error{
          fmt::format("value {} belongs to one microbatch, but the phase {} runs once for the whole step: {} the value",
                      value, toString(task.phase), kAccumulate)};
    if (known.ofMicrobatch && known.task && !precedes(*known.task, task))
      return Error{fmt::format("value {} is computed in {}, which need not have run before {}", value,
                               text(*known.task), text(task))};
    return ok();
  }

  Status checkInstruction(const Instruction &instruction) {
    const ProgramTask &task = *instruction.task;
    if (Status status = checkTask(task); !status)
      return status;
    for (int operand : instruction.operands)
      if (Status status = checkUse(operand, task); !status)
        return status;
    Known known{task.stage, !isOncePerStep(task.phase), task.phase == Phase::Update, task};
    if (instruction.op == kTransfer || instruction.op == kAccumulate) {
      if (Status status =
              instruction.op == kTransfer ? checkTransfer(instruction, known) : checkAccumulate(instruction, known);
          !status)
        return status;
    }
    for (int result : instruction.results)
      values[size_t(result)] = known;
    return ok();
  }

  Result<int64_t> stageAttribute(const Instruction &instruction, const char *key) const {
    auto found = instruction.attrs.find(key);
    if (found == instruction.attrs.end() || !found->is_number_integer() || *found < 0 || *found >= stages)
      return Error{fmt::format("its attribute {} must be a stage, 0 to {}", key, stages - 1)};
    return found->get<int64_t>();
  }

  Status checkTransfer(const Instruction &transfer, Known &known) const {
    auto from = stageAttribute(transfer, "from"), to = stageAttribute(transfer, "to");
    if (!from || !to)
      return (from ? to : from).error();
    if (*from == *to || *from != known.stage)
      return Error{
          fmt::format("it goes from stage {} to stage {} in a task of stage {}: the two stages must differ, and "
                      "the task must be of the first",
                      *from, *to, known.stage)};
    const Value &before = entry.values[size_t(transfer.operands[0])],
                &after = entry.values[size_t(transfer.results[0])];
    if (before.dtype != after.dtype || before.shape != after.shape)
      return Error{"its operand and its result have different types"};
    known.stage = *to;
    return ok();
  }

  Status checkAccumulate(const Instruction &accumulate, Known &known) const {
    const Value &one = entry.values[size_t(accumulate.operands[0])], &sum = entry.values[size_t(accumulate.results[0])];
    if (!known.ofMicrobatch || !values[size_t(accumulate.operands[0])].ofMicrobatch)
      return Error{fmt::format("it sums value {} over the microbatches, but the value or the task is of the whole step",
                               accumulate.operands[0])};
    if (one.shape != sum.shape || (one.dtype != sum.dtype && !isWider(one.dtype, sum.dtype)))
      return Error{
          fmt::format("it sums {} into {}: the shape must stay, and the type must stay or be a wider floating type",
                      toString(one.dtype), toString(sum.dtype))};
    known.ofMicrobatch = false;
    known.fromUpdate = true;
    return ok();
  }

  Status checkResult(const EntryResult &result, int value) {
    if (Status status = checkStage(result.stage); !status)
      return status;
    for (int axis : {special.stage, special.microbatch})
      if (cutBy(result.sharding, axis))
        return Error{fmt::format("it is sharded over the axis '{}'", program.mesh.axes[size_t(axis)].name)};
    Known &known = values[size_t(value)];
    known.used = true;
    if (known.ofMicrobatch)
      return Error{fmt::format("its value belongs to one microbatch: {} the value", kAccumulate)};
    if (stages > 1 && known.stage >= 0 && known.stage != result.stage)
      return Error{result.stage < 0 ? fmt::format("it names no stage, but its value is on stage {}", known.stage)
                                    : fmt::format("it is on stage {}, but its value is on stage {}: {} the value",
                                                  result.stage, known.stage, kTransfer)};
    return ok();
  }

  Status checkUpdates() const {
    for (const Arg &arg : program.args) {
      int64_t stage = arg.updatedBy < 0 ? arg.stage : program.results[size_t(arg.updatedBy)].stage;
      if (stages > 1 && stage != arg.stage)
        return Error{fmt::format("program, argument '{}': it is on stage {}, but result {} that updates it is on stage "
                                 "{} (-1: on all)",
                                 arg.name, arg.stage, arg.updatedBy, stage)};
    }
    return ok();
  }

  const Program &program;
  const Function &entry;
  SpecialAxes special;
  int64_t stages;
  std::vector<Known> values; // of the entry function
};
} // namespace

Status checkSchedule(const Program &program) {
  SpecialAxes special(program.mesh);
  bool needed = special.stage >= 0 || special.microbatch >= 0;
  if (needed != program.schedule.has_value())
    return Error{needed ? "program: its mesh has stages or microbatches, but it has no schedule"
                        : "program: it has a schedule, but its mesh has neither an axis 'stage' nor 'microbatch'"};
  if (!needed)
    return ok();
  auto options = scheduleOptions(program.schedule->name, program.schedule->variant, stagesOf(program),
                                 microbatchesOf(program), program.schedule->chunks);
  if (!options)
    return Error{fmt::format("program: {}", options.error().message)};
  // Check the first variant: it fails wherever another variant would, and generating it takes no search.
  options->kind = findSchedule(program.schedule->name, "")->kind;
  options->inFlight = program.schedule->inFlight;
  auto schedule = makeSchedule(*options);
  if (!schedule)
    return Error{fmt::format("program: {}", schedule.error().message)};
  return ok();
}

Status checkPipeline(const Program &program, const Function &entry) { return PipelineCheck(program, entry).run(); }

} // namespace kerf::package
