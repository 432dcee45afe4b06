// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/RunSettings.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime {

namespace {
using Json = nlohmann::ordered_json;

/// Returns a member of a JSON object, or null if it is missing.
Json member(const Json &json, const char *key) { return json.is_object() && json.contains(key) ? json[key] : Json(); }

std::string textOf(const Json &json) { return json.is_string() ? json.get<std::string>() : ""; }

template <typename T> T numberOf(const Json &json, T otherwise) { return json.is_number() ? json.get<T>() : otherwise; }

/// Returns the axes of a mesh as text, for example "data 2 x model 4".
std::string meshText(const Json &mesh) {
  std::string text;
  for (const Json &axis : mesh.is_array() ? mesh : Json::array())
    if (axis.is_array() && axis.size() == 2 && axis[0].is_string() && axis[1].is_number())
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", textOf(axis[0]), axis[1].get<int64_t>());
  return text.empty() ? "one rank" : text;
}

Json meshJson(const Mesh &mesh) {
  Json json = Json::array();
  for (const MeshAxis &axis : mesh.axes)
    json.push_back({axis.name, axis.size});
  return json;
}
} // namespace

DataOrder dataOrder(const RequestedSettings &requested, const Checkpoint *resumed) {
  Json made = resumed ? member(resumed->index.info, "data") : Json();
  auto isSet = [&](const char *key) {
    Json value = member(made, key);
    return value.is_boolean() && value.get<bool>();
  };
  return {requested.samples || isSet("samples"), requested.shuffle || isSet("shuffle"),
          requested.seed.value_or(resumed ? resumed->index.seed : 0)};
}

/// Returns the number of the batch with which a resumed run begins. The run's steps may take another number of batches
/// than those of the run that wrote the checkpoint.
static int64_t nextBatch(const CheckpointIndex &index) {
  Json made = member(index.info, "data");
  int64_t firstStep = numberOf<int64_t>(member(made, "first_step"), 0),
          perStep = numberOf<int64_t>(member(made, "batches_per_step"), 1);
  return numberOf<int64_t>(member(made, "first_batch"), firstStep * perStep) + (index.nextStep - firstStep) * perStep;
}

Result<RunSettings> runSettings(const RequestedSettings &requested, const BatchCounts &batches,
                                const Checkpoint *resumed) {
  RunSettings settings;
  settings.perStep = batches.perStep;
  settings.endStep = requested.steps.value_or(std::max<int64_t>(1, batches.inData / batches.perStep));
  settings.learningRate.total = settings.endStep;
  if (resumed) {
    settings.firstStep = resumed->index.nextStep;
    settings.seed = resumed->index.seed;
    Json made = member(resumed->index.info, "schedule");
    if (std::string name = textOf(member(made, "name")); !name.empty())
      settings.learningRate.schedule = name;
    settings.learningRate.peak = numberOf(member(made, "lr"), settings.learningRate.peak);
    settings.learningRate.warmup = numberOf(member(made, "warmup"), settings.learningRate.warmup);
    settings.learningRate.total = numberOf(member(made, "total"), settings.learningRate.total);
  }
  settings.learningRate.schedule = requested.schedule.value_or(settings.learningRate.schedule);
  settings.learningRate.peak = requested.lr.value_or(settings.learningRate.peak);
  settings.learningRate.warmup = requested.warmup.value_or(settings.learningRate.warmup);
  settings.learningRate.total = requested.total.value_or(settings.learningRate.total);
  settings.seed = requested.seed.value_or(settings.seed);
  settings.order = dataOrder(requested, resumed);
  settings.firstBatch = resumed ? nextBatch(resumed->index) : 0;
  if (settings.endStep < settings.firstStep)
    return Error{fmt::format("<steps> counts from the beginning of training: it is {}, and '{}' is at step {}; give "
                             "a larger number of <steps>",
                             settings.endStep, resumed->folder, settings.firstStep)};
  return settings;
}

Json checkpointInfo(const package::Program &program, const RunSettings &settings) {
  Json info;
  for (const char *key : {"model", "model_hash", "plan"})
    if (Json value = member(program.info, key); !value.is_null())
      info[key] = value;
  info["mesh"] = meshJson(program.mesh);
  info["schedule"] = {{"name", settings.learningRate.schedule},
                      {"lr", settings.learningRate.peak},
                      {"warmup", settings.learningRate.warmup},
                      {"total", settings.learningRate.total}};
  info["data"] = {{"samples", settings.order.samples},
                  {"shuffle", settings.order.shuffle},
                  {"first_step", settings.firstStep},
                  {"first_batch", settings.firstBatch},
                  {"batches_per_step", settings.perStep}};
  return info;
}

std::string resumeText(const Checkpoint &resumed, const package::Program &program, const RunSettings &settings,
                       int64_t dataSteps) {
  const CheckpointIndex &index = resumed.index;
  constexpr double kMegabyte = 1e6;
  std::string text =
      fmt::format("resuming '{}': step {} of {}, {} tensors, {:.1f} MB, made on {}; here {}\n", resumed.folder,
                  settings.firstStep, settings.endStep, index.tensors.size(), double(index.bytes()) / kMegabyte,
                  meshText(member(index.info, "mesh")), meshText(meshJson(program.mesh)));
  std::string then = textOf(member(index.info, "model_hash")), now = textOf(member(program.info, "model_hash"));
  if (!then.empty() && !now.empty() && then != now)
    text += fmt::format("note: the checkpoint was made with another graph of the same tensors ('{}'): the batch or the "
                        "model differs\n",
                        textOf(member(index.info, "model")));
  if (auto reset = resetStates(resumed, program); !reset.empty())
    text +=
        fmt::format("note: {} state{} of compressed gradients, such as '{}', start{} as zeros, because the checkpoint "
                    "does not have {} for these ranks\n",
                    reset.size(), reset.size() == 1 ? "" : "s", reset.front(), reset.size() == 1 ? "s" : "",
                    reset.size() == 1 ? "it" : "them");
  if (index.dataSteps != dataSteps)
    text += fmt::format("note: the data had {} batches when the checkpoint was made and has {} now; training continues "
                        "with batch {}\n",
                        index.dataSteps, dataSteps, settings.firstBatch % dataSteps);
  if (settings.learningRate.schedule != "constant" && settings.learningRate.total < settings.endStep)
    text += fmt::format("note: the learning rate is 0 from step {} on, where its schedule ends; <total> sets that "
                        "step\n",
                        settings.learningRate.total);
  if (settings.firstStep == settings.endStep)
    text += "note: nothing is left to train; <steps> counts from the beginning of training\n";
  return text;
}

} // namespace kerf::runtime
