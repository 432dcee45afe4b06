// SPDX-License-Identifier: Apache-2.0
// Reads and writes the job of a plan.
#include "kerf/Compiler/SavedJob.h"
#include "kerf/Optimizer/Record.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace kerf {

namespace {

using Json = nlohmann::ordered_json;

std::string keyOf(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Returns whether all texts of `json` are UTF-8, which plan.json requires.
bool isUtf8(const Json &json) { return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace)) == json; }

} // namespace

const std::vector<std::string> &jobSettingNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"loss",
                                    "metric",
                                    "weights",
                                    "trainable",
                                    "frozen",
                                    "optimizer",
                                    "no-decay",
                                    "clip-norm",
                                    "accumulate",
                                    "group",
                                    "codec",
                                    "allow-biased",
                                    "compress-gathers",
                                    "dtype",
                                    "reduce-dtype",
                                    "loss-scale",
                                    "initial-loss-scale",
                                    "loss-scale-window",
                                    "global-batch",
                                    "sequence",
                                    "expert-capacity",
                                    "no-recognition",
                                    "accept-folded",
                                    "for",
                                    "memory",
                                    "margin",
                                    "all-ranks",
                                    "mode",
                                    "compress",
                                    "compress-codecs",
                                    "compress-ratio",
                                    "compress-first-step",
                                    "lr",
                                    "lr-schedule",
                                    "warmup",
                                    "total",
                                    "seed"};
    for (const OptimizerSetting &setting : allSettings())
      all.push_back(setting.name);
    return all;
  }();
  return names;
}

Result<std::optional<Job>> readJob(const Plan &plan, const std::string &file) {
  if (!plan.keptKeys.contains("job"))
    return std::optional<Job>();
  const Json &saved = plan.keptKeys.at("job");
  auto broken = [&](const std::string &what) {
    return Error{fmt::format("{}: \"job\" {}; `kerf plan -o` writes {{\"model\", \"options\", \"ranks\", \"cluster\", "
                             "\"constraints\"}}",
                             file, what)};
  };
  if (!saved.is_object())
    return broken(fmt::format("is {}, not an object", saved.dump()));
  Job job;
  for (const auto &[key, value] : saved.items()) {
    if (key == "model" && value.is_string()) {
      job.model = value.get<std::string>();
    } else if (key == "options" && value.is_object()) {
      job.options = value;
    } else if (key == "ranks" && value.is_number_integer() && value.get<int64_t>() > 0) {
      job.ranks = value.get<int64_t>();
    } else if (key == "cluster") {
      auto cluster = parseCluster(value.dump(), file + ", \"job.cluster\"");
      if (!cluster)
        return cluster.error();
      job.cluster = std::move(*cluster);
    } else if (key == "constraints") {
      auto constraints = parsePlan(value.dump(), file + ", \"job.constraints\"");
      if (!constraints)
        return constraints.error();
      job.constraints = std::move(*constraints);
    } else if (key == "outside" && value.is_array()) {
      continue; // a note on the result of the search, not an input
    } else if (key == "arguments") {
      return broken("has \"arguments\", because an older version of kerf wrote the plan; plan again");
    } else {
      return broken(fmt::format("has {}: {}, which is not a valid entry of a job", key, value.dump()));
    }
  }
  for (const auto &[key, value] : job.options.items())
    if (std::none_of(jobSettingNames().begin(), jobSettingNames().end(),
                     [&](const std::string &name) { return keyOf(name) == key; }))
      return broken(fmt::format("has the option \"{}\", which a job cannot have", key));
  return std::optional(std::move(job));
}

Status checkModelExists(const Job &job, const std::string &file) {
  std::error_code code;
  if (std::filesystem::exists(job.model, code))
    return ok();
  return Error{
      fmt::format("{}: the model '{}' of its job does not exist relative to the current folder '{}'; change to "
                  "the folder in which the plan was made, or give MODEL on the command line",
                  file, job.model, std::filesystem::current_path(code).string())};
}

Result<Json> completeJob(Json job, const Cluster &cluster, int64_t ranks, const Plan &constraints) {
  if (!isUtf8(job))
    return Error{"the path of the model or an option is not UTF-8, as plan.json requires; rename the file"};
  job["ranks"] = ranks;
  job["cluster"] = Json::parse(toJson(cluster));
  Plan pins = constraints;
  pins.keptKeys = Json::object();
  job["constraints"] = Json::parse(toJson(pins));
  return job;
}

} // namespace kerf
