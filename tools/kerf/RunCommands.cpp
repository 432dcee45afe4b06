// SPDX-License-Identifier: Apache-2.0
// kerf run and kerf train: a program on ranks that are threads, or processes under mpirun and srun.
#include "Evaluation.h"
#include "LogFile.h"
#include "Options.h"
#include "Reports.h"
#include "ResumedOptions.h"
#include "StepLines.h"
#include "Trained.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/HuggingFace.h"
#include "kerf/Support/Signals.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

constexpr std::string_view kNormPrefix = "gradient_norm_squared/";

Report::Memory memoryOf(const runtime::MemoryReport &memory) {
  return {memory.parametersBytes,  memory.gradientsBytes, memory.statesBytes,
          memory.activationsBytes, memory.inputsBytes,    memory.totalBytes()};
}

double scalar(const Tensor &tensor) {
  if (tensor.dtype == DType::F64) {
    double value;
    std::memcpy(&value, tensor.data, sizeof value);
    return value;
  }
  auto wide = convertTensor(tensor, DType::F64);
  return wide ? scalar(*wide) : std::nan("");
}

Status writeGradientNorms(const runtime::RunReport &report, const std::string &path) {
  nlohmann::ordered_json norms = nlohmann::ordered_json::object();
  for (const auto &[name, tensor] : report.firstResults)
    if (name.starts_with(kNormPrefix))
      norms[name.substr(kNormPrefix.size())] = std::sqrt(scalar(tensor));
  if (norms.empty())
    return Error{"--gradient-norms: this package does not compute them; compile it with --gradient-norms"};
  return writeFile(path, norms.dump(2) + "\n");
}

void addMeasured(const runtime::RunReport &run, Report &report) {
  double sum = 0;
  size_t first = run.steps.size() > 1 ? 1 : 0; // the first step also warms up
  for (size_t i = first; i < run.steps.size(); ++i)
    sum += run.steps[i].seconds;
  report.measuredStepSeconds = run.steps.empty() ? 0 : sum / static_cast<double>(run.steps.size() - first);
  runtime::Overlap overlap = sumOf(overlapOf(run.times));
  double steps = std::max<double>(1, static_cast<double>(run.times.steps));
  report.measuredCommunicationSeconds = overlap.seconds / steps;
  report.measuredHiddenSeconds = overlap.hiddenSeconds / steps;
  const runtime::MemoryReport *fullest = &run.memory;
  for (const runtime::MemoryReport &stage : run.stageMemory)
    if (stage.totalBytes() > fullest->totalBytes())
      fullest = &stage;
  report.measuredMemory = memoryOf(*fullest);
}

/// Of one rank: memory that is really taken, and where rank 0's time went, per step.
nlohmann::ordered_json measuredJson(const runtime::RunReport &run) {
  const runtime::TimeReport &times = run.times;
  double steps = std::max<double>(1, static_cast<double>(times.steps));
  nlohmann::ordered_json measured;
  measured["peak_bytes"] = run.memory.totalBytes();
  measured["arena_bytes"] = run.memory.arenaBytes;
  measured["host_bytes"] = run.memory.hostBytes;
  measured["persistent_bytes"] = run.memory.persistentBytes;
  for (const runtime::MemoryReport &stage : run.stageMemory)
    measured["stage_peak_bytes"].push_back(stage.totalBytes());
  measured["compute_seconds"] = times.computeSeconds / steps;
  measured["wait_seconds"] = times.waitSeconds / steps;
  measured["streams"] = nlohmann::ordered_json::array();
  for (const auto &[stream, overlap] : overlapOf(times))
    measured["streams"].push_back({{"stream", stream},
                                   {"seconds", overlap.seconds / steps},
                                   {"hidden_seconds", overlap.hiddenSeconds / steps},
                                   {"exposed_seconds", overlap.exposedSeconds() / steps}});
  measured["kernels"] = nlohmann::ordered_json::array();
  for (const runtime::KernelTime &kernel : times.kernels)
    measured["kernels"].push_back(
        {{"op", kernel.op}, {"calls", kernel.calls / times.steps}, {"seconds", kernel.seconds / steps}});
  measured["collectives"] = nlohmann::ordered_json::array();
  for (const runtime::CollectiveTime &collective : times.collectives)
    measured["collectives"].push_back({{"op", collective.op},
                                       {"name", collective.name},
                                       {"cause", collective.cause},
                                       {"stream", collective.stream},
                                       {"bytes", collective.bytes},
                                       {"seconds", collective.seconds / steps},
                                       {"wait_seconds", collective.waitSeconds / steps}});
  return measured;
}

nlohmann::ordered_json summaryJson(const package::Program &program, const runtime::RunReport &run,
                                   const Report *report) {
  nlohmann::ordered_json summary;
  summary["losses"] = nlohmann::ordered_json::array();
  for (const runtime::StepResult &step : run.steps)
    summary["losses"].push_back(step.loss);
  summary["learning_rates"] = nlohmann::ordered_json::array();
  for (const runtime::StepResult &step : run.steps)
    summary["learning_rates"].push_back(step.learningRate);
  for (const runtime::Evaluation &evaluation : run.evaluations)
    summary["evaluations"].push_back(evaluationJson(program, evaluation));
  summary["step_seconds"] = nlohmann::ordered_json::array();
  for (const runtime::StepResult &step : run.steps)
    summary["step_seconds"].push_back(step.seconds);
  summary["measured"] = measuredJson(run);
  if (report)
    summary["report"] = toJson(*report);
  return summary;
}

runtime::RunOptions toRunOptions(const RunFlags &flags, const runtime::RunSettings &settings,
                                 const runtime::Checkpoint *resumed) {
  runtime::RunOptions options;
  options.firstStep = settings.firstStep;
  options.steps = settings.endStep - settings.firstStep;
  options.seed = settings.seed;
  options.order = settings.order;
  options.firstBatch = settings.firstBatch;
  options.threads = flags.threads;
  options.executor.deterministic = flags.deterministic;
  options.savePath = flags.save;
  options.tracePath = flags.trace;
  options.link = flags.link;
  options.learningRate = [rate = settings.learningRate](int64_t step) { return rate.at(step); };
  options.rateFactor = [rate = settings.learningRate](int64_t step) { return rate.factor(step); };
  options.resume = resumed;
  options.onNan = onNanFrom(flags.onNan);
  options.onStart = [] { listenForSignals({SIGINT, SIGTERM}); };
  options.stopSignal = receivedSignal;
  options.checkpoint.folder = flags.checkpoint;
  options.checkpoint.every = flags.every.value_or(options.checkpoint.every);
  options.checkpoint.keep = flags.keep.value_or(options.checkpoint.keep);
  return options;
}

/// The device with all that was left to choose.
Result<std::string> deviceOf(const RunFlags &flags, bool isOneOfSeveral) {
  auto device = runtime::resolveDevice(flags.device);
  if (device && isOneOfSeveral && flags.device != runtime::kDefaultDevice && *device != flags.device)
    return Error{fmt::format("--device {}: each process would choose the rest for itself; say it, as in --device {}",
                             flags.device, *device)};
  return device ? device : Result<std::string>(Error{"--device: " + device.error().message});
}

/// The checkpoint of --resume; nothing without it. Its index alone is read, so that a wrong one is told before anything
/// takes long.
Result<std::optional<runtime::Checkpoint>> openResumed(const RunFlags &flags) {
  if (flags.checkpoint.empty() && (flags.every || flags.keep))
    return Error{fmt::format("{} is about checkpoints: give --checkpoint DIR too", flags.every ? "--every" : "--keep")};
  if (flags.resume.empty())
    return std::optional<runtime::Checkpoint>();
  auto opened = runtime::openCheckpoint(flags.resume);
  if (!opened)
    return opened.error();
  return std::optional<runtime::Checkpoint>(std::move(*opened));
}

Status openLog(const std::string &path, std::optional<LogFile> &log) {
  auto opened = LogFile::open(path);
  if (!opened)
    return opened.error();
  log.emplace(std::move(*opened));
  return ok();
}

/// Makes one message of an error that all processes have. Rank 0 prints it before any of them ends, for mpirun kills
/// the others when one ends with an error.
Error toldOnce(const Error &error, const runtime::Communicator *communicator) {
  if (!communicator)
    return error;
  if (communicator->rank() == 0)
    fail(error);
  return Error{"", error.status};
}

} // namespace

/// The text of the config.json that --save-hf copies: of --hf-config, else of the configuration that the model is.
/// Empty where there is none.
static Result<std::string> huggingFaceConfig(const package::Program &program, const RunFlags &flags) {
  std::string path = flags.hfConfig;
  if (flags.saveHf.empty())
    return path.empty() ? Result<std::string>(path) : Error{"--hf-config is for --save-hf DIR: give that too"};
  if (std::error_code code;
      std::filesystem::exists(flags.saveHf, code) && !std::filesystem::is_directory(flags.saveHf, code))
    return Error{fmt::format("--save-hf {}: it is a file; a Hugging Face checkpoint is a folder", flags.saveHf)};
  auto model = program.info.find("model");
  if (path.empty() && model != program.info.end() && model->is_string() &&
      std::filesystem::path(model->get<std::string>()).extension() == ".json")
    path = model->get<std::string>();
  if (path.empty()) {
    fmt::print(stderr, "note: '{}' gets no config.json, because the model is an export; --hf-config FILE copies one\n",
               flags.saveHf);
    return path;
  }
  return readFile(path);
}

Result<runtime::RunReport> runProgram(const package::Program &program, const TensorMap &weights, const RunFlags &flags,
                                      const std::vector<std::string> &warnings, const Resumed &from, bool quiet) {
  const runtime::Checkpoint *resumed = from.checkpoint;
  auto data = runtime::openData(flags.data);
  if (!data)
    return data.error();
  auto evaluationData = openEvaluation(flags);
  if (!evaluationData)
    return evaluationData.error();
  auto hfConfig = huggingFaceConfig(program, flags);
  if (!hfConfig)
    return hfConfig.error();
  auto dataSteps = runtime::batchesOf(program, *data, runtime::dataOrder(flags, resumed));
  if (!dataSteps)
    return dataSteps.error();
  auto perStep = package::batchesOfStep(program);
  if (!perStep)
    return perStep.error();
  auto settings = runtime::runSettings(flags, {*dataSteps, *perStep}, resumed);
  if (!settings)
    return settings.error();
  runtime::RunOptions options = toRunOptions(flags, *settings, resumed);
  options.checkpoint.info = runtime::checkpointInfo(program, *settings);
  options.evaluation = evaluationOptions(flags, *evaluationData, settings->order.samples, settings->endStep);
  if (!flags.saveHf.empty())
    options.saveTo = [&](const TensorMap &tensors) { return writeHuggingFace(flags.saveHf, tensors, *hfConfig); };
  std::unique_ptr<runtime::Communicator> communicator;
  if (runtime::launchedByMpi()) {
    auto made = runtime::createMpiCommunicator();
    if (!made)
      return made.error();
    communicator = std::move(*made);
    options.communicator = communicator.get();
  }
  bool isFirst = !communicator || communicator->rank() == 0;
  auto device = deviceOf(flags, communicator != nullptr);
  if (!device)
    return toldOnce(device.error(), communicator.get());
  options.device = *device;
  // An old log stays where this run can't even start.
  Status ready = runtime::checkInputs(program, weights, *data, options.order, resumed);
  std::optional<LogFile> log;
  if (ready && !flags.log.empty() && isFirst)
    ready = openLog(flags.log, log);
  if (communicator)
    ready = runtime::agree(*communicator, ready);
  if (!ready)
    return toldOnce(ready.error(), communicator.get());
  if (isFirst && resumed)
    say(withOptions(runtime::resumeText(*resumed, program, *settings, *dataSteps)) + from.note);
  if (isFirst) {
    printWarnings(warnings);
    say(trainedText(program) + "\n");
    if (flags.device != runtime::kDefaultDevice)
      say(fmt::format("device: {}\n", options.device));
  }
  options.onStep = [&](const runtime::StepResult &step) -> Status {
    if (!quiet)
      say(progressLine(step));
    if (!log)
      return ok();
    if (step.step == settings->firstStep)
      if (Status status = log->keepSteps(resumed ? settings->firstStep : 0); !status)
        return status;
    return log->append(logLine(step));
  };
  options.checkpoint.onNote = [](const std::string &text) { say(fmt::format("note: {}\n", withOptions(text))); };
  options.onEvaluation = [&](const runtime::Evaluation &evaluation) -> Status {
    if (!quiet)
      say(evaluationText(program, evaluation));
    return log ? log->append(evaluationJson(program, evaluation).dump()) : ok();
  };
  options.checkpoint.onSaved = [&](int64_t nextStep, double seconds) {
    if (!quiet)
      say(fmt::format("checkpoint '{}'  {:.1f} ms\n",
                      (std::filesystem::path(flags.checkpoint) / runtime::checkpointName(nextStep)).string(),
                      seconds * 1e3));
  };
  auto report = runtime::run(program, weights, *data, options);
  if (!report)
    return toldOnce(report.error(), communicator.get());
  if (!isFirst)
    report->steps.clear(); // one process speaks for all
  if (isFirst && !report->initialized.empty())
    say(fmt::format("note: {} parameters had no weights and were initialized from seed {} (docs/runtime.md)\n",
                    report->initialized.size(), settings->seed));
  if (isFirst && report->skippedSteps > 0)
    say(fmt::format("note: {} of {} steps were skipped: their loss, or what they would have made of the parameters, "
                    "was not finite\n",
                    report->skippedSteps, settings->firstStep + static_cast<int64_t>(report->steps.size())));
  if (isFirst && !flags.gradientNorms.empty())
    if (Status status = writeGradientNorms(*report, flags.gradientNorms); !status)
      return status.error();
  if (isFirst && report->stoppedBy)
    say(stoppedText(*report, flags));
  return report;
}

namespace {

struct RunCommand {
  RunFlags flags;
  std::string folder, weights, report;
  int64_t ranks = 0;
  bool json = false;
  CLI::App *app = nullptr;

  int run() {
    auto resumed = openResumed(flags);
    if (!resumed)
      return fail(resumed.error());
    auto loaded = runtime::loadPackage(folder);
    if (!loaded)
      return fail(loaded.error());
    if (loaded->program.info.contains("plan") && loaded->program.info["plan"].is_object()) {
      Plan plan;
      plan.others = loaded->program.info["plan"];
      auto job = jobOf(plan, folder);
      if (!job)
        return fail(job.error());
      if (*job)
        if (Status status = takeOptions(*app, **job, folder, JobPart::Run); !status)
          return fail(status.error());
    }
    if (auto why = runtime::unusedCode(loaded->program, flags.device); why && !why->empty())
      say(fmt::format("note: the package's code is not used, pointwise ops run one by one: {}\n", *why));
    std::error_code code;
    const std::filesystem::path file = std::filesystem::path(folder) / package::kWeightsFile;
    if (weights.empty() && !flags.seed && !*resumed && !std::filesystem::exists(file, code))
      return fail({fmt::format("'{}' does not exist; put the file there, give --weights, or give --seed to start from "
                               "initial values made up from it",
                               file.string())});
    int64_t needed = package::ranksOf(loaded->program);
    if (ranks && ranks != needed)
      return fail({fmt::format("{} was compiled for {} ranks, --ranks is {}; compile it again for {}", folder, needed,
                               ranks, ranks)});
    if (!weights.empty()) {
      auto given = readTensors(weights);
      if (!given)
        return fail(given.error());
      for (auto &[name, tensor] : *given)
        loaded->weights[name] = tensor;
    }
    auto note = *resumed ? compareResumedOptions(loaded->program, flags, **resumed) : Result<std::string>("");
    if (!note)
      return fail(note.error());
    std::optional<Report> saved;
    if (loaded->program.info.contains("report"))
      if (auto parsed = parseReport(loaded->program.info["report"], folder); parsed)
        saved = std::move(*parsed);
    auto done =
        runProgram(loaded->program, loaded->weights, flags, saved ? saved->warnings : std::vector<std::string>(),
                   {*resumed ? &**resumed : nullptr, *note}, json);
    if (!done)
      return fail(done.error());
    if (done->steps.empty())
      return 0; // not the first process, or nothing was left to train
    if (saved)
      addMeasured(*done, *saved);
    if (!report.empty() && saved)
      if (Status status = writeReport(*saved, report); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", summaryJson(loaded->program, *done, saved ? &*saved : nullptr).dump(2));
    return exitStatus(*done);
  }
};

struct TrainCommand {
  ModelFlags model;
  PrecisionFlags precision;
  PlanFlags where;
  RunFlags flags;
  std::string planFile, report, savePlan;
  bool json = false, noNative = false;
  GivenPlan given;
  CLI::App *app = nullptr;
  std::optional<runtime::Checkpoint> resumed;
  std::string resumedNote;

  /// A checkpoint's options come before those of a plan's job.
  Status beforePlan() {
    auto opened = openResumed(flags);
    if (!opened)
      return opened.error();
    resumed = std::move(*opened);
    auto note = resumed ? takeResumedOptions(*app, flags, *resumed) : Result<std::string>("");
    if (!note)
      return note.error();
    resumedNote = *note;
    return ok();
  }

  int run() {
    where.job = given.job;
    auto imported = importStep(model, precision, !flags.gradientNorms.empty(),
                               planFile.empty() ? where.constraints : planFile, where.mode == "hybrid");
    if (!imported)
      return fail(imported.error());
    const TrainingStep &step = imported->step;
    // A lost file is not to be trained over with random weights; a model that is a structure only is, when the user
    // says so.
    if (!step.missingFiles.empty() && model.weights.empty() && !flags.seed && !resumed)
      return fail({fmt::format("{}: its weights lie in '{}', which does not exist; put the file there, give --weights, "
                               "or give --seed to start from "
                               "initial values made up from it",
                               model.model, fmt::join(step.missingFiles, "', '"))});
    where.allRanks |= runtime::launchedByMpi(); // every process is a rank
    if (runtime::launchedByMpi() && !where.ranks)
      if (const char *size = std::getenv("OMPI_COMM_WORLD_SIZE"))
        where.ranks = std::atoll(size);
    auto planned = planAndCompile(*app, step, model, precision, planFile, where);
    if (!planned)
      return fail(planned.error());
    if (!savePlan.empty())
      if (Status status = writeFile(savePlan, toJson(planned->plan)); !status)
        return fail(status.error());
    if (Status status = addCodeForThisMachine(planned->compiled, !noNative); !status)
      return fail(status.error());
    describeProgram(planned->compiled.program, model.model, step, planned->plan);
    auto done = runProgram(planned->compiled.program, step.weights, flags, planned->compiled.report.warnings,
                           {resumed ? &*resumed : nullptr, resumedNote}, json);
    if (!done) {
      Error error = done.error();
      bool configured = std::filesystem::path(model.model).extension() == ".json";
      if (configured && error.message.rfind("data: ", 0) == 0)
        error.message += "; --global-batch and --sequence are the sizes of a configuration's step";
      return fail(error);
    }
    if (done->steps.empty())
      return 0;
    Report &full = planned->compiled.report;
    addMeasured(*done, full);
    if (!report.empty())
      if (Status status = writeReport(full, report); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", summaryJson(planned->compiled.program, *done, &full).dump(2));
    else
      fmt::print("{}", toText(full));
    return exitStatus(*done);
  }
};

} // namespace

void addRun(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<RunCommand>(app, "run",
                                               "Run a package. Ranks are threads, or processes under mpirun and srun.\n"
                                               "Example: kerf run package --data batches.npz --steps 20",
                                               status);
  command->app = sub;
  sub->add_option("DIR", command->folder, "folder that `kerf compile` wrote")->required();
  sub->add_option("--ranks", command->ranks, "must be the ranks that the package was compiled for");
  sub->add_option("--weights", command->weights, "weights by name instead of the package's: .safetensors, .npz");
  sub->add_option("--report", command->report, "write the report with what was measured: F.txt or F.json");
  sub->add_flag("--json", command->json, "losses and report as JSON on standard output");
  command->flags.addTo(*sub);
}

void addTrain(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<TrainCommand>(
      app, "train",
      "Import, plan, compile and run in one.\n"
      "Example: kerf train model.onnx --data batches.npz --steps 20 --ranks 4 --optimizer adamw --lr 1e-3",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16"})->required(false);
  command->model.addTrainingTo(*sub);
  command->precision.addTo(*sub);
  command->where.addTo(*sub);
  command->flags.addTo(*sub);
  command->app = sub;
  sub->add_option("--plan", command->planFile, "plan.json instead of a search; a partial one is completed");
  sub->add_option("--save-plan", command->savePlan, "write the plan: plan.json");
  sub->add_option("--report", command->report, "write the report: F.txt or F.json");
  sub->add_flag("--print-pipeline", command->where.printPipeline, kPrintPipelineHelp);
  sub->add_flag("--no-native", command->noNative, kNoNativeHelp);
  sub->add_flag("--json", command->json, "losses and report as JSON on standard output");
}

} // namespace kerf::tool
