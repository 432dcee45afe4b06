// SPDX-License-Identifier: Apache-2.0
#include "kerf/Export/Launch.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf {

namespace {

std::string indented(const std::string &text, const std::string &by) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    out += end > at ? by + text.substr(at, end - at) + "\n" : "\n";
    at = end + 1;
  }
  return out;
}

std::string withoutFirstLine(const std::string &script) {
  return script.starts_with("#!") ? script.substr(script.find('\n') + 1) : script;
}

std::string torchrunFile(const std::string &script, const LaunchNodes &) { return script; }

/// Slurm starts one task on each node, which gets the script by its text and starts the node's processes.
std::string slurmFile(const std::string &script, const LaunchNodes &n) {
  return fmt::format(R"(#!/bin/bash
#SBATCH --nodes={} --ntasks-per-node=1 --gpus-per-node={} --exclusive
#SBATCH --time=24:00:00 --signal=TERM@120
set -eu
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
read -r -d '' script <<'SCRIPT' || true
export NODE_RANK=$SLURM_NODEID
{}SCRIPT
srun --ntasks-per-node=1 bash -c "$script" node "$@"
)",
                     n.nodes, n.devices, withoutFirstLine(script));
}

/// An indexed job, whose pods find the first one by the name that the headless service gives it.
std::string kubernetesFile(const std::string &script, const LaunchNodes &n) {
  return fmt::format(R"(apiVersion: v1
kind: Service
metadata:
  name: kerf-training
spec:
  clusterIP: None
  selector:
    job-name: kerf-training
---
apiVersion: batch/v1
kind: Job
metadata:
  name: kerf-training
spec:
  completionMode: Indexed
  completions: {0}
  parallelism: {0}
  backoffLimit: 0
  template:
    spec:
      subdomain: kerf-training
      restartPolicy: Never
      containers:
        - name: training
          image: YOUR_IMAGE  # with the trainer and the data, and the files of this export in its working directory
          resources:
            limits:
              nvidia.com/gpu: {1}
          env:
            - name: MASTER_ADDR
              value: kerf-training-0.kerf-training
            - name: MASTER_PORT
              value: "29500"
            - name: NODE_RANK
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
          command:
            - bash
            - -c
            - |
{2})",
                     n.nodes, n.devices, indented(withoutFirstLine(script), "              "));
}

std::string skypilotFile(const std::string &script, const LaunchNodes &n) {
  return fmt::format(R"(name: kerf-training
num_nodes: {}
resources:
  accelerators: YOUR_GPU:{}  # the name of the device at SkyPilot
run: |
  export NODE_RANK=$SKYPILOT_NODE_RANK MASTER_PORT=29500
  export MASTER_ADDR=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
{})",
                     n.nodes, n.devices, indented(withoutFirstLine(script), "  "));
}

/// A launcher: its name, the end of its file's name, what stands before the file's name to start it, and the function
/// that writes the file.
struct Launcher {
  std::string_view name, suffix, start;
  std::string (*write)(const std::string &, const LaunchNodes &);
};
constexpr Launcher kLaunchers[] = {{"torchrun", ".sh", "", torchrunFile},
                                   {"slurm", ".sh", "sbatch ", slurmFile},
                                   {"kubernetes", ".yaml", "kubectl apply -f ", kubernetesFile},
                                   {"skypilot", ".yaml", "sky launch ", skypilotFile}};

const Launcher &launcherOf(std::string_view name) {
  return *std::find_if(std::begin(kLaunchers), std::end(kLaunchers),
                       [&](const Launcher &one) { return one.name == name; });
}

} // namespace

std::vector<std::string> launcherNames() {
  std::vector<std::string> names;
  for (const Launcher &one : kLaunchers)
    names.emplace_back(one.name);
  return names;
}

std::string_view launchSuffix(std::string_view launcher) { return launcherOf(launcher).suffix; }

std::string launchFile(std::string_view launcher, const std::string &script, const LaunchNodes &nodes) {
  return launcherOf(launcher).write(script, nodes);
}

std::string launchCommand(std::string_view launcher, const std::string &path) {
  std::string_view start = launcherOf(launcher).start;
  return fmt::format("{}{}", start.empty() && path.find('/') == std::string::npos ? "./" : start, path);
}

std::string launchScript(const std::vector<std::string> &head, const std::string &line, const LaunchNodes &nodes) {
  std::string text = "#!/bin/sh\n";
  for (const std::string &comment : head)
    text += comment.empty() ? "#\n" : "# " + comment + "\n";
  text += "set -eu\n";
  if (nodes.nodes > 1)
    text += ": \"${NODE_RANK:?the number of this node, from 0}\" \"${MASTER_ADDR:?the address of node 0}\"\n";
  return text + "exec env " + line + " \"$@\"\n";
}

} // namespace kerf
