// SPDX-License-Identifier: Apache-2.0
// kerf simulate: what a plan would take on a cluster, and whether it would fit.
#include "Options.h"

#include "kerf/Compiler/Simulate.h"
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Json secondsJson(const std::map<std::string, double> &byAxis) {
  Json object = Json::object();
  for (const auto &[axis, seconds] : byAxis)
    object[axis] = seconds;
  return object;
}

Json toJson(const Simulated &simulated) {
  const Simulation &s = simulated.simulation;
  const Breakdown &b = s.breakdown;
  Json root, peak = Json::array(), stages = Json::array();
  for (const StageMemory &memory : s.memory) {
    peak.push_back(static_cast<int64_t>(memory.peakBytes));
    Json largest = Json::object();
    for (const auto &[name, bytes] : memory.largest)
      largest[name] = static_cast<int64_t>(bytes);
    stages.push_back({{"weights", static_cast<int64_t>(memory.weights)},
                      {"gradients", static_cast<int64_t>(memory.gradients)},
                      {"states", static_cast<int64_t>(memory.states)},
                      {"activations", static_cast<int64_t>(memory.activations)},
                      {"workspace", static_cast<int64_t>(memory.workspace)},
                      {"reserved_bytes", static_cast<int64_t>(memory.reservedBytes)},
                      {"device_bytes", static_cast<int64_t>(memory.deviceBytes)},
                      {"limit_bytes", static_cast<int64_t>(memory.limitBytes)},
                      {"moment", memory.moment},
                      {"largest", largest}});
  }
  root["step_seconds"] = s.stepSeconds;
  root["peak_bytes"] = peak;
  root["fits"] = s.fits;
  root["breakdown"] = {{"forward", b.forward},
                       {"backward", b.backward},
                       {"recompute", b.recompute},
                       {"optimizer", b.optimizer},
                       {"collectives", secondsJson(b.collectives)},
                       {"exposed", secondsJson(b.exposed)},
                       {"bubble", b.bubble}};
  root["tokens_per_second"] = s.tokensPerSecond;
  root["model_flops_utilization"] = s.modelFlopsUtilization;
  root["model_flops"] = simulated.work.modelFlops;
  root["ranks"] = simulated.mesh.ranks();
  root["memory"] = stages;
  return root;
}

std::string toText(const Simulated &simulated, const std::string &clusterName) {
  const Simulation &s = simulated.simulation;
  const Breakdown &b = s.breakdown;
  std::string text = fmt::format("{} ranks of {}\n", simulated.mesh.ranks(), clusterName);
  text += fmt::format("  step         {:.4g} s, {:.4g} tokens/s, {:.1f} % of peak\n", s.stepSeconds, s.tokensPerSecond,
                      100 * s.modelFlopsUtilization);
  text += fmt::format("  compute      forward {:.4g} s, backward {:.4g} s, recomputed {:.4g} s, optimizer {:.4g} s\n",
                      b.forward, b.backward, b.recompute, b.optimizer);
  for (const auto &[axis, seconds] : b.collectives) {
    auto exposed = b.exposed.find(axis);
    text += fmt::format("  collectives  {}: {:.4g} s, {:.4g} s of them waited for\n", axis, seconds,
                        exposed == b.exposed.end() ? 0.0 : exposed->second);
  }
  text += fmt::format("  bubble       {:.4g} s\n", b.bubble);
  const StageMemory *most = &s.memory.front();
  size_t stage = 0;
  for (size_t i = 0; i < s.memory.size(); ++i)
    if (s.memory[i].deviceBytes / s.memory[i].limitBytes > most->deviceBytes / most->limitBytes) {
      most = &s.memory[i];
      stage = i;
    }
  text += fmt::format("  memory       {:.2f} GiB allocated, {:.2f} GiB on the device, of {:.2f} GiB: {}\n",
                      most->peakBytes / kGiB, most->deviceBytes / kGiB, most->limitBytes / kGiB,
                      s.fits ? "fits" : "does not fit");
  text += fmt::format("               the most is on stage {}, in the {}\n", stage, most->moment);
  for (const auto &[name, bytes] : most->largest)
    text += fmt::format("               {:>10.2f} GiB  {}\n", bytes / kGiB, name);
  return text;
}

struct SimulateCommand {
  ModelFlags model;
  std::string cluster, plan, trace;
  int64_t ranks = 0;
  bool json = false;

  int run() {
    Plan given;
    if (!plan.empty()) {
      auto text = readFile(plan);
      if (!text)
        return fail(text.error());
      auto parsed = parsePlan(*text, plan);
      if (!parsed)
        return fail(parsed.error());
      given = std::move(*parsed);
    }
    auto machine = cluster.empty() ? thisMachine(ranks ? ranks : given.mesh().ranks()) : readCluster(cluster);
    if (!machine)
      return fail(machine.error());
    SimulateOptions options;
    options.step = model.toStepOptions();
    options.dtype = model.dtype;
    if (ranks)
      options.ranks = ranks;
    options.trace = trace.empty() ? Trace::No : Trace::Yes;
    auto context = createContext();
    auto simulated =
        simulatePlan(*context, model.model, given, plan.empty() ? "the empty plan" : plan, *machine, options);
    if (!simulated)
      return fail(simulated.error());
    for (const std::string &warning : simulated->warnings)
      fmt::print(stderr, "warning: {}\n", warning);
    if (!trace.empty())
      if (Status status = writeFile(trace, chromeTrace(simulated->simulation)); !status)
        return fail(status.error());
    if (json)
      fmt::print("{}\n", toJson(*simulated).dump(2));
    else
      fmt::print("{}", toText(*simulated, machine->name));
    return 0;
  }
};

} // namespace

void addSimulate(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<SimulateCommand>(
      app, "simulate",
      "Predict one plan without searching: seconds of a step, where they go, memory of each stage.\n"
      "What the plan leaves out has a default (docs/plan.md); layouts are Megatron-LM's.\n"
      "Example: kerf simulate config.json --cluster clusters/selene.json --plan plan.json --dtype bf16 "
      "--optimizer adamw --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16", "f8"});
  sub->add_option("--cluster", command->cluster,
                  "cluster.json (ready ones stand in clusters/); default: CPU ranks of this machine");
  sub->add_option("--plan", command->plan, "plan.json, complete or partial; default: the data axis over all ranks");
  sub->add_option("--ranks", command->ranks, "use the first N ranks (default: as many as the plan's mesh has)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  sub->add_option("--trace", command->trace, "write the timeline for chrome://tracing or Perfetto: T.json");
  sub->add_flag("--json", command->json, "everything as JSON on standard output");
}

} // namespace kerf::tool
