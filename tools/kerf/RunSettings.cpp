// SPDX-License-Identifier: Apache-2.0
#include "RunSettings.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace kerf::tool {

namespace {
using Json = nlohmann::ordered_json;

/// A member of an object, or null.
Json member(const Json &json, const char *key) { return json.is_object() && json.contains(key) ? json[key] : Json(); }

std::string textOf(const Json &json) { return json.is_string() ? json.get<std::string>() : ""; }

template <typename T> T numberOf(const Json &json, T otherwise) { return json.is_number() ? json.get<T>() : otherwise; }

/// "data 2 x model 4"
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

/// As Hugging Face's get_*_schedule_with_warmup, but that a schedule stays at 0 after its end.
double RunSettings::scheduleFactor(int64_t step) const {
  if (step < warmup)
    return static_cast<double>(step) / static_cast<double>(warmup);
  double done = static_cast<double>(step - warmup) / static_cast<double>(std::max<int64_t>(1, total - warmup));
  done = std::min(1.0, done);
  if (schedule == "linear")
    return 1 - done;
  if (schedule == "cosine")
    return 0.5 * (1 + std::cos(std::numbers::pi * done));
  return 1;
}

runtime::DataOrder dataOrder(const RunFlags &flags, const runtime::Checkpoint *resumed) {
  Json made = resumed ? member(resumed->index.info, "data") : Json();
  auto isSet = [&](const char *key) {
    Json value = member(made, key);
    return value.is_boolean() && value.get<bool>();
  };
  return {flags.samples || isSet("samples"), flags.shuffle || isSet("shuffle"),
          flags.seed.value_or(resumed ? resumed->index.seed : 0)};
}

/// The batch that a resumed run begins with. Its steps may take another number of batches than the checkpoint's.
static int64_t nextBatch(const runtime::CheckpointIndex &index) {
  Json made = member(index.info, "data");
  int64_t firstStep = numberOf<int64_t>(member(made, "first_step"), 0),
          perStep = numberOf<int64_t>(member(made, "batches_per_step"), 1);
  return numberOf<int64_t>(member(made, "first_batch"), firstStep * perStep) + (index.nextStep - firstStep) * perStep;
}

Result<RunSettings> toSettings(const RunFlags &flags, const BatchCounts &batches, const runtime::Checkpoint *resumed) {
  RunSettings settings;
  settings.perStep = batches.perStep;
  settings.endStep = flags.steps.value_or(std::max<int64_t>(1, batches.inData / batches.perStep));
  settings.total = settings.endStep;
  if (resumed) {
    settings.firstStep = resumed->index.nextStep;
    settings.seed = resumed->index.seed;
    Json made = member(resumed->index.info, "schedule");
    if (std::string name = textOf(member(made, "name")); !name.empty())
      settings.schedule = name;
    settings.lr = numberOf(member(made, "lr"), settings.lr);
    settings.warmup = numberOf(member(made, "warmup"), settings.warmup);
    settings.total = numberOf(member(made, "total"), settings.total);
  }
  settings.schedule = flags.schedule.value_or(settings.schedule);
  settings.lr = flags.lr.value_or(settings.lr);
  settings.warmup = flags.warmup.value_or(settings.warmup);
  settings.total = flags.total.value_or(settings.total);
  settings.seed = flags.seed.value_or(settings.seed);
  settings.order = dataOrder(flags, resumed);
  settings.firstBatch = resumed ? nextBatch(resumed->index) : 0;
  if (settings.endStep < settings.firstStep)
    return Error{fmt::format("--steps counts from the beginning of training: it is {}, and '{}' is at step {}; give "
                             "--steps more than that",
                             settings.endStep, resumed->folder, settings.firstStep)};
  return settings;
}

Result<std::optional<runtime::Checkpoint>> openResumed(const RunFlags &flags) {
  if (flags.checkpoint.empty() && (flags.every || flags.keep))
    return Error{fmt::format("{} is about checkpoints: give --checkpoint DIR too", flags.every ? "--every" : "--keep")};
  if (flags.resume.empty())
    return std::optional<runtime::Checkpoint>();
  auto opened = runtime::openCheckpoint(flags.resume);
  if (!opened)
    return opened.error();
  return std::optional<runtime::Checkpoint>(std::move(*opened));
}

Json checkpointInfo(const package::Program &program, const RunSettings &settings) {
  Json info;
  for (const char *key : {"model", "model_hash", "plan"})
    if (Json value = member(program.info, key); !value.is_null())
      info[key] = value;
  info["mesh"] = meshJson(program.mesh);
  info["schedule"] = {
      {"name", settings.schedule}, {"lr", settings.lr}, {"warmup", settings.warmup}, {"total", settings.total}};
  info["data"] = {{"samples", settings.order.samples},
                  {"shuffle", settings.order.shuffle},
                  {"first_step", settings.firstStep},
                  {"first_batch", settings.firstBatch},
                  {"batches_per_step", settings.perStep}};
  return info;
}

std::string resumeText(const runtime::Checkpoint &resumed, const package::Program &program, const RunSettings &settings,
                       int64_t dataSteps) {
  const runtime::CheckpointIndex &index = resumed.index;
  constexpr double kMegabyte = 1e6;
  std::string text =
      fmt::format("resuming '{}': step {} of {}, {} tensors, {:.1f} MB, made on {}; here {}\n", resumed.folder,
                  settings.firstStep, settings.endStep, index.tensors.size(), double(index.bytes()) / kMegabyte,
                  meshText(member(index.info, "mesh")), meshText(meshJson(program.mesh)));
  std::string then = textOf(member(index.info, "model_hash")), now = textOf(member(program.info, "model_hash"));
  if (!then.empty() && !now.empty() && then != now)
    text += fmt::format("note: it was made with another graph of the same tensors ('{}'): another batch, or another "
                        "model\n",
                        textOf(member(index.info, "model")));
  if (index.dataSteps != dataSteps)
    text += fmt::format("note: the data had {} batches when it was made, here it has {}: the next one is {}\n",
                        index.dataSteps, dataSteps, settings.firstBatch % dataSteps);
  if (settings.schedule != "constant" && settings.total < settings.endStep)
    text += fmt::format("note: the learning rate is 0 from step {} on, where its schedule ends; --total moves that\n",
                        settings.total);
  if (settings.firstStep == settings.endStep)
    text += "note: nothing is left to train; --steps counts from the beginning of training\n";
  return text;
}

} // namespace kerf::tool
