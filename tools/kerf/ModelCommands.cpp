// SPDX-License-Identifier: Apache-2.0
// kerf import, plan, compile: from a model to a package.
#include "Checks.h"
#include "Options.h"
#include "ReportFile.h"
#include "StartMessages.h"
#include "WholePlan.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Compiler/PlanJob.h"

#include "kerf/CostModel/Dtypes.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Report/StepText.h"
#include "kerf/Search/ProblemFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include <fmt/core.h>

namespace kerf::tool {

namespace {

bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

} // namespace

Result<ImportedStep> importStep(const ModelFlags &model, const PrecisionFlags &precision, bool gradientNorms,
                                const std::string &planFile, bool hybrid) {
  StepOptions options = model.toStepOptions();
  if (!planFile.empty() && !hybrid) {
    auto plan = readPlan(planFile);
    if (!plan)
      return plan.error();
    if (Status status = setPlanDependentOptions(options, *plan, planFile); !status)
      return status.error();
  }
  auto mixed = precision.toOptions(model.dtype);
  if (!mixed)
    return mixed.error();
  options.precision = *mixed;
  options.optimizer.gradientNorms = gradientNorms;
  auto context = createContext();
  if (hybrid && !endsWith(model.model, ".mlir"))
    return Error{
        fmt::format("--mode hybrid needs a device program such as device.mlir, but MODEL is '{}'; `kerf compile "
                    "--device-ir` writes a device program",
                    model.model)};
  if (std::string option = precision.firstGivenOption(); hybrid && !option.empty())
    return Error{
        fmt::format("--mode hybrid runs a program as it is written, so {} has no effect; leave it out", option)};
  if (hybrid && gradientNorms)
    return Error{
        "--mode hybrid runs a program as it is written and cannot add gradient norms; leave --gradient-norms out"};
  auto step = hybrid ? importDevice(*context, model.model, options.import.weights)
                     : importTrainingStep(*context, model.model, options);
  if (!step)
    return step.error();
  for (std::string &warning : step->warnings) // reports keep them
    warning = settingsAsOptions(warning);
  return ImportedStep{std::move(context), std::move(*step)};
}

/// Compiles a device program written by hand. The returned plan has only the mesh of the program.
static Result<PlanResult> compileByHand(const TrainingStep &device, const std::string &model,
                                        const std::string &planFile, const PlanFlags &flags) {
  if (!planFile.empty() || !flags.constraints.empty())
    return Error{fmt::format("--mode hybrid searches no plan, so {} has no effect; leave it out",
                             planFile.empty() ? "--constraints " + flags.constraints : "--plan " + planFile)};
  PlanFlags where = flags;
  Plan plan;
  for (const MeshAxis &axis : ir::meshOf(*device.module).axes) {
    plan.meshSizes[axis.name] = axis.size;
    plan.order.push_back(axis.name);
  }
  if (!where.ranks && where.cluster.empty()) {
    plan.meshSizes.erase(ir::KerfDialect::kMicrobatchAxis.str());
    std::erase(plan.order, ir::KerfDialect::kMicrobatchAxis.str());
    where.ranks = plan.mesh().ranks();
  }
  auto cluster = where.toCluster();
  if (!cluster)
    return cluster.error();
  auto compiled = compileDevice(device, model, *cluster);
  if (!compiled)
    return compiled.error();
  compiled->report.model = model;
  return PlanResult{std::move(plan), std::move(*compiled)};
}

/// Searches for a plan. Adds to the message of an infeasible job the options that make the job feasible.
static Result<PlanResult> search(const TrainingStep &step, const PlanRequest &request, const PlanFlags &flags) {
  auto planned = planTraining(step, request);
  if (planned || request.search == SearchKind::Placement || isWholeTrainStep(step))
    return planned;
  auto whole = flags.cluster.empty() ? Result<Cluster>(request.cluster) : readCluster(flags.cluster);
  return whole ? withRemedies(planned.error(), request, *whole) : planned.error();
}

static Result<PlanResult> planOrLoad(const TrainingStep &step, const ModelFlags &model, const PrecisionFlags &precision,
                                     const std::string &planFile, const PlanFlags &flags) {
  if (flags.mode == "hybrid")
    return compileByHand(step, model.model, planFile, flags);
  std::optional<Plan> loaded;
  if (!planFile.empty()) {
    auto plan = readPlan(planFile);
    if (!plan)
      return plan.error();
    if (!flags.constraints.empty())
      return Error{fmt::format(
          "--plan {} and --constraints {} are both given; leave one of them out (a plan with gaps serves as "
          "constraints)",
          planFile, flags.constraints)};
    loaded = std::move(*plan);
  }
  PlanFlags where = flags;
  if (loaded && !where.ranks && where.cluster.empty() && !(where.job && where.job->cluster))
    where.ranks = loaded->mesh().ranks();
  auto cluster = where.toCluster();
  if (!cluster)
    return cluster.error();
  auto request = makePlanRequest(model, precision, flags, *cluster);
  if (!request)
    return request.error();
  const bool isExecutable = loaded && (loaded->complete() || isExecutionPlan(*loaded, batchOf(*step.module)));
  if (loaded && !isExecutable) {
    request->options.constraints = std::move(*loaded);
    request->options.constraintsFile = planFile;
  }
  auto planned = isExecutable ? compilePlan(step, *loaded, planFile, *request) : search(step, *request, flags);
  if (!planned)
    return planned;
  printWarnings(planned->warnings);
  for (const std::string &note : planned->notes)
    fmt::print(stderr, "note: {}\n", settingsAsOptions(note));
  return planned;
}

/// Returns the constraints of the search: those of --constraints, or else of the job, or else a partial --plan.
static Result<Plan> constraintsOf(const std::string &planFile, const PlanFlags &flags) {
  if (!flags.constraints.empty())
    return readPlan(flags.constraints);
  if (flags.job && flags.job->constraints)
    return *flags.job->constraints;
  if (planFile.empty())
    return Plan();
  auto plan = readPlan(planFile);
  return !plan || !plan->complete() ? plan : Plan();
}

Result<PlanResult> planAndCompile(const CLI::App &command, const TrainingStep &step, const ModelFlags &model,
                                  const PrecisionFlags &precision, const std::string &planFile,
                                  const PlanFlags &flags) {
  if (auto cluster = flags.toCluster(); cluster) // planning reports the error of a missing cluster below
    if (const CLI::Option *dtype = command.get_option_no_throw("--dtype"); dtype && flags.mode != "hybrid")
      if (Status status = checkDtype(*cluster, dtype->as<std::string>()); !status)
        return status.error();
  auto planned = planOrLoad(step, model, precision, planFile, flags);
  if (!planned || flags.mode == "hybrid")
    return planned;
  if (flags.printPipeline)
    for (const auto &[name, passes] : planned->compiled.pipelines)
      printToStderr(fmt::format("{:<10} {}\n", name, passes));
  auto constraints = constraintsOf(planFile, flags);
  if (!constraints)
    return constraints.error();
  int64_t ranks = planned->compiled.report.ranks;
  auto all = flags.cluster.empty() && flags.job && flags.job->cluster ? Result<Cluster>(*flags.job->cluster)
             : flags.cluster.empty()                                  ? thisMachine(ranks)
                                                                      : readCluster(flags.cluster);
  if (!all)
    return all.error();
  auto job = describeJob(command, *all, ranks, *constraints);
  if (!job)
    return job.error();
  planned->plan.keptKeys["job"] = std::move(*job);
  return planned;
}

namespace {

struct ImportCommand {
  ModelFlags model;
  std::string output;
  bool json = false;

  int run() {
    auto context = createContext();
    auto imported = importModel(*context, model.model, model.toStepOptions().import);
    if (!imported)
      return fail(imported.error());
    for (std::string &warning : imported->warnings)
      warning = settingsAsOptions(warning);
    printWarnings(imported->warnings);
    if (!output.empty()) {
      if (Status status = writeModel(*imported, model.model, output); !status)
        return fail(status.error());
      return 0;
    }
    if (!json) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      imported->module->print(stream);
      fmt::print("{}\n", text);
      return 0;
    }
    nlohmann::ordered_json summary;
    auto main = mlir::SymbolTable(*imported->module).lookup<mlir::func::FuncOp>("main");
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto name = main.getArgAttrOfType<mlir::StringAttr>(i, "kerf.name"),
           kind = main.getArgAttrOfType<mlir::StringAttr>(i, "kerf.kind");
      auto type = mlir::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i]);
      summary["arguments"].push_back({{"name", name ? name.str() : ""},
                                      {"kind", kind ? kind.str() : ""},
                                      {"shape", Shape(type.getShape())},
                                      {"trainable", static_cast<bool>(main.getArgAttr(i, "kerf.trainable"))}});
    }
    std::map<std::string, int64_t> ops;
    main.walk([&](mlir::Operation *op) { ++ops[op->getName().getStringRef().str()]; });
    summary["ops"] = ops;
    summary["warnings"] = imported->warnings;
    summary["folded"] = nlohmann::ordered_json::array();
    if (auto folded = (*imported->module)->getAttrOfType<mlir::ArrayAttr>(kFoldedAttr))
      for (mlir::Attribute name : folded)
        if (auto text = mlir::dyn_cast<mlir::StringAttr>(name))
          summary["folded"].push_back(text.str());
    fmt::print("{}\n", summary.dump(2));
    return 0;
  }
};

struct PlanCommand {
  ModelFlags model;
  PrecisionFlags precision;
  PlanFlags plan;
  RunFlags storedSettings; // settings that the plan stores for later runs
  std::string output, report, dumpProblem;
  bool json = false, pareto = false;
  std::optional<double> risk;
  const CLI::App *app = nullptr;

  int run() {
    if (plan.mode == "hybrid")
      return fail({"--mode hybrid searches no plan; give the device program to `kerf compile` or `kerf train`"});
    auto cluster = plan.toCluster();
    if (!cluster)
      return fail(cluster.error());
    auto request = makePlanRequest(model, precision, plan, *cluster);
    if (!request)
      return fail(request.error());
    auto kind = decideSearch(*request, pareto);
    if (!kind)
      return fail(kind.error());
    if (*kind == SearchKind::Whole) {
      if (!dumpProblem.empty())
        return fail({"--dump-problem writes the placement problem of one mesh, which only --search placement has; add "
                     "--search placement"});
      if (std::string option = precision.firstGivenOption(); !option.empty() && !pricedAsLowered(*cluster))
        return fail({fmt::format(
            "{} applies to --search placement only; a whole plan has the key gradient_dtype instead", option)});
      return searchWholePlan(*app, *request, plan, {output, report, json, pareto, risk});
    }
    if (pareto || !plan.from.empty() || risk)
      return fail({fmt::format("{} applies to --search whole only; add --search whole", pareto ? "--pareto"
                                                                                        : risk ? "--risk"
                                                                                               : "--from")});
    auto imported = importStep(model, precision, /*gradientNorms=*/false, plan.constraints);
    if (!imported)
      return fail(imported.error());
    printWarnings(imported->step.warnings);
    auto planned = planAndCompile(*app, imported->step, model, precision, "", plan);
    if (!planned)
      return fail(planned.error());
    std::string text = toJson(planned->plan);
    if (!output.empty())
      if (Status status = writeFile(output, text); !status)
        return fail(status.error());
    if (!report.empty()) {
      auto cluster = plan.toCluster();
      if (Status status = writeReport(planned->compiled.report, report, cluster ? &*cluster : nullptr); !status)
        return fail(status.error());
    }
    if (!dumpProblem.empty())
      if (Status status = writeProblem(planned->problem, dumpProblem); !status)
        return fail(status.error());
    fmt::print("{}", json ? text : toText(planned->compiled.report));
    return 0;
  }
};

/// Writes the device program as IR to `path`. The IR refers to the weights in the model's file; a file beside the IR
/// gets the weights that the model's file lacks.
Status writeDevice(const CompileResult &compiled, const TrainingStep &step, const std::string &model,
                   const std::string &path) {
  if (!compiled.device)
    return Error{
        "--device-ir cannot be combined with --mode hybrid, whose MODEL is already the device program; leave it out"};
  ImportedModel device;
  device.module = compiled.device.get().clone();
  device.weights = step.weights;
  return writeModel(device, model, path);
}

struct CompileCommand {
  ModelFlags model;
  PrecisionFlags precision;
  PlanFlags where;
  std::string planFile, output, deviceIr;
  bool json = false, gradientNorms = false, noNative = false;
  PlanInput planInput;
  RunFlags storedSettings; // settings that the package stores for later runs
  const CLI::App *app = nullptr;

  int run() {
    where.job = planInput.job;
    auto imported = importStep(model, precision, gradientNorms, planFile.empty() ? where.constraints : planFile,
                               where.mode == "hybrid");
    if (!imported)
      return fail(imported.error());
    printWarnings(imported->step.warnings);
    auto planned = planAndCompile(*app, imported->step, model, precision, planFile, where);
    if (!planned)
      return fail(planned.error());
    const std::vector<std::string> &warnings = planned->compiled.report.warnings; // the first ones are the import's
    printWarnings({warnings.begin() + static_cast<ptrdiff_t>(imported->step.warnings.size()), warnings.end()});
    std::vector<std::string> isas(std::begin(codegen::kInstructionSets), std::end(codegen::kInstructionSets));
    isas.push_back(codegen::kGpuArchitecture);
    if (Status status = noNative ? leaveOutNativeCode(planned->compiled) : addNativeCode(planned->compiled, isas);
        !status)
      return fail(status.error());
    package::Program &program = planned->compiled.program;
    describeProgram(program, model.model, imported->step, planned->plan);
    program.info["report"] = toJson(planned->compiled.report);
    if (Status status = writePackage(planned->compiled, imported->step.weights, output); !status)
      return fail(status.error());
    if (!deviceIr.empty())
      if (Status status = writeDevice(planned->compiled, imported->step, model.model, deviceIr); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", toJson(planned->compiled.report).dump(2));
    else
      fmt::print(
          "{}: {} functions, {} instructions, for {} ranks\n", output, program.functions.size(),
          [&] {
            size_t n = 0;
            for (const auto &f : program.functions)
              n += f.body.size();
            return n;
          }(),
          package::ranksOf(program));
    return 0;
  }
};

} // namespace

void addImportCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<ImportCommand>(app, "import",
                                                  "Read a model and print it as kerf IR, the MLIR dialect of Kerf.\n"
                                                  "Example: kerf import model.onnx -o model.mlir",
                                                  status);
  command->model.addTo(*sub);
  sub->add_option("-o,--output", command->output, "file for the IR (default: standard output)");
  sub->add_flag("--json", command->json,
                "print the model's arguments, operator counts and warnings as JSON instead of the IR");
}

void addPlanCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<PlanCommand>(
      app, "plan",
      "Find the fastest plan that fits into the memory of the devices: how the training of a model is divided among "
      "them.\n"
      "Example: kerf plan model.onnx --cluster clusters/dgx-a100.json --ranks 8 -o plan.json",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"});
  command->precision.addTo(*sub);
  command->plan.addTo(*sub);
  addCompression(*sub, command->plan);
  addTrainer(*sub, command->plan.trainer);
  command->storedSettings.addStoredSettingsTo(*sub);
  command->app = sub;
  sub->add_option("-o,--output", command->output, "file for the plan: plan.json")->check(writableFile());
  sub->add_option("--from", command->plan.from,
                  "with --search whole: plan.json with which the search starts (warm start); the output lists the "
                  "differences of the "
                  "new plan from this one");
  sub->add_flag("--pareto", command->pareto,
                "with --search whole: also search the best plans for fewer ranks and for less memory (the Pareto "
                "front); with --json "
                "print only these plans");
  sub->add_option("--risk", command->risk,
                  "with --search whole: prefer the safer plan: compare plans by the step time that each exceeds with "
                  "this probability, and leave out plans that run out of memory with a higher one; 0.001 to 0.5 "
                  "(default: compare the predicted times)")
      ->check(finiteNumber(0.001, 0.5));
  sub->add_option("--report", command->report, kReportHelp)->check(writableFile());
  sub->add_option("--dump-problem", command->dumpProblem,
                  "with --search placement: file for the optimization problem of the plan's mesh, in the format that "
                  "kerf solve reads: "
                  "P.json or P.json.gz")
      ->check(writableFile());
  sub->add_flag("--json", command->json, "print the plan as JSON instead of the report as text");
}

void addCompileCommand(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<CompileCommand>(
      app, "compile",
      "Compile a model under a plan to a package: a folder with the program and the weights of all ranks.\n"
      "Example: kerf compile model.onnx --plan plan.json -o package",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"})->required(false);
  command->model.addTrainingTo(*sub);
  command->precision.addTo(*sub);
  command->where.addTo(*sub);
  command->storedSettings.addStoredSettingsTo(*sub);
  command->app = sub;
  sub->add_option(
      "--plan", command->planFile,
      "plan.json under which to compile (default: a search finds the plan); the search fills the gaps of a plan that "
      "only "
      "constrains operators, and defaults fill the gaps of a plan with stages or microbatches (docs/plan.md)");
  sub->add_option("-o,--output", command->output, "folder for the package")->required();
  sub->add_flag("--print-pipeline", command->where.printPipeline, kPrintPipelineHelp);
  sub->add_flag("--no-native", command->noNative,
                "write a package without machine code for chains of pointwise operators; they run one by one, with the "
                "same results");
  sub->add_option(
      "--device-ir", command->deviceIr,
      "file for the device program, the program of each rank as IR, to read or to edit for --mode hybrid: F.mlir");
  sub->add_flag("--deterministic", command->where.deterministic, kPlannedDeterministicHelp);
  sub->add_flag("--gradient-norms", command->gradientNorms,
                "add the L2 norm of each gradient to the program, which `kerf run --gradient-norms` needs");
  sub->add_flag("--json", command->json, "print the report as JSON instead of one line of text");
}

} // namespace kerf::tool
