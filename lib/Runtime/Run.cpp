// SPDX-License-Identifier: Apache-2.0
// Runs a program. Inputs are found and checked once. Then every rank, which is a thread or this process, loads its
// program, fills its arguments and runs the steps.
#include "kerf/Runtime/Run.h"
#include "CheckpointFiles.h"
#include "RankThreads.h"
#include "kerf/Package/Native.h"
#include "kerf/Support/File.h"

#include <filesystem>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
/// The readers of a run's training and evaluation data.
struct Readers {
  std::unique_ptr<BatchReader> training, evaluation;
  RankBatches of(int64_t user) const { return {*training, evaluation.get(), user}; }
};

Readers openReaders(const Inputs &inputs, const DataSet &data, const RunOptions &options, int64_t users) {
  Readers readers;
  const int64_t perStep = inputs.batchesOfStep, first = options.firstBatch.value_or(options.firstStep * perStep);
  readers.training = std::make_unique<BatchReader>(
      data, inputs.batch, options.order, inputs.dataSteps, options.steps * perStep,
      [first](int64_t request) { return first + request; }, users);
  const EvaluationOptions &evaluation = options.evaluation;
  if (!evaluation.data)
    return readers;
  const int64_t end = options.firstStep + options.steps, every = evaluation.every;
  // Evaluations take place after every `every` steps, and after the last step.
  const int64_t times = end / every - options.firstStep / every + (end % every != 0);
  readers.evaluation = std::make_unique<BatchReader>(
      *evaluation.data, inputs.batch, DataOrder{evaluation.samples, false, 0}, inputs.evaluationData,
      times * inputs.evaluationBatches, [count = inputs.evaluationBatches](int64_t request) { return request % count; },
      users);
  return readers;
}

/// Runs the ranks of this process: the rank of `options.communicator`, or all ranks as threads.
Result<RunReport> runRanks(const package::Program &program, const Inputs &inputs, const DataSet &data,
                           const RunOptions &options) {
  std::vector<std::unique_ptr<Communicator>> made;
  std::vector<Communicator *> communicators = {options.communicator};
  if (!options.communicator) {
    made = createThreadCommunicators(package::ranksOf(program), options.link);
    communicators.clear();
    for (const auto &communicator : made)
      communicators.push_back(communicator.get());
  }
  Readers readers = openReaders(inputs, data, options, int64_t(communicators.size()));
  std::vector<RankRun> ranks;
  for (size_t user = 0; user < communicators.size(); ++user)
    ranks.emplace_back(program, inputs, options, *communicators[user], readers.of(int64_t(user)));
  RankThreads threads(std::move(ranks), communicators);
  RunReport first; // the report of this process's first rank
  Status done = threads.runOnAll([&](RankRun &rank) -> Status {
    auto report = rank.run();
    if (!report)
      return report.error();
    if (rank.rank() == communicators.front()->rank())
      first = std::move(*report);
    return ok();
  });
  if (!done)
    return done.error();
  return first;
}

/// Locks the checkpoint folder for this run.
Status lockFolder(const RunOptions &options, const package::Program &program, std::optional<FolderLock> &lock) {
  const CheckpointOptions &checkpoint = options.checkpoint;
  auto taken = prepareFolder(checkpoint, program, options.firstStep, options.firstStep + options.steps);
  if (!taken)
    return taken.error();
  lock.emplace(std::move(*taken));
  if (lock->recovered() && checkpoint.onNote)
    checkpoint.onNote(fmt::format("the run of process {} that had '{}' since {} has ended without giving it back; its "
                                  "lock is taken over",
                                  lock->recovered()->pid, checkpoint.folder, lock->recovered()->start));
  return ok();
}
} // namespace

Status checkInputs(const package::Program &program, const TensorMap &weights, const DataSet &data,
                   const DataOrder &order, const Checkpoint *resume) {
  auto inputs = findInputs(program, weights, data, order, resume);
  if (!inputs)
    return inputs.error();
  return ok();
}

Result<std::string> reasonCodeUnused(const package::Program &program, std::string_view device) {
  auto created = createDevice(device);
  if (!created)
    return created.error();
  auto code = (*created)->loadCode(program, CodeUse::Run);
  if (!code)
    return code.error();
  return (*code)->reasonUnused();
}

Result<int64_t> batchesOf(const package::Program &program, const DataSet &data, const DataOrder &order) {
  return batchesOf(data, batchInputs(program), order);
}

Result<RunReport> run(const package::Program &program, const TensorMap &weights, const TensorMap &data,
                      const RunOptions &options) {
  return run(program, weights, dataOf(data), options);
}

Result<RunReport> run(const package::Program &program, const TensorMap &weights, const DataSet &data,
                      const RunOptions &options) {
  int64_t ranks = package::ranksOf(program);
  auto inputs = findInputs(program, weights, data, options.order, options.resume);
  Status ready = inputs ? checkWritable(options.savePath) : Status(inputs.error());
  if (ready)
    ready = findEvaluation(options.evaluation, *inputs);
  if (ready)
    ready = checkWritable(options.tracePath);
  if (ready && options.communicator && options.communicator->size() != ranks)
    ready = Error{fmt::format("the program is for {} ranks, but {} processes were started; start {} (mpirun -n {}, "
                              "torchrun with as many in all), or compile it for {} ranks (<ranks>)",
                              ranks, options.communicator->size(), ranks, ranks, options.communicator->size())};
  if (ready && options.communicator && options.link)
    ready = Error{"an emulated link is between ranks that are threads of one process, not between processes; leave "
                  "<emulate-link> out"};
  bool isFirst = !options.communicator || options.communicator->rank() == 0;
  std::optional<FolderLock> lock; // held until the run has ended
  if (ready && isFirst && !options.checkpoint.folder.empty())
    ready = lockFolder(options, program, lock);
  if (!options.communicator) {
    if (!ready)
      return ready.error();
    return runRanks(program, *inputs, data, options);
  }
  bool tells = options.communicator->tellsErrors(); // a rank that has told the error may end before this one goes on
  if (Status status = agree(*options.communicator, ready); !status) {
    if (options.communicator->failure())
      tells = options.communicator->tellsErrors();
    return Error{tells ? status.error().message : "", status.error().status};
  }
  return runRanks(program, *inputs, data, options);
}

/// Reads the compiled kernels, which lie beside program.json. A file that is missing is not used.
static Status readCode(package::Program &program, const std::filesystem::path &folder) {
  if (!program.native)
    return ok();
  auto native = std::make_shared<package::NativeCode>(*program.native);
  for (package::NativeImage &image : native->images) {
    if (!package::isKnownImage(image))
      continue; // no device of this build runs it
    std::string file = (folder / imageFileName(image)).string();
    std::error_code code;
    if (!std::filesystem::exists(file, code))
      continue;
    auto bytes = readFile(file);
    if (!bytes)
      return bytes.error();
    if (bytes->empty())
      return Error{fmt::format("'{}': it is empty; compile again", file)};
    image.code = std::move(*bytes);
  }
  if (Status status = package::checkNative(*native, program); !status)
    return Error{fmt::format("'{}': {}", folder.string(), status.error().message)};
  program.native = std::move(native);
  return ok();
}

Result<LoadedPackage> loadPackage(const std::string &folder) {
  std::filesystem::path path(folder);
  auto bytes = readFile((path / package::kProgramFile).string());
  if (!bytes)
    return Error{
        fmt::format("'{}' is no package: {}; `kerf compile MODEL -o DIR` writes one", folder, bytes.error().message)};
  auto program = package::readProgram(*bytes);
  if (!program)
    return Error{fmt::format("'{}': {}", (path / package::kProgramFile).string(), program.error().message)};
  LoadedPackage loaded{std::move(*program), {}};
  if (Status status = readCode(loaded.program, path); !status)
    return status.error();
  std::error_code code;
  if (!std::filesystem::exists(path / package::kWeightsFile, code))
    return loaded;
  auto weights = readTensors((path / package::kWeightsFile).string());
  if (!weights)
    return weights.error();
  loaded.weights = std::move(*weights);
  return loaded;
}

} // namespace kerf::runtime
