// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/CompileJob.h"
#include "PlanLowering.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Compiler/TextLayouts.h"
#include "kerf/CostModel/Dtypes.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"

#include "kerf/Transforms/OpKeys.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fmt/format.h>

namespace kerf {

Result<PlanRequest> requestOf(const ResolvedUse &use) {
  auto request = makePlanRequest(use.model, use.settings, use.cluster, {}, "");
  if (request)
    request->standIn = !use.knownMachines;
  return request;
}

namespace {

/// A job that was compiled without machine code.
struct PlannedStep {
  std::unique_ptr<mlir::MLIRContext> context;
  ResolvedUse use;
  TrainingStep step;
  PlanResult planned;
};

Result<PlannedStep> planStepOf(const PlanUse &use) {
  auto resolved = resolveUse(use);
  if (!resolved)
    return resolved.error();
  auto request = requestOf(*resolved);
  if (!request)
    return request.error();
  if (Status status = checkDtype(request->cluster, request->dtype); !status)
    return status.error();
  StepOptions options = request->step;
  if (Status status = setPlanDependentOptions(options, use.plan, use.planFile); !status)
    return status.error();
  auto context = createContext();
  auto step = importTrainingStep(*context, resolved->model, options);
  if (!step)
    return step.error();
  const bool executable = use.plan.complete() || isExecutionPlan(use.plan, batchOf(*step->module));
  if (!executable) {
    request->options.constraints = use.plan;
    request->options.constraintsFile = use.planFile;
  }
  auto planned = executable ? compilePlan(*step, use.plan, use.planFile, *request) : planTraining(*step, *request);
  if (!planned)
    return planned.error();
  return PlannedStep{std::move(context), std::move(*resolved), std::move(*step), std::move(*planned)};
}

} // namespace

Result<CompiledJob> compileJob(const PlanUse &use, const std::string &folder, bool native) {
  auto job = planStepOf(use);
  if (!job)
    return job.error();
  CompileResult &compiled = job->planned.compiled;
  std::vector<std::string> isas(std::begin(codegen::kInstructionSets), std::end(codegen::kInstructionSets));
  isas.push_back(codegen::kGpuArchitecture);
  if (Status status = native ? addNativeCode(compiled, isas) : leaveOutNativeCode(compiled); !status)
    return status.error();
  describeProgram(compiled.program, job->use.model.name, job->step, job->planned.plan);
  compiled.program.info["report"] = toJson(compiled.report);
  if (Status status = writePackage(compiled, job->step.weights, folder); !status)
    return status.error();
  std::vector<std::string> warnings = compiled.report.warnings;
  warnings.insert(warnings.end(), job->planned.warnings.begin(), job->planned.warnings.end());
  return CompiledJob{std::move(job->planned.plan), std::move(compiled.report), job->planned.notes, std::move(warnings)};
}

std::vector<std::vector<int64_t>> foldsOf(const Shape &shape, const Shape &sizes) {
  std::vector<std::vector<int64_t>> folds(shape.size());
  int64_t inShape = 1, inSizes = 1; // elements of the dimensions and of the sizes that were passed
  for (size_t dim = 0, size = 0; dim < shape.size(); ++dim) {
    inShape *= shape[dim];
    while (size < sizes.size() && inSizes * sizes[size] <= inShape) {
      folds[dim].push_back(static_cast<int64_t>(size));
      inSizes *= sizes[size++];
    }
    if (inSizes < inShape && size < sizes.size()) // the next size covers a part of this dimension, and of further ones
      folds[dim].push_back(static_cast<int64_t>(size));
  }
  return folds;
}

static std::vector<ArgumentLayout> layoutsOf(const package::Program &program) {
  std::vector<ArgumentLayout> layouts;
  for (const package::Arg &arg : program.args) {
    ParameterLayout layout{arg.name, arg.exportedShape, arg.shape, foldsOf(arg.exportedShape, arg.shape),
                           {},       arg.trainable,     arg.stage};
    layout.axes.resize(arg.shape.size());
    for (size_t dim = 0; dim < arg.sharding.dims.size(); ++dim)
      for (const AxisRef &ref : arg.sharding.dims[dim].axes)
        layout.axes[dim].push_back(axisText(program.mesh, ref));
    layouts.push_back({std::string(toString(arg.kind)), std::move(layout)});
  }
  return layouts;
}

Result<std::vector<ParameterLayout>> parameterLayouts(const PlanUse &use) {
  auto job = planStepOf(use);
  if (!job)
    return job.error();
  std::vector<ParameterLayout> layouts;
  for (ArgumentLayout &argument : layoutsOf(job->planned.compiled.program))
    if (argument.kind == toString(package::ArgKind::Parameter) || argument.kind == toString(package::ArgKind::Buffer))
      layouts.push_back(std::move(argument.layout));
  return layouts;
}

Result<TextLayouts> textLayouts(const PlanUse &use) {
  auto job = planStepOf(use);
  if (!job)
    return job.error();
  const package::Program &program = job->planned.compiled.program;
  for (const MeshAxis &axis : program.mesh.axes)
    for (auto [name, way] :
         {std::pair(ir::KerfDialect::kStageAxis, "\"mesh\": {\"stage\": 1}"),
          std::pair(ir::KerfDialect::kMicrobatchAxis, "a \"microbatch\" of all samples of a model replica")})
      if (axis.size > 1 && axis.name == name)
        return Error{fmt::format("{} has {} {}, but shardings say only how one step is cut over ranks; plan with {}",
                                 use.planFile, axis.size,
                                 name == ir::KerfDialect::kStageAxis ? "stages" : "microbatches", way)};
  auto placed = placeStep(job->step, job->planned.plan, use.planFile, job->use.cluster);
  if (!placed)
    return placed.error();
  std::vector<PlacedOp> ops = placedOps(*placed->module, placed->mesh);
  if (ops.empty())
    return Error{fmt::format("'{}' has no positions of a StableHLO text; give StableHLO text (docs/stablehlo.md)",
                             job->use.model.name)};
  TextLayouts layouts{program.mesh, layoutsOf(program), {}, {}, std::move(ops)};
  auto main = mlir::SymbolTable(*job->step.module).lookup<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  for (mlir::BlockArgument argument : main.getArguments())
    layouts.names.push_back(argumentKey(argument));
  for (const package::Arg &arg : program.args)
    layouts.shardings.push_back(arg.sharding);
  return layouts;
}

} // namespace kerf
