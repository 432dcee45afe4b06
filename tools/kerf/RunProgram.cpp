// SPDX-License-Identifier: Apache-2.0
#include "RunProgram.h"
#include "Command.h"
#include "Evaluation.h"
#include "LogFile.h"
#include "StartMessages.h"
#include "StepLines.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/HuggingFace.h"
#include "kerf/Support/File.h"
#include "kerf/Support/Signals.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>

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

const std::chrono::steady_clock::time_point kProgramStart = std::chrono::steady_clock::now();

/// Returns the seconds of rank 0 before the first step as JSON.
nlohmann::ordered_json startJson(const runtime::StartTimes &start) {
  nlohmann::ordered_json json = {{"read_seconds", start.read},
                                 {"device_seconds", start.device},
                                 {"kernels_seconds", start.kernels},
                                 {"tensors_seconds", start.tensors}};
  for (const auto &[part, seconds] : start.parts)
    json[part + "_seconds"] = seconds;
  return json;
}

/// Returns the measurements of a run as JSON: bytes of memory that a rank allocated, and the seconds of rank 0 per step
/// by kernel and collective.
nlohmann::ordered_json measuredJson(const runtime::RunReport &run) {
  const runtime::TimeReport &times = run.times;
  double steps = std::max<double>(1, static_cast<double>(times.measuredSteps));
  nlohmann::ordered_json measured;
  measured["peak_bytes"] = run.memory.totalBytes();
  measured["arena_bytes"] = run.memory.arenaBytes;
  measured["host_bytes"] = run.memory.hostBytes;
  measured["persistent_bytes"] = run.memory.persistentBytes;
  for (const runtime::MemoryReport &stage : run.stageMemory)
    measured["stage_peak_bytes"].push_back(stage.totalBytes());
  measured["start"] = startJson(run.start);
  measured["measured_steps"] = times.measuredSteps;
  measured["recorded_steps"] = times.steps - times.measuredSteps;
  if (!times.notRecorded.empty())
    measured["not_recorded"] = times.notRecorded;
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
        {{"op", kernel.op}, {"calls", kernel.calls / times.measuredSteps}, {"seconds", kernel.seconds / steps}});
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
  options.tf32 = flags.tf32;
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

/// Returns the device of --device with all its settings chosen. Fails when several processes would each choose a
/// setting of their own, such as a random seed.
Result<std::string> deviceOf(const RunFlags &flags, bool isOneOfSeveral) {
  auto device = runtime::resolveDevice(flags.device);
  if (device && isOneOfSeveral && flags.device != runtime::kDefaultDevice && *device != flags.device)
    return Error{
        fmt::format("--device {} leaves settings open, which each process would choose differently; give them, such as "
                    "--device {}",
                    flags.device, *device)};
  return device ? device : Result<std::string>(Error{"--device: " + device.error().message});
}

Status openLog(const std::string &path, std::optional<LogFile> &log) {
  auto opened = LogFile::open(path);
  if (!opened)
    return opened.error();
  log.emplace(std::move(*opened));
  return ok();
}

/// Returns the communicator of this process's rank, or null if all ranks are threads of this process.
Result<std::unique_ptr<runtime::Communicator>> connectRanks() {
  if (runtime::launchedByMpi())
    return runtime::createMpiCommunicator();
  auto launch = runtime::tcpLaunch();
  if (!launch)
    return launch.error();
  if (!*launch)
    return std::unique_ptr<runtime::Communicator>();
  return runtime::createTcpCommunicator(
      **launch, [](const std::string &text) { printToStderr(fmt::format("note: {}\n", text)); });
}

/// Prints an error that all processes have once, by rank 0 if it still runs, and returns the error without its message.
/// Rank 0 prints before any process ends, because launchers kill the other processes when one ends with an error.
Error reportOnce(const Error &error, const runtime::Communicator *communicator) {
  if (!communicator)
    return error;
  if (communicator->tellsErrors())
    fail(error);
  return Error{"", error.status};
}

} // namespace

void addMeasured(const runtime::RunReport &run, Report &report) {
  double sum = 0;
  size_t first = run.steps.size() > 1 ? 1 : 0; // the first step also warms up
  for (size_t i = first; i < run.steps.size(); ++i)
    sum += run.steps[i].seconds;
  report.measuredStepSeconds = run.steps.empty() ? 0 : sum / static_cast<double>(run.steps.size() - first);
  runtime::OverlapTimes overlap = sumOf(overlapOf(run.times));
  double steps = std::max<double>(1, static_cast<double>(run.times.measuredSteps));
  report.measuredCommunicationSeconds = overlap.seconds / steps;
  report.measuredHiddenSeconds = overlap.hiddenSeconds / steps;
  const runtime::MemoryReport *fullest = &run.memory;
  for (const runtime::MemoryReport &stage : run.stageMemory)
    if (stage.totalBytes() > fullest->totalBytes())
      fullest = &stage;
  report.measuredMemory = memoryOf(*fullest);
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

Result<std::optional<runtime::Checkpoint>> openResumed(const RunFlags &flags) {
  if (flags.checkpoint.empty() && (flags.every || flags.keep))
    return Error{fmt::format("{} has no effect without checkpoints; give --checkpoint DIR too",
                             flags.every ? "--every" : "--keep")};
  if (flags.resume.empty())
    return std::optional<runtime::Checkpoint>();
  auto opened = runtime::openCheckpoint(flags.resume);
  if (!opened)
    return opened.error();
  return std::optional<runtime::Checkpoint>(std::move(*opened));
}

/// Returns the text of the config.json that --save-hf writes: the file of --hf-config, or else the model itself where
/// it is a config.json. Returns "" when there is none.
static Result<std::string> huggingFaceConfig(const package::Program &program, const RunFlags &flags) {
  std::string path = flags.hfConfig;
  if (flags.saveHf.empty())
    return path.empty() ? Result<std::string>(path)
                        : Error{"--hf-config has no effect without --save-hf; give --save-hf DIR too"};
  if (std::error_code code;
      std::filesystem::exists(flags.saveHf, code) && !std::filesystem::is_directory(flags.saveHf, code))
    return Error{
        fmt::format("--save-hf {} names a file, but a Hugging Face checkpoint is a folder; give the path of a folder",
                    flags.saveHf)};
  auto model = program.info.find("model");
  if (path.empty() && model != program.info.end() && model->is_string() &&
      std::filesystem::path(model->get<std::string>()).extension() == ".json")
    path = model->get<std::string>();
  if (path.empty()) {
    fmt::print(stderr, "note: '{}' gets no config.json, because the model is an export; --hf-config FILE adds one\n",
               flags.saveHf);
    return path;
  }
  return readFile(path);
}

Result<runtime::RunReport> runProgram(const package::Program &program, const TensorMap &weights, const RunFlags &flags,
                                      const std::vector<std::string> &warnings, const ResumeState &from, bool quiet) {
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
  auto connected = connectRanks();
  if (!connected)
    return connected.error();
  std::unique_ptr<runtime::Communicator> communicator = std::move(*connected);
  options.communicator = communicator.get();
  bool isFirst = !communicator || communicator->rank() == 0;
  auto device = deviceOf(flags, communicator != nullptr);
  if (!device)
    return reportOnce(device.error(), communicator.get());
  options.device = *device;
  // The log of an earlier run is kept when this run cannot start.
  Status ready = runtime::checkInputs(program, weights, *data, options.order, resumed);
  std::optional<LogFile> log;
  if (ready && !flags.log.empty() && isFirst)
    ready = openLog(flags.log, log);
  if (communicator)
    ready = runtime::agree(*communicator, ready);
  if (!ready)
    return reportOnce(ready.error(), communicator.get());
  if (isFirst && resumed)
    printToStderr(settingsAsOptions(runtime::resumeText(*resumed, program, *settings, *dataSteps)) + from.note);
  if (isFirst) {
    printWarnings(warnings);
    printToStderr(trainedTensorsText(program) + "\n");
    if (flags.device != runtime::kDefaultDevice)
      printToStderr(fmt::format("device: {}\n", options.device));
  }
  options.onNote = [](const std::string &note) { printToStderr(fmt::format("note: {}\n", note)); };
  options.onStep = [&](const runtime::StepResult &step) -> Status {
    if (!quiet)
      printToStderr(progressLine(step));
    if (!log)
      return ok();
    if (step.step == settings->firstStep)
      if (Status status = log->keepSteps(resumed ? settings->firstStep : 0); !status)
        return status;
    return log->append(logLine(step));
  };
  options.checkpoint.onNote = [](const std::string &text) {
    printToStderr(fmt::format("note: {}\n", settingsAsOptions(text)));
  };
  options.onEvaluation = [&](const runtime::Evaluation &evaluation) -> Status {
    if (!quiet)
      printToStderr(evaluationText(program, evaluation));
    return log ? log->append(evaluationJson(program, evaluation).dump()) : ok();
  };
  options.checkpoint.onSaved = [&](int64_t nextStep, double seconds) {
    if (!quiet)
      printToStderr(fmt::format("checkpoint '{}'  {:.1f} ms\n",
                                (std::filesystem::path(flags.checkpoint) / runtime::checkpointName(nextStep)).string(),
                                seconds * 1e3));
  };
  const std::chrono::duration<double> readSeconds = std::chrono::steady_clock::now() - kProgramStart;
  auto report = runtime::run(program, weights, *data, options);
  if (!report)
    return reportOnce(report.error(), communicator.get());
  report->start.read = readSeconds.count();
  if (!isFirst)
    report->steps.clear(); // only the first process prints results
  if (isFirst && !report->initialized.empty())
    printToStderr(
        fmt::format("note: {} parameters have no weights in the model and were initialized at random from seed {} "
                    "(docs/runtime.md)\n",
                    report->initialized.size(), settings->seed));
  if (isFirst && report->skippedSteps > 0)
    printToStderr(fmt::format(
        "note: {} of {} steps were skipped, because their loss or the parameters after their update were not finite\n",
        report->skippedSteps, settings->firstStep + static_cast<int64_t>(report->steps.size())));
  if (isFirst && !flags.gradientNorms.empty())
    if (Status status = writeGradientNorms(*report, flags.gradientNorms); !status)
      return status.error();
  if (isFirst && report->stoppedBy)
    printToStderr(stoppedText(*report, flags));
  return report;
}

} // namespace kerf::tool
