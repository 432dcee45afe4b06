// SPDX-License-Identifier: Apache-2.0
#include "EmitProgram.h"
#include "Diagnostics.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Runtime/Executor.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/Work.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <fmt/format.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

constexpr const char *kScheduleAttr = "kerf.schedule";

void setSchedule(ModuleOp module, const package::ScheduleChoice &schedule) {
  Builder builder(module.getContext());
  module->setAttr(kScheduleAttr, builder.getDictionaryAttr(
                                     {builder.getNamedAttr("name", builder.getStringAttr(schedule.name)),
                                      builder.getNamedAttr("variant", builder.getStringAttr(schedule.variant)),
                                      builder.getNamedAttr("chunks", builder.getI64IntegerAttr(schedule.chunks))}));
}

namespace {

Result<std::optional<package::ScheduleChoice>> scheduleOf(ModuleOp module) {
  if (!module->hasAttr(kScheduleAttr))
    return std::optional<package::ScheduleChoice>();
  auto attr = module->getAttrOfType<DictionaryAttr>(kScheduleAttr);
  auto name = attr ? attr.getAs<StringAttr>("name") : nullptr,
       variant = attr ? attr.getAs<StringAttr>("variant") : nullptr;
  auto chunks = attr ? attr.getAs<IntegerAttr>("chunks") : nullptr;
  if (!name || !variant || !chunks)
    return Error{fmt::format("{} is not {{name = \"...\", variant = \"...\", chunks = N : i64}}", kScheduleAttr)};
  return std::optional(package::ScheduleChoice{name.str(), variant.str(), chunks.getInt()});
}

std::string axesText(const Mesh &mesh, ArrayRef<int64_t> flat) {
  std::string text;
  for (const AxisRef &axis : axesFromFlat(flat)) {
    text += (text.empty() ? "" : ", ") + mesh.axes[axis.axis].name;
    if (axis.size != mesh.axes[axis.axis].size)
      text += fmt::format(":({}){}", axis.before, axis.size);
  }
  return text;
}

/// Every collective of the device program, alike ones together, and the whole program's seconds.
void reportCollectives(ModuleOp module, const CollectiveModel &collectives, Report &report) {
  auto calls = callCounts(module);
  report.computeSeconds = report.collectiveSeconds = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t count = calls[function.getName().str()];
    for (Operation &op : function.getOps()) {
      if (isa<OffloadOp, PrefetchOp>(op))
        continue;
      double seconds = static_cast<double>(count) * deviceOpSeconds(&op, collectives);
      if (op.getNumResults() != 1 || !isa<PendingType>(op.getResult(0).getType())) {
        report.computeSeconds += seconds;
        continue;
      }
      report.collectiveSeconds += seconds;
      auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
      auto cause = op.getAttrOfType<StringAttr>("cause"), stream = op.getAttrOfType<StringAttr>("stream");
      Shape shape = shapeOf(op.getOperand(0));
      report.collectives.push_back({op.getName().stripDialect().str(), axesText(collectives.mesh(), axes.asArrayRef()),
                                    cause.str(), stream.str(), count,
                                    elementsOf(shape) * bytesPerElement(op.getOperand(0).getType()), seconds});
    }
  }
}

Report::Memory memoryOf(const runtime::MemoryReport &memory) {
  Report::Memory report;
  report.parameters = memory.parametersBytes;
  report.gradients = memory.gradientsBytes;
  report.states = memory.statesBytes;
  report.activations = memory.activationsBytes;
  report.inputs = memory.inputsBytes;
  report.total = memory.totalBytes();
  return report;
}

/// Of the stage that needs most.
Result<Report::Memory> plannedMemory(const package::Program &program) {
  runtime::MemoryReport fullest;
  for (int64_t stage = 0; stage < package::stagesOf(program); ++stage) {
    auto memory = runtime::planMemory(program, stage);
    if (!memory)
      return memory.error();
    if (memory->totalBytes() > fullest.totalBytes())
      fullest = *memory;
  }
  return memoryOf(fullest);
}

Result<package::Program> programOf(ModuleOp module) {
  auto schedule = scheduleOf(module);
  if (!schedule)
    return schedule.error();
  auto program = emitPackage(module);
  if (!program)
    return program.error();
  program->schedule = *schedule;
  if (Status status = package::checkProgram(*program); !status)
    return Error{fmt::format("the device program is wrong: {}", status.error().message), ExitStatus::InternalCheck};
  return program;
}

} // namespace

std::map<std::string, int64_t> callCounts(ModuleOp module) {
  std::map<std::string, int64_t> calls{{KerfDialect::kEntryName.str(), 1}};
  module.walk([&](CallOp call) { ++calls[call.getCallee().str()]; });
  return calls;
}

Status emitProgram(ModuleOp module, const CollectiveModel &collectives, Compiled &compiled) {
  Report &report = compiled.report;
  auto program = programOf(module);
  if (!program)
    return program.error();
  compiled.program = std::move(*program);
  auto memory = plannedMemory(compiled.program);
  if (!memory)
    return memory.error();
  reportCollectives(module, collectives, report); // binding has checked their axes
  report.memory = *memory;
  for (const package::Arg &arg : compiled.program.args)
    if (arg.trainable)
      report.trained.push_back({arg.name, arg.exportedShape});
  return ok();
}

Status addNativeCode(Compiled &compiled, const std::vector<std::string> &isas) {
  OwningOpRef<ModuleOp> fused;
  package::Program program = compiled.program;
  if (compiled.device) {
    fused = cast<ModuleOp>(compiled.device.get()->clone());
    Collected collected(fused->getContext());
    PassManager passes(fused->getContext());
    passes.addPass(createFusePointwise());
    if (Status status = collected.run(passes, *fused); !status)
      return status;
    auto emitted = programOf(*fused);
    if (!emitted)
      return emitted.error();
    program = std::move(*emitted);
    program.info = compiled.program.info;
  }
  auto native = codegen::compileKernels(program, isas);
  if (!native)
    return native.error();
  program.native = std::move(*native);
  auto memory = plannedMemory(program);
  if (!memory)
    return memory.error();
  if (memory->total > compiled.report.memory.total && memory->total > compiled.report.memoryLimitBytes)
    return ok(); // it would not fit
  compiled.report.memory = *memory;
  compiled.program = std::move(program);
  compiled.device = std::move(fused);
  return ok();
}

} // namespace kerf
