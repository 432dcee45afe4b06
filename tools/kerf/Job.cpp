// SPDX-License-Identifier: Apache-2.0
#include "Job.h"
#include "kerf/Optimizer/Record.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

/// An option that determines the results or the duration of a training step.
struct JobOption {
  std::string name;
  /// Names of the options on which the meaning of this option depends. When one of them is typed and differs from the
  /// job, the job's value of this option is not taken.
  std::vector<const char *> meantBy = {};
  bool ofRun = false; // true if only the runtime reads the option: plan and program do not depend on it
  bool free = ofRun;  // true if a job without this option accepts any value typed on the command line
};

std::vector<JobOption> makeJobOptions() {
  std::vector<JobOption> options = {
      {"loss"},
      {"metric", {}, false, true},
      {"weights", {}, false, true},
      {"trainable"},
      {"frozen"},
      {"optimizer"},
      {"no-decay"},
      {"clip-norm"},
      {"accumulate", {}, false, true},
      {"group", {}, false, true},
      {"codec", {}, false, true},
      {"allow-biased", {}, false, true},
      {"compress-gathers", {}, false, true},
      {"dtype"},
      {"reduce-dtype", {"dtype"}},
      {"loss-scale", {"dtype"}},
      {"initial-loss-scale", {"dtype", "loss-scale"}},
      {"loss-scale-window", {"dtype", "loss-scale"}},
      {"global-batch"},
      {"sequence"},
      {"expert-capacity"},
      {"no-recognition"},
      {"accept-folded", {}, false, true},
      {"for", {}, false, true},
      {"memory", {}, false, true},
      {"margin", {}, false, true},
      {"all-ranks", {}, false, true},
      {"mode"},
      {"compress", {}, false, true},
      {"compress-codecs", {"compress"}, false, true},
      {"compress-ratio", {"compress"}, false, true},
      {"compress-first-step", {"compress"}, false, true},
      {"lr", {}, true},
      {"lr-schedule", {}, true},
      {"warmup", {}, true},
      {"total", {}, true},
      {"seed", {}, true},
  };
  for (const OptimizerSetting &setting : allSettings())
    options.push_back({setting.name, {"optimizer"}});
  return options;
}

const std::vector<JobOption> &jobOptions() {
  static const std::vector<JobOption> options = makeJobOptions();
  return options;
}

std::string keyOf(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool isFlag(const CLI::Option &option) { return option.get_expected_min() == 0; }
bool isList(const CLI::Option &option) { return option.get_expected_max() > 1; }

std::optional<double> numberIn(const std::string &text) {
  double value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Returns the current values of the option: the typed ones, or else its default. Empty: the option has no value.
Words valuesOf(const CLI::Option &option) {
  if (option.count())
    return option.results();
  std::string usual = option.get_default_str();
  return usual.empty() || isFlag(option) ? Words{} : Words{usual};
}

/// Returns the default of an optimizer setting, so that a job stores all settings of the optimizer. Returns nothing
/// when parameter groups use several optimizers: a job then stores only what was typed, because a value applies to each
/// of the optimizers.
Words usualOf(const CLI::App &command, const std::string &setting) {
  const CLI::Option *optimizer = command.get_option_no_throw("--optimizer");
  const CLI::Option *groups = command.get_option_no_throw("--group");
  const OptimizerRecord *record = optimizer ? findOptimizer(valuesOf(*optimizer).back()) : nullptr;
  if (!record || record->fallback ||
      (groups && fmt::format("{}", fmt::join(groups->results(), " ")).find("optimizer=") != std::string::npos))
    return {};
  for (const OptimizerSetting &its : record->settings)
    if (its.name == setting)
      return {its.kind == SettingKind::Switch ? (its.defaultValue ? "true" : "false")
                                              : fmt::format("{}", its.defaultValue)};
  return {};
}

/// Returns `value` as a JSON number for a numeric option, and as a JSON string otherwise (an output may be named
/// "1234").
Json toJson(const std::string &value, const CLI::Option &option) {
  std::string type = option.get_type_name();
  if (type.starts_with("FLOAT") || type.starts_with("INT") || type.starts_with("UINT"))
    if (Json number = Json::parse(value, nullptr, /*allow_exceptions=*/false); number.is_number())
      return number;
  return value;
}

/// Returns the values on a command line that stand for the job's JSON value. Fails for null and for objects; `where`
/// names the value in messages.
Result<Words> wordsOf(const Json &value, const std::string &where) {
  auto word = [](const Json &one) { return one.is_string() ? one.get<std::string>() : one.dump(); };
  Words words;
  for (const Json &one : value.is_array() ? value : Json::array({value})) {
    if (one.is_structured() || one.is_null())
      return Error{fmt::format("{} is {}; it has to be a text, a number, true or false, or a list of texts", where,
                               value.dump())};
    words.push_back(word(one));
  }
  return words;
}

bool sameValues(const Words &a, const Words &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const std::string &one, const std::string &other) {
    auto first = numberIn(one), second = numberIn(other);
    return one == other || (first && second && *first == *second);
  });
}

/// Returns whether the current value of the option differs from the job's value.
bool differs(const CLI::Option &option, const Json &jobs) {
  auto words = wordsOf(jobs, "");
  return !words || !sameValues(valuesOf(option), *words);
}

/// Returns whether this process is the only one, or rank 0 of several, and prints the notes of all processes.
bool isFirstProcess() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "SLURM_PROCID"})
    if (const char *rank = std::getenv(name))
      return std::string_view(rank) == "0";
  return true;
}

/// Prints a note that the typed value is used instead of the value `its` of the plan or package (`owner`).
void tellDifference(const std::string &typed, const std::string &owner, const std::string &its) {
  if (isFirstProcess())
    fmt::print(stderr, "note: {} instead of the {}'s {}\n", typed, owner, its);
}

void tellDifference(const CLI::Option &option, const std::string &owner, const Json *jobs) {
  std::string name = option.get_name();
  Words typed = valuesOf(option);
  auto words = jobs ? wordsOf(*jobs, "") : Words();
  tellDifference(isFlag(option) ? name : fmt::format("{} {}", name, fmt::join(typed, " ")), owner,
                 words && !words->empty() ? fmt::format("{}", fmt::join(*words, " ")) : "default");
}

/// Sets the option to a value of a job.
Status setFromJob(CLI::Option &option, const Json &value, const std::string &file, const std::string &command) {
  auto words = wordsOf(value, fmt::format("{}: job.options.{}", file, keyOf(option.get_lnames().front())));
  if (!words)
    return words.error();
  try {
    if (isFlag(option) && option.get_fnames().empty() && *words == Words{"false"})
      return ok();
    for (const std::string &word : *words)
      option.add_result(word);
    option.run_callback();
  } catch (const CLI::ParseError &error) {
    return Error{
        fmt::format("{}: the plan's job has {} {}, which `kerf {}` does not accept: {}; give {} on the command line",
                    file, option.get_name(), fmt::join(*words, " "), command, error.what(), option.get_name())};
  }
  return ok();
}

/// Sets --global-batch of a config.json's model, which has no batch of its own, to the batch of the plan.
Status setBatchFromPlan(CLI::App &command, const Plan &plan, const std::string &file) {
  CLI::Option *batch = command.get_option_no_throw("--global-batch");
  CLI::Option *model = command.get_option_no_throw("MODEL");
  if (!batch || batch->count() || !plan.globalBatch || !model || model->empty() ||
      !model->results().front().ends_with(".json"))
    return ok();
  return setFromJob(*batch, plan.globalBatch, file, command.get_name());
}

} // namespace

Status applyJobOptions(CLI::App &command, const Job &job, const std::string &file, JobPart part) {
  auto typed = [&](const std::string &name) -> CLI::Option * {
    CLI::Option *option = command.get_option_no_throw(fmt::format("--{}", name));
    return option && option->count() ? option : nullptr;
  };
  auto jobs = [&](const std::string &name) -> const Json * {
    auto found = job.options.find(keyOf(name));
    return found == job.options.end() ? nullptr : &*found;
  };
  const bool resumed = typed("resume"); // a checkpoint stores its own values of these options
  std::vector<std::pair<CLI::Option *, const Json *>> taken;
  for (const JobOption &known : jobOptions()) {
    CLI::Option *option = command.get_option_no_throw(fmt::format("--{}", known.name));
    if (!option || (part == JobPart::Run && !known.ofRun))
      continue;
    const Json *value = jobs(known.name);
    if (option->count()) {
      if (value ? differs(*option, *value) : !known.free)
        tellDifference(*option, part == JobPart::Run ? "package" : "plan", value);
      continue;
    }
    bool other = std::any_of(known.meantBy.begin(), known.meantBy.end(), [&](const char *name) {
      CLI::Option *meaning = typed(name);
      return meaning && (!jobs(name) || differs(*meaning, *jobs(name)));
    });
    if (value && !other && !(resumed && known.ofRun))
      taken.push_back({option, value});
  }
  for (auto [option, value] : taken)
    if (Status status = setFromJob(*option, *value, file, command.get_name()); !status)
      return status;
  return ok();
}

Status loadPlanAndJob(CLI::App &command, PlanInput &planInput) {
  CLI::Option *plan = command.get_option_no_throw("--plan"), *model = command.get_option_no_throw("MODEL");
  const CLI::Option *mode = command.get_option_no_throw("--mode");
  bool byHand = mode && mode->count() && mode->results().front() == "hybrid"; // a hybrid run refuses --plan later
  if (plan && plan->count() && !byHand) {
    planInput.file = plan->results().front();
    auto read = readPlan(planInput.file);
    if (!read)
      return read.error();
    planInput.plan = std::move(*read);
    auto job = readJob(*planInput.plan, planInput.file);
    if (!job)
      return job.error();
    planInput.job = std::move(*job);
  }
  if (planInput.job) {
    if (Status status = applyJobOptions(command, *planInput.job, planInput.file, JobPart::All); !status)
      return status;
    if (model && model->empty() && !planInput.job->model.empty()) {
      if (Status status = checkModelExists(*planInput.job, planInput.file); !status)
        return status;
      model->add_result(planInput.job->model);
      model->run_callback();
    }
    const CLI::Option *cluster = command.get_option_no_throw("--cluster"),
                      *ranks = command.get_option_no_throw("--ranks");
    if (cluster && cluster->count() && planInput.job->cluster)
      if (auto typed = readCluster(cluster->results().front());
          typed && toJson(*typed) != toJson(*planInput.job->cluster))
        tellDifference("--cluster " + cluster->results().front(), "plan",
                       fmt::format("'{}'", planInput.job->cluster->name));
    if (ranks && ranks->count() && planInput.job->ranks &&
        ranks->results().front() != std::to_string(planInput.job->ranks))
      tellDifference("--ranks " + ranks->results().front(), "plan", std::to_string(planInput.job->ranks));
  }
  if (model && model->empty())
    return Error{
        "MODEL is missing; give the model, or --plan with a plan whose job names the model (`kerf plan -o` writes "
        "such plans)"};
  return planInput.plan ? setBatchFromPlan(command, *planInput.plan, planInput.file) : ok();
}

Result<Json> describeJob(const CLI::App &command, const Cluster &cluster, int64_t ranks, const Plan &constraints) {
  Json job;
  if (const CLI::Option *model = command.get_option_no_throw("MODEL"); model && model->count())
    job["model"] = model->results().front();
  job["options"] = Json::object();
  for (const JobOption &known : jobOptions()) {
    const CLI::Option *option = command.get_option_no_throw(fmt::format("--{}", known.name));
    Words values = option ? valuesOf(*option) : Words();
    if (option && values.empty())
      values = usualOf(command, known.name);
    if (values.empty())
      continue;
    Json list = Json::array();
    for (const std::string &value : values)
      list.push_back(toJson(value, *option));
    job["options"][keyOf(known.name)] = isFlag(*option)   ? Json(values.back() != "false")
                                        : isList(*option) ? list
                                                          : list.back();
  }
  return completeJob(std::move(job), cluster, ranks, constraints);
}

Result<Cluster> chooseCluster(const std::string &clusterFile, const std::optional<Job> &job, int64_t ranks,
                              int64_t ranksHere) {
  bool ofJob = clusterFile.empty() && job && job->cluster;
  if (!ofJob && clusterFile.empty())
    return thisMachine(ranks ? ranks : ranksHere);
  auto all = ofJob ? Result<Cluster>(*job->cluster) : readCluster(clusterFile);
  if (ofJob && !ranks)
    ranks = job->ranks;
  return all && ranks ? firstRanks(*all, ranks) : all;
}

} // namespace kerf::tool
