// SPDX-License-Identifier: Apache-2.0
// Gathers data from ranks: scalar results on every rank; memory reports, results and weights on rank 0,
// which writes files.
#include "RankRun.h"
#include "Scalar.h"
#include "Shards.h"
#include "Trace.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/FlatProgram.h"

#include <algorithm>

namespace kerf::runtime {

using package::Arg;
using package::ArgKind;

/// Sets `value` to a scalar result of the program. Each rank of the stage that has the result sends it to the ranks at
/// the same place of the other stages.
Status RankRun::readScalar(int result, double &value) {
  if (auto local = executor->result(size_t(result))) {
    alignas(8) std::byte bytes[8];
    if (Status status = device->copyOut(bytes, local->data, bytesOf(local->dtype)); !status)
      return status;
    value = runtime::readScalar(local->dtype, bytes);
  }
  int64_t home = program.results[size_t(result)].stage, stages = package::stagesOf(program);
  if (home < 0 || stages == 1)
    return ok();
  if (stage != home)
    return communicator.receive(std::as_writable_bytes(std::span(&value, 1)),
                                package::rankOnStage(program, communicator.rank(), home), kStageTag);
  for (int64_t other = 0; other < stages; ++other)
    if (other != home)
      if (Status sent = communicator.startSend(std::as_bytes(std::span(&value, 1)),
                                               package::rankOnStage(program, communicator.rank(), other), kStageTag);
          !sent)
        return sent;
  return communicator.finishSends(kStageTag);
}

/// Sends the memory report of the first rank of each stage to rank 0.
Status RankRun::gatherMemory(RunReport &report) {
  int64_t rank = communicator.rank();
  if (rank != 0 && rank != package::rankOnStage(program, 0, stage))
    return ok();
  if (rank != 0) {
    if (Status sent = communicator.startSend(std::as_bytes(std::span(&report.memory, 1)), 0, kStageTag); !sent)
      return sent;
    return communicator.finishSends(kStageTag);
  }
  report.stageMemory.assign(size_t(package::stagesOf(program)), report.memory);
  for (int64_t other = 0; other < package::stagesOf(program); ++other)
    if (other != stage)
      if (Status received =
              communicator.receive(std::as_writable_bytes(std::span(&report.stageMemory[size_t(other)], 1)),
                                   package::rankOnStage(program, 0, other), kStageTag);
          !received)
        return received;
  return ok();
}

/// Returns, on rank 0 only, the global tensor whose shards the ranks of pipeline stage `stage` hold.
Result<std::optional<Tensor>> RankRun::gather(const std::optional<TensorView> &local, DType dtype, const Shape &shape,
                                              const Sharding &sharding, int64_t stage) {
  std::vector<std::byte> host;
  if (local) {
    host.resize(size_t(local->bytes()));
    if (Status status = device->copyOut(host.data(), local->data, local->bytes()); !status)
      return status.error();
  }
  return gatherShards(communicator, program, stage, shape, sharding, dtype, host.data());
}

Status RankRun::gatherResults(RunReport &report) {
  std::vector<bool> replaces(program.results.size(), false);
  for (const Arg &arg : program.args)
    if (arg.updatedBy >= 0)
      replaces[size_t(arg.updatedBy)] = true;
  for (size_t r = 0; r < program.results.size(); ++r) {
    if (replaces[r])
      continue;
    const package::EntryResult &result = program.results[r];
    auto whole = gather(executor->result(r), package::resultType(program, r), result.shape, result.sharding,
                        std::max<int64_t>(result.stage, 0));
    if (!whole)
      return whole.error();
    if (*whole)
      report.firstResults.emplace(result.name, std::move(**whole));
  }
  return ok();
}

Result<std::optional<Tensor>> RankRun::gatherArgument(size_t index, const std::vector<ArgumentPiece> &pieces) {
  const Arg &arg = program.args[index];
  int64_t stages = package::stagesOf(program), holder = 0;
  while (holder < stages && !package::hasArg(program, index, holder))
    ++holder;
  if (holder == stages) { // no instruction uses the argument, so it still has its initial content
    if (communicator.rank() != 0)
      return std::optional<Tensor>();
    auto converted = convertTensor(inputs.sources[index].tensor, arg.dtype);
    if (!converted)
      return converted.error();
    return std::optional<Tensor>(*converted);
  }
  std::optional<TensorView> local;
  for (const ArgumentPiece &piece : pieces)
    if (piece.arg == index)
      local = piece.tensor;
  return gather(local, arg.dtype, arg.shape, arg.sharding, holder);
}

Status RankRun::writeTrace() {
  auto text = chromeTrace(communicator, stage, executor->lastStep(), executor->lastOverlap());
  if (!text)
    return text.error();
  return agree(communicator, communicator.rank() == 0 ? writeFile(options.tracePath, *text) : ok());
}

Result<TensorMap> RankRun::gatherTensors(bool withStates) {
  TensorMap tensors;
  std::vector<ArgumentPiece> pieces = executor->arguments();
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    bool wanted = arg.kind == ArgKind::Parameter || arg.kind == ArgKind::Buffer ||
                  (arg.kind == ArgKind::State && withStates && !package::isAccumulator(arg));
    if (!wanted)
      continue;
    auto whole = gatherArgument(i, pieces);
    if (!whole)
      return whole.error();
    if (!*whole)
      continue;
    (*whole)->shape = arg.exportedShape;
    tensors.emplace(arg.name, std::move(**whole));
  }
  return tensors;
}

/// Passes the weights before step `nextStep` to the file and the function of the run's options, if given.
Status RankRun::saveTrained(int64_t nextStep) {
  if (Status status = checkFinite(nextStep); !status)
    return status;
  auto tensors = gatherTensors(options.saveStates);
  if (!tensors)
    return tensors.error();
  Status written = ok();
  if (communicator.rank() == 0 && !options.savePath.empty())
    written = writeSafetensors(options.savePath, *tensors);
  if (communicator.rank() == 0 && options.saveTo && written)
    written = options.saveTo(*tensors);
  return agree(communicator, written);
}

} // namespace kerf::runtime
