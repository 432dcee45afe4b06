// SPDX-License-Identifier: Apache-2.0
#include "EmitProgram.h"
#include "Diagnostics.h"
#include "ProgramPrice.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Compiler/Hardware.h"
#include "kerf/Package/Native.h"
#include "kerf/Runtime/Device.h"
#include "kerf/Runtime/Executor.h"
#include "kerf/Steps/Steps.h"
#include "kerf/Transforms/DeviceAxes.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Pipelines.h"
#include "kerf/Transforms/Work.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace mlir;
using namespace kerf::ir;

namespace kerf {

constexpr const char *kScheduleAttr = "kerf.schedule";

void setSchedule(ModuleOp module, const package::ScheduleChoice &schedule) {
  Builder builder(module.getContext());
  llvm::SmallVector<NamedAttribute> words = {
      builder.getNamedAttr("name", builder.getStringAttr(schedule.name)),
      builder.getNamedAttr("variant", builder.getStringAttr(schedule.variant)),
      builder.getNamedAttr("chunks", builder.getI64IntegerAttr(schedule.chunks))};
  if (!schedule.inFlight.empty())
    words.push_back(builder.getNamedAttr("in_flight", builder.getDenseI64ArrayAttr(schedule.inFlight)));
  module->setAttr(kScheduleAttr, builder.getDictionaryAttr(words));
}

namespace {

Result<std::optional<package::ScheduleChoice>> scheduleOf(ModuleOp module) {
  if (!module->hasAttr(kScheduleAttr))
    return std::optional<package::ScheduleChoice>();
  auto attr = module->getAttrOfType<DictionaryAttr>(kScheduleAttr);
  auto name = attr ? attr.getAs<StringAttr>("name") : nullptr,
       variant = attr ? attr.getAs<StringAttr>("variant") : nullptr;
  auto chunks = attr ? attr.getAs<IntegerAttr>("chunks") : nullptr;
  auto given = attr ? attr.get("in_flight") : nullptr;
  auto inFlight = dyn_cast_or_null<DenseI64ArrayAttr>(given);
  if (!name || !variant || !chunks || (given && !inFlight))
    return Error{fmt::format("{} must have the form {{name = \"...\", variant = \"...\", chunks = N : i64}}, and may "
                             "have in_flight = array<i64: N, ...>",
                             kScheduleAttr)};
  package::ScheduleChoice schedule{name.str(), variant.str(), chunks.getInt()};
  if (inFlight)
    schedule.inFlight = inFlight.asArrayRef().vec();
  return std::optional(std::move(schedule));
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

/// Adds every collective of the device program to the report.
void reportCollectives(ModuleOp module, const CollectiveModel &collectives, Report &report) {
  auto calls = callCounts(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    int64_t count = calls[function.getName().str()];
    for (Operation &op : function.getOps()) {
      if (op.hasTrait<TransfersHostMemory>())
        continue;
      if (op.getNumResults() != 1 || !isa<PendingType>(op.getResult(0).getType()))
        continue;
      double seconds = static_cast<double>(count) * deviceOpSeconds(&op, collectives);
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

/// Converts the runtime's memory plan to the form of a simulation. Gaps between buffers count as workspace.
StageMemory stageMemory(const runtime::MemoryReport &memory, int64_t limitBytes) {
  StageMemory stage;
  stage.weights = static_cast<double>(memory.parametersBytes);
  stage.gradients = static_cast<double>(memory.gradientsBytes);
  stage.states = static_cast<double>(memory.statesBytes);
  stage.activations = static_cast<double>(memory.activationsBytes + memory.inputsBytes);
  stage.peakBytes = stage.reservedBytes = stage.deviceBytes = static_cast<double>(memory.totalBytes());
  stage.workspace = std::max(0.0, stage.peakBytes - stage.weights - stage.gradients - stage.states - stage.activations);
  stage.limitBytes = static_cast<double>(limitBytes);
  stage.moment = "the fullest moment of the program";
  return stage;
}

/// The memory of all stages, and of the fullest stage in the form of a report.
struct PlannedMemory {
  std::vector<StageMemory> stages;
  Report::Memory fullest;
};

Result<PlannedMemory> plannedMemory(const package::Program &program, const DeviceSpec &device) {
  PlannedMemory planned;
  const runtime::PlannedHardware hardware = hardwareOf(device);
  for (int64_t stage = 0; stage < package::stagesOf(program); ++stage) {
    auto memory = runtime::planMemory(program, stage, hardware);
    if (!memory)
      return memory.error();
    planned.stages.push_back(stageMemory(*memory, device.memoryBytes));
    if (memory->totalBytes() > planned.fullest.total)
      planned.fullest = memoryOf(*memory);
  }
  return planned;
}

struct ProgramWithFigures {
  package::Program program;
  std::vector<steps::StepPassCounts> figures; // one for each pipeline stage
};

Result<ProgramWithFigures> programOf(ModuleOp module) {
  auto schedule = scheduleOf(module);
  if (!schedule)
    return schedule.error();
  auto program = emitPackage(module);
  if (!program)
    return program.error();
  program->schedule = *schedule;
  if (Status status = package::checkProgram(*program); !status)
    return Error{fmt::format("the device program is malformed: {}", status.error().message), ExitStatus::InternalCheck};
  auto figures = steps::makeSteps(*program);
  if (!figures)
    return Error{figures.error().message, ExitStatus::InternalCheck};
  return ProgramWithFigures{std::move(*program), std::move(*figures)};
}

/// Returns the program with the list of its kernels, so that the memory plan is that of a program with machine code.
package::Program withKernels(package::Program program) {
  auto native = std::make_shared<package::NativeCode>();
  for (const package::Function &function : program.functions)
    if (function.kernel)
      native->kernels.push_back(function.name);
  if (!native->kernels.empty())
    program.native = std::move(native);
  return program;
}

/// A program with its memory plan and its predicted step time.
struct Priced {
  package::Program program;
  PlannedMemory memory;
  ProgramPrice price;
};

Result<Priced> pricedProgram(ModuleOp module, package::Program program, const CollectiveModel &collectives) {
  auto memory = plannedMemory(program, collectives.cluster().device);
  if (!memory)
    return memory.error();
  auto planned = runtime::createPlanningDevice(hardwareOf(collectives.cluster().device));
  if (!planned)
    return planned.error();
  auto price = priceProgram(module, program, collectives, (*planned)->joinsProducts());
  if (!price)
    return price.error();
  return Priced{std::move(program), std::move(*memory), std::move(*price)};
}

Simulation figuresOf(const Priced &priced) {
  Simulation figures;
  figures.stepSeconds = priced.price.stepSeconds;
  figures.breakdown = priced.price.breakdown;
  figures.trace = priced.price.trace;
  figures.memory = priced.memory.stages;
  figures.fits = std::all_of(figures.memory.begin(), figures.memory.end(),
                             [](const StageMemory &stage) { return stage.deviceBytes <= stage.limitBytes; });
  return figures;
}

void setFigures(const Priced &priced, CompileResult &compiled) {
  compiled.figures = figuresOf(priced);
  compiled.report.memory = priced.memory.fullest;
  compiled.report.computeSeconds = priced.price.computeSeconds;
  compiled.report.collectiveSeconds = priced.price.collectiveSeconds;
}

std::vector<Report::StageSteps> stepsReport(const std::vector<steps::StepPassCounts> &figures) {
  std::vector<Report::StageSteps> report;
  for (const steps::StepPassCounts &its : figures) {
    Report::StageSteps &stage = report.emplace_back();
    stage.stage = int64_t(report.size()) - 1;
    for (size_t p = 0; p < its.changed.size(); ++p)
      stage.passes.push_back(
          {std::string(its.changed[p].first), std::string(steps::stepPasses()[p].description), its.changed[p].second});
    for (const steps::Bucket &bucket : its.buckets)
      stage.buckets.push_back({bucket.op, bucket.stream, bucket.collectives, bucket.bytes});
  }
  return report;
}

/// Runs the packaging passes on a copy of the module.
Result<OwningOpRef<ModuleOp>> packagedModule(ModuleOp module, const PackagingPipeline &options) {
  OwningOpRef<ModuleOp> packaged = cast<ModuleOp>(module->clone());
  DiagnosticCollector collected(packaged->getContext());
  PassManager passes(packaged->getContext());
  addPackagingPasses(passes, options);
  if (Status status = collected.run(passes, *packaged); !status)
    return status.error();
  return packaged;
}

} // namespace

std::map<std::string, int64_t> callCounts(ModuleOp module) {
  std::map<std::string, int64_t> calls{{KerfDialect::kEntryName.str(), 1}};
  module.walk([&](CallOp call) { ++calls[call.getCallee().str()]; });
  return calls;
}

Status emitProgram(ModuleOp module, const CollectiveModel &collectives, KernelSource kernels, CompileResult &compiled) {
  Report &report = compiled.report;
  const bool isFused = kernels == KernelSource::Fused;
  PackagingPipeline options;
  options.forGpu = compiled.forGpu = isFused && hardwareOf(collectives.cluster().device).device.starts_with("cuda");
  auto unfused = packagedModule(module, options);
  if (!unfused)
    return unfused.error();
  auto made = programOf(**unfused);
  if (!made)
    return made.error();
  auto plain = pricedProgram(**unfused, std::move(made->program), collectives);
  if (!plain)
    return plain.error();
  reportCollectives(module, collectives, report); // the packaging passes have checked the axes
  for (const package::Arg &arg : plain->program.args)
    if (arg.trainable)
      report.trained.push_back({arg.name, arg.exportedShape});
  setFigures(*plain, compiled);
  report.steps = stepsReport(made->figures);
  compiled.figuresWithoutCode = compiled.figures;
  compiled.memoryWithoutCode = report.memory;
  options.fuse = isFused;
  OpPassManager packaging(ModuleOp::getOperationName());
  addPackagingPasses(packaging, options);
  compiled.pipelines.emplace_back("packaging", pipelineText(packaging));
  compiled.pipelines.emplace_back("steps", steps::stepPassesText({}));
  OwningOpRef<ModuleOp> fused;
  package::Program program = plain->program;
  if (isFused) {
    auto packaged = packagedModule(module, options);
    if (!packaged)
      return packaged.error();
    fused = std::move(*packaged);
    made = programOf(*fused);
    if (!made)
      return made.error();
    program = std::move(made->program);
  }
  auto native = pricedProgram(fused ? *fused : **unfused, withKernels(std::move(program)), collectives);
  if (!native)
    return native.error();
  // Machine code is used only if it needs no more memory than single operators; 1 % tolerates differences in padding.
  constexpr double kPaddings = 1.01;
  compiled.usesCode =
      static_cast<double>(native->memory.fullest.total) <= kPaddings * static_cast<double>(plain->memory.fullest.total);
  if (compiled.usesCode) {
    setFigures(*native, compiled);
    report.steps = stepsReport(made->figures);
  }
  compiled.program = std::move(plain->program);
  return ok();
}

Status addNativeCode(CompileResult &compiled, const std::vector<std::string> &isas) {
  if (!compiled.usesCode)
    return ok();
  OwningOpRef<ModuleOp> fused;
  package::Program program = compiled.program;
  if (compiled.device) {
    auto made = packagedModule(*compiled.device, {.forGpu = compiled.forGpu, .fuse = true});
    if (!made)
      return made.error();
    fused = std::move(*made);
    auto emitted = programOf(*fused);
    if (!emitted)
      return emitted.error();
    program = std::move(emitted->program);
    program.info = compiled.program.info;
  }
  auto native = codegen::compileKernels(program, isas);
  if (!native)
    return native.error();
  program.native = std::move(*native);
  compiled.program = std::move(program);
  compiled.device = std::move(fused);
  return ok();
}

Status leaveOutNativeCode(CompileResult &compiled) {
  compiled.usesCode = false;
  if (compiled.report.stepSeconds == compiled.figures.stepSeconds)
    compiled.report.stepSeconds = compiled.figuresWithoutCode.stepSeconds;
  compiled.figures = compiled.figuresWithoutCode;
  compiled.report.memory = compiled.memoryWithoutCode;
  auto figures = steps::makeSteps(compiled.program);
  if (!figures)
    return figures.error();
  compiled.report.steps = stepsReport(*figures);
  return ok();
}

} // namespace kerf
