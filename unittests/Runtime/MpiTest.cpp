// SPDX-License-Identifier: Apache-2.0
// Runs under mpirun, or in the environment of torchrun. The results of this process as a rank must be equal, bit for
// bit, to those of the same rank as a thread.
// The option `--fail` gives rank 1 a bad label: the job must end with the label's error message.
#include "TestPipelines.h"

#include <cstdio>
#include <cstring>

using namespace kerf;
using namespace kerf::runtime;
using namespace kerf::runtime::test;

namespace {
int fail(int64_t rank, const std::string &what) {
  std::fprintf(stderr, "rank %d: %s\n", int(rank), what.c_str());
  return 1;
}

int collectives(Communicator &communicator) {
  std::mt19937 random(99);
  for (int trial = 0; trial < 60; ++trial) {
    CollectiveCase test = randomCase(random, communicator.size());
    if (runCase(test, communicator) != runCaseOnThreads(test)[size_t(communicator.rank())])
      return fail(communicator.rank(),
                  "trial " + std::to_string(trial) + ": " + test.instruction.op + " differs from threads");
  }
  return 0;
}

int training(Communicator &communicator) {
  int64_t ranks = communicator.size();
  auto program = classifier(ranks, 3, 11, 7, DType::F32);
  TensorMap data = classifierData(ranks, 3, 11, 7, 4);
  RunOptions options;
  options.steps = 6;
  options.learningRate = [](int64_t step) { return 0.1 / double(step + 1); };
  auto threads = runtime::run(program, {}, data, options);
  options.communicator = &communicator;
  auto processes = runtime::run(program, {}, data, options);
  if (!threads || !processes)
    return fail(communicator.rank(), (threads ? processes : threads).error().message);
  for (size_t step = 0; step < 6; ++step)
    if (threads->steps[step].loss != processes->steps[step].loss)
      return fail(communicator.rank(), "losses differ in step " + std::to_string(step));
  return 0;
}

int pipeline(Communicator &communicator) {
  PipelineCase test;
  test.schedule = package::ScheduleChoice{"1f1b", ""};
  test.parts = test.stages = communicator.size() / 2 + 1;
  test.data = communicator.size() / test.stages;
  if (test.stages * test.data != communicator.size())
    test.parts = test.stages = communicator.size(), test.data = 1;
  test.microbatches = 5;
  test.rows = 5 * test.data * 200; // messages of 8000 bytes, more than MPI sends eagerly
  test.skip = test.tied = test.norm = true;
  RunOptions options;
  options.steps = 4;
  options.learningRate = [](int64_t) { return 0.1; };
  package::Program program = pipelineProgram(test);
  TensorMap weights = pipelineWeights(test), data = pipelineData(test, 2);
  auto threads = runtime::run(program, weights, data, options);
  options.communicator = &communicator;
  auto processes = runtime::run(program, weights, data, options);
  if (!threads || !processes)
    return fail(communicator.rank(), (threads ? processes : threads).error().message);
  for (size_t step = 0; step < 4; ++step)
    if (threads->steps[step].loss != processes->steps[step].loss)
      return fail(communicator.rank(), "losses of stages differ in step " + std::to_string(step));
  return 0;
}
} // namespace

int main(int argc, char **argv) {
  auto launch = tcpLaunch();
  if (!launch)
    return fail(0, launch.error().message);
  auto created = *launch ? createTcpCommunicator(**launch, [](const std::string &) {}) : createMpiCommunicator();
  if (!created)
    return fail(0, created.error().message);
  Communicator &communicator = **created;
  if (argc > 1 && std::strcmp(argv[1], "--fail") == 0) {
    RunOptions options;
    options.steps = 4;
    options.communicator = &communicator;
    auto report = runtime::run(classifier(communicator.size(), 3, 11, 7, DType::F32), {},
                               classifierData(communicator.size(), 3, 11, 7, 4, 2, 1), options);
    if (!report && communicator.tellsErrors()) // over TCP; MPI ends the job before
      std::fprintf(stderr, "%s\n", report.error().message.c_str());
    return report ? 0 : 1;
  }
  int failures = collectives(communicator) + training(communicator) + pipeline(communicator);
  Status agreed = agree(communicator, failures ? Status(Error{"failed"}) : ok());
  return agreed ? 0 : fail(communicator.rank(), agreed.error().message);
}
