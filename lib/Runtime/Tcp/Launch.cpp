// SPDX-License-Identifier: Apache-2.0
// Reads from the environment how this process was started. torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
// The agent of torchrun listens at MASTER_PORT itself, so rank 0 listens at the next port.
#include "kerf/Runtime/Communicator.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace kerf::runtime {

namespace {
constexpr int64_t kMostRanks = 1 << 16;
constexpr int64_t kUsualMasterPort = 29500; // that of torchrun

/// Returns the value of a variable, or null where it is absent or empty.
const char *variable(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

/// Returns the whole number in a variable. Fails if it is not from `least` to `most`.
Result<int64_t> numberIn(const char *name, int64_t least, int64_t most) {
  std::string_view text = variable(name) ? variable(name) : "";
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return Error{
        fmt::format("the variable {} is '{}'; set it to a whole number from {} to {}", name, text, least, most)};
  return number;
}

/// The variables with the number of a process and the number of processes.
struct Names {
  const char *rank, *ranks;
};

/// Returns the variables that say which rank this process is, or nothing if it was started alone.
std::optional<Names> namesOf() {
  if (variable("TORCHELASTIC_RUN_ID") || (variable("RANK") && variable("WORLD_SIZE")) ||
      (variable("MASTER_ADDR") && (variable("RANK") || variable("WORLD_SIZE"))))
    return Names{"RANK", "WORLD_SIZE"};
  // A batch script has SLURM_PROCID too, but only srun sets the number of tasks of the step.
  if (variable("MASTER_ADDR") && variable("SLURM_PROCID") && variable("SLURM_STEP_NUM_TASKS"))
    return Names{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};
  return std::nullopt;
}

/// Returns the port at which rank 0 listens.
Result<int> listeningPort() {
  if (variable("KERF_PORT")) {
    auto port = numberIn("KERF_PORT", 1, 65535);
    return port ? Result<int>(int(*port)) : port.error();
  }
  if (!variable("MASTER_PORT"))
    return int(kUsualMasterPort + 1);
  auto port = numberIn("MASTER_PORT", 1, 65534);
  return port ? Result<int>(int(*port + 1)) : port.error();
}

Result<double> joinSeconds(double usual) {
  const char *text = variable("KERF_JOIN_SECONDS");
  if (!text)
    return usual;
  char *end = nullptr;
  double seconds = std::strtod(text, &end);
  if (*end || !std::isfinite(seconds) || seconds <= 0 || seconds > 1e6)
    return Error{fmt::format("the variable KERF_JOIN_SECONDS is '{}'; set it to a number of seconds above 0 and up to "
                             "1000000",
                             text)};
  return seconds;
}
} // namespace

bool launchedByMpi() {
  // The variables are set by Open MPI, by MPICH, Intel MPI and srun --mpi=pmi2 (two), and by PMIx launchers.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name))
      return true;
  return false;
}

Result<std::optional<TcpLaunch>> tcpLaunch() {
  std::optional<Names> names = launchedByMpi() ? std::nullopt : namesOf();
  if (!names)
    return std::optional<TcpLaunch>();
  for (const char *name : {names->rank, names->ranks, "MASTER_ADDR"})
    if (!variable(name))
      return Error{fmt::format("this process was started as one of several ranks, but the variable {0} is not set; set "
                               "{0} too (docs/several-nodes.md), or unset RANK, WORLD_SIZE and TORCHELASTIC_RUN_ID to "
                               "run alone",
                               name)};
  auto ranks = numberIn(names->ranks, 1, kMostRanks);
  if (!ranks)
    return ranks.error();
  auto rank = numberIn(names->rank, 0, *ranks - 1);
  if (!rank)
    return rank.error();
  auto port = listeningPort();
  if (!port)
    return port.error();
  TcpLaunch launch{*rank, *ranks, variable("MASTER_ADDR"), *port, "", 300};
  if (const char *secret = variable("KERF_SECRET"))
    launch.secret = secret;
  else if (const char *run = variable("TORCHELASTIC_RUN_ID"))
    launch.secret = run;
  auto seconds = joinSeconds(launch.joinSeconds);
  if (!seconds)
    return seconds.error();
  launch.joinSeconds = *seconds;
  return std::optional(launch);
}

bool launchedAsRank() { return launchedByMpi() || namesOf().has_value(); }

Result<int64_t> rankOnMachine(int64_t rank) {
  if (launchedByMpi()) {
    for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"})
      if (const char *value = variable(name))
        return int64_t(std::atoi(value));
    return rank;
  }
  std::optional<Names> names = namesOf();
  if (!names)
    return rank;
  for (const char *name : {"LOCAL_RANK", "SLURM_LOCALID"})
    if (variable(name))
      return numberIn(name, 0, kMostRanks);
  return Error{"the variable LOCAL_RANK, the number of this process among those of its machine, is not set; set it, or "
               "name the GPU of each process (cuda:0)"};
}

} // namespace kerf::runtime
