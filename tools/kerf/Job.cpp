// SPDX-License-Identifier: Apache-2.0
#include "Job.h"
#include "kerf/Transforms/OptimizerRecord.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

/// An option that decides the numbers of a training step, or how long one takes.
struct JobOption {
  std::string name;
  /// Options that give this one its meaning: where one of them is typed and differs from the job's, the job's value of
  /// this one is not taken.
  std::vector<const char *> meantBy = {};
  bool ofRun = false; // the runtime reads it: the plan and the program do not depend on it
  bool free = ofRun;  // a job that does not have it leaves it to the command line
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

/// What the option has now: what was typed, or its default. Empty: the option has no value.
Words valuesOf(const CLI::Option &option) {
  if (option.count())
    return option.results();
  std::string usual = option.get_default_str();
  return usual.empty() || isFlag(option) ? Words{} : Words{usual};
}

/// The defaults of a step's only optimizer, so that a job tells all of its settings. Where parameters have several,
/// what is given counts for each of them: there a job has what was typed alone.
Words usualOf(const CLI::App &command, const std::string &setting) {
  const CLI::Option *optimizer = command.get_option_no_throw("--optimizer");
  const CLI::Option *groups = command.get_option_no_throw("--group");
  const OptimizerRecord *record = optimizer ? findOptimizer(valuesOf(*optimizer).back()) : nullptr;
  if (!record || record->otherwise ||
      (groups && fmt::format("{}", fmt::join(groups->results(), " ")).find("optimizer=") != std::string::npos))
    return {};
  for (const OptimizerSetting &its : record->settings)
    if (its.name == setting)
      return {its.kind == SettingKind::Switch ? (its.usual ? "true" : "false") : fmt::format("{}", its.usual)};
  return {};
}

/// Numbers stay numbers where the option is one: an output may be named "1234".
Json toJson(const std::string &value, const CLI::Option &option) {
  std::string type = option.get_type_name();
  if (type.starts_with("FLOAT") || type.starts_with("INT") || type.starts_with("UINT"))
    if (Json number = Json::parse(value, nullptr, /*allow_exceptions=*/false); number.is_number())
      return number;
  return value;
}

/// The words of the command line that a job's value stands for.
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

/// The typed value of an option beside the job's.
bool differs(const CLI::Option &option, const Json &jobs) {
  auto words = wordsOf(jobs, "");
  return !words || !sameValues(valuesOf(option), *words);
}

/// One process of an MPI job speaks for all.
bool speaksForAll() {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char *rank = std::getenv(name))
      return std::string_view(rank) == "0";
  return true;
}

void tellDifference(const std::string &typed, const std::string &owner, const std::string &its) {
  if (speaksForAll())
    fmt::print(stderr, "note: {} instead of the {}'s {}\n", typed, owner, its);
}

void tellDifference(const CLI::Option &option, const std::string &owner, const Json *jobs) {
  std::string name = option.get_name();
  Words typed = valuesOf(option);
  auto words = jobs ? wordsOf(*jobs, "") : Words();
  tellDifference(isFlag(option) ? name : fmt::format("{} {}", name, fmt::join(typed, " ")), owner,
                 words && !words->empty() ? fmt::format("{}", fmt::join(*words, " ")) : "default");
}

Status give(CLI::Option &option, const Json &value, const std::string &file, const std::string &command) {
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
    return Error{fmt::format("{}: the plan's job has {} {}, which `kerf {}` does not take: {}; give {} on the command "
                             "line",
                             file, option.get_name(), fmt::join(*words, " "), command, error.what(),
                             option.get_name())};
  }
  return ok();
}

/// A plan says how many samples a step has. A configuration has no batch of its own.
Status giveBatch(CLI::App &command, const Plan &plan, const std::string &file) {
  CLI::Option *batch = command.get_option_no_throw("--global-batch");
  CLI::Option *model = command.get_option_no_throw("MODEL");
  if (!batch || batch->count() || !plan.globalBatch || !model || model->empty() ||
      !model->results().front().ends_with(".json"))
    return ok();
  return give(*batch, plan.globalBatch, file, command.get_name());
}

/// Texts of the file are what a job may hold: plan.json is UTF-8.
bool isUtf8(const Json &json) { return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace)) == json; }

} // namespace

Result<std::optional<Job>> jobOf(const Plan &plan, const std::string &file) {
  if (!plan.others.contains("job"))
    return std::optional<Job>();
  const Json &saved = plan.others.at("job");
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
      continue; // said of the answer: nothing that is asked for
    } else if (key == "arguments") {
      return broken("has \"arguments\": an older version of kerf wrote the plan; plan again");
    } else {
      return broken(fmt::format("has {}: {}, which is no part of a job", key, value.dump()));
    }
  }
  for (const auto &[key, value] : job.options.items())
    if (std::none_of(jobOptions().begin(), jobOptions().end(),
                     [&](const JobOption &option) { return keyOf(option.name) == key; }))
      return broken(fmt::format("has the option \"{}\", which is no option of a job", key));
  return std::optional(std::move(job));
}

Status checkModelExists(const Job &job, const std::string &file) {
  std::error_code code;
  if (std::filesystem::exists(job.model, code))
    return ok();
  return Error{fmt::format("{}: its job is about the model '{}', which is not there, seen from the folder '{}'; go to "
                           "the folder that the path begins in, or give MODEL on the command line of a command that "
                           "takes it",
                           file, job.model, std::filesystem::current_path(code).string())};
}

Status takeOptions(CLI::App &command, const Job &job, const std::string &file, JobPart part) {
  auto typed = [&](const std::string &name) -> CLI::Option * {
    CLI::Option *option = command.get_option_no_throw(fmt::format("--{}", name));
    return option && option->count() ? option : nullptr;
  };
  auto jobs = [&](const std::string &name) -> const Json * {
    auto found = job.options.find(keyOf(name));
    return found == job.options.end() ? nullptr : &*found;
  };
  const bool resumed = typed("resume"); // a checkpoint has these of its own
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
    if (Status status = give(*option, *value, file, command.get_name()); !status)
      return status;
  return ok();
}

Status takePlan(CLI::App &command, GivenPlan &given) {
  CLI::Option *plan = command.get_option_no_throw("--plan"), *model = command.get_option_no_throw("MODEL");
  const CLI::Option *mode = command.get_option_no_throw("--mode");
  bool byHand = mode && mode->count() && mode->results().front() == "hybrid"; // which refuses a plan
  if (plan && plan->count() && !byHand) {
    given.file = plan->results().front();
    auto read = readPlan(given.file);
    if (!read)
      return read.error();
    given.plan = std::move(*read);
    auto job = jobOf(*given.plan, given.file);
    if (!job)
      return job.error();
    given.job = std::move(*job);
  }
  if (given.job) {
    if (Status status = takeOptions(command, *given.job, given.file, JobPart::All); !status)
      return status;
    if (model && model->empty() && !given.job->model.empty()) {
      if (Status status = checkModelExists(*given.job, given.file); !status)
        return status;
      model->add_result(given.job->model);
      model->run_callback();
    }
    const CLI::Option *cluster = command.get_option_no_throw("--cluster"),
                      *ranks = command.get_option_no_throw("--ranks");
    if (cluster && cluster->count() && given.job->cluster)
      if (auto typed = readCluster(cluster->results().front()); typed && toJson(*typed) != toJson(*given.job->cluster))
        tellDifference("--cluster " + cluster->results().front(), "plan",
                       fmt::format("'{}'", given.job->cluster->name));
    if (ranks && ranks->count() && given.job->ranks && ranks->results().front() != std::to_string(given.job->ranks))
      tellDifference("--ranks " + ranks->results().front(), "plan", std::to_string(given.job->ranks));
  }
  if (model && model->empty())
    return Error{"MODEL is missing: give the model, or --plan with a plan whose job names it (`kerf plan -o` writes "
                 "such plans)"};
  return given.plan ? giveBatch(command, *given.plan, given.file) : ok();
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
  if (!isUtf8(job))
    return Error{"the model's path or an option is not UTF-8, which a plan.json cannot hold; rename the file"};
  job["ranks"] = ranks;
  job["cluster"] = Json::parse(toJson(cluster));
  Plan pins = constraints;
  pins.others = Json::object();
  job["constraints"] = Json::parse(toJson(pins));
  return job;
}

Result<Cluster> machinesOf(const std::string &clusterFile, const std::optional<Job> &job, int64_t ranks,
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
