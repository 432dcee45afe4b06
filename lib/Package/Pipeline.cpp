// SPDX-License-Identifier: Apache-2.0
// Numbers of ranks, pipeline stages and microbatches of a program, and of batches in one optimizer step.
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/ProgramSchedule.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::package {

namespace {
int64_t sizeOf(const Mesh &mesh, std::string_view axis) {
  int index = mesh.find(axis);
  return index < 0 ? 1 : mesh.axes[size_t(index)].size;
}
} // namespace

bool isOncePerStep(Phase phase) { return phase == Phase::Prepare || phase == Phase::Update; }

int64_t microbatchesOf(const Program &program) { return sizeOf(program.mesh, kMicrobatchAxis); }
int64_t stagesOf(const Program &program) { return sizeOf(program.mesh, kStageAxis); }
Result<Schedule> scheduleOf(const Program &program) {
  auto options = scheduleOptions(program.schedule->name, program.schedule->variant, stagesOf(program),
                                 microbatchesOf(program), program.schedule->chunks);
  if (!options)
    return options.error();
  options->inFlight = program.schedule->inFlight;
  return makeSchedule(*options);
}
int64_t ranksOf(const Program &program) { return program.mesh.ranks() / microbatchesOf(program); }

namespace {
/// Returns the product of the axes that come after `microbatch` in the mesh.
int64_t ranksBehindTime(const Mesh &mesh) {
  int64_t ranks = 1;
  for (size_t i = size_t(mesh.find(kMicrobatchAxis) + 1); i < mesh.axes.size(); ++i)
    ranks *= mesh.axes[i].size;
  return ranks;
}
} // namespace

int64_t virtualRank(const Program &program, int64_t rank, int64_t microbatch) {
  int64_t behind = ranksBehindTime(program.mesh);
  return (rank / behind * microbatchesOf(program) + microbatch) * behind + rank % behind;
}

int64_t realRank(const Mesh &mesh, int64_t virtualRank) {
  int64_t behind = ranksBehindTime(mesh);
  return virtualRank / behind / sizeOf(mesh, kMicrobatchAxis) * behind + virtualRank % behind;
}

int64_t stageOf(const Program &program, int64_t rank) {
  int axis = program.mesh.find(kStageAxis);
  return axis < 0 ? 0 : program.mesh.coordinate(virtualRank(program, rank, 0), axis);
}

int64_t rankOnStage(const Program &program, int64_t rank, int64_t stage) {
  int axis = program.mesh.find(kStageAxis);
  if (axis < 0)
    return rank;
  AxisRef ref = wholeAxis(program.mesh, axis);
  return realRank(program.mesh, rankAt(program.mesh, std::span(&ref, 1), virtualRank(program, rank, 0), stage));
}

Result<int64_t> batchesOfStep(const Program &program) {
  constexpr int64_t kMost = 1 << 30;
  const auto accumulators = std::count_if(program.args.begin(), program.args.end(), isAccumulator);
  auto given = program.info.is_object() ? program.info.find(kAccumulateKey) : program.info.end();
  int64_t batches = 1;
  if (program.info.is_object() && given != program.info.end()) {
    if (!given->is_number_integer() || *given < 1 || *given > kMost)
      return Error{fmt::format("info.{} of the program is {}, but must be a number of batches from 1 to {}; "
                               "compile the model again",
                               kAccumulateKey, given->dump(), kMost)};
    batches = given->get<int64_t>();
  }
  if ((batches > 1) != (accumulators > 0))
    return Error{fmt::format("info.{} of the program is {}, but it has {} arguments '{}...'; compile the model again",
                             kAccumulateKey, batches, accumulators, kAccumulatedPrefix)};
  return batches;
}

} // namespace kerf::package
