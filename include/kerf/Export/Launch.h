// SPDX-License-Identifier: Apache-2.0
// Files that start a training program on every node: a script, a Slurm batch script, or a job of Kubernetes or
// SkyPilot.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// The nodes on which a program is started, once on each.
struct LaunchNodes {
  int64_t nodes = 1;
  int64_t devices = 1; // number of devices on each node that the program uses
};

/// Returns the names of the launchers: "torchrun", "slurm", "kubernetes", "skypilot".
std::vector<std::string> launcherNames();

/// Returns a file that runs the shell script `script` on every node, with the variables NODE_RANK, MASTER_ADDR and
/// MASTER_PORT set where there are several nodes. `launcher` is one of launcherNames(); for "torchrun" the script
/// itself is returned, which is started on every node by hand with these variables.
std::string launchFile(std::string_view launcher, const std::string &script, const LaunchNodes &nodes);

/// Returns the command that a user starts a launcher's file with: "sbatch train.sh".
std::string launchCommand(std::string_view launcher, const std::string &path);

/// Returns a shell script of a launch line: a head of comments, a check of the variables of several nodes, and the
/// line, to which the script's own arguments are added.
std::string launchScript(const std::vector<std::string> &head, const std::string &line, const LaunchNodes &nodes);

/// Returns the end of the name of a launcher's file: ".sh" or ".yaml".
std::string_view launchSuffix(std::string_view launcher);

} // namespace kerf
