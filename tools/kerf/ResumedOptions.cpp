// SPDX-License-Identifier: Apache-2.0
#include "ResumedOptions.h"
#include "kerf/Transforms/OptimizerRecord.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {
using Json = nlohmann::ordered_json;
using Values = std::vector<std::string>; // more than one where an option is repeated; none where it is not given

/// Whether a run that goes on may have another value than its checkpoint.
enum class Change { Refused, Taken };

struct NumericOption {
  std::string name;
  Change change;
  bool isOfPrecision = false; // belongs to --dtype
  bool isSetting = false;     // of an optimizer
};

const std::vector<NumericOption> &numericOptions() {
  static const std::vector<NumericOption> options = [] {
    std::vector<NumericOption> all = {
        {"loss", Change::Refused},
        {"metric", Change::Taken},
        {"trainable", Change::Refused},
        {"frozen", Change::Refused},
        {"optimizer", Change::Refused},
        {"accumulate", Change::Taken},
        {"group", Change::Taken},
        {"no-decay", Change::Taken},
        {"clip-norm", Change::Taken},
        {"dtype", Change::Taken},
        {"reduce-dtype", Change::Taken, true},
        {"loss-scale", Change::Refused, true},
        {"loss-scale-window", Change::Taken, true},
        {"global-batch", Change::Taken},
        {"sequence", Change::Taken},
        {"expert-capacity", Change::Refused},
        {"no-recognition", Change::Taken},
    };
    for (const OptimizerSetting &setting : allSettings())
      all.push_back({.name = setting.name,
                     .change = std::string_view(setting.name) == "weight-decay" ? Change::Taken : Change::Refused,
                     .isSetting = true});
    return all;
  }();
  return options;
}

/// Options of a run by their names, and by those that a checkpoint has for them under "schedule".
struct RunOption {
  const char *name, *key;
  std::optional<std::string> (*given)(const RunFlags &);
};

template <auto member> std::optional<std::string> textOf(const RunFlags &flags) {
  return flags.*member ? std::optional(fmt::format("{}", *(flags.*member))) : std::nullopt;
}

constexpr RunOption kRunOptions[] = {{"lr", "lr", textOf<&RunFlags::lr>},
                                     {"lr-schedule", "name", textOf<&RunFlags::schedule>},
                                     {"warmup", "warmup", textOf<&RunFlags::warmup>},
                                     {"total", "total", textOf<&RunFlags::total>}};

/// Returns `given`, or the default of a setting that was not given; older versions did not keep defaults. A setting
/// that the options' optimizer does not have means nothing, and is left out.
Values settingOf(const Json &options, const std::string &name, Values given) {
  auto optimizer = options.find("optimizer");
  const OptimizerRecord *record =
      optimizer != options.end() && optimizer->is_string() ? findOptimizer(optimizer->get<std::string>()) : nullptr;
  for (const OptimizerSetting &setting : record ? record->settings : std::vector<OptimizerSetting>{}) {
    if (setting.name != name)
      continue;
    if (!given.empty() || record->otherwise)
      return given;
    return {setting.kind == SettingKind::Switch ? (setting.usual ? "true" : "false")
                                                : fmt::format("{}", setting.usual)};
  }
  return {};
}

/// What `options`, as a job has them, say of one.
Values valuesIn(const Json &options, const NumericOption &option) {
  std::string key = option.name;
  std::replace(key.begin(), key.end(), '-', '_');
  Values values;
  if (auto found = options.find(key); found != options.end())
    for (const Json &value : found->is_array() ? *found : Json::array({*found}))
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return option.isSetting ? settingOf(options, option.name, std::move(values)) : values;
}

/// 0.001 and 1e-3 are one number.
bool isSame(const std::string &one, const std::string &other) {
  auto number = [](const std::string &text) -> std::optional<double> {
    double value = 0;
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    return code == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  auto first = number(one), second = number(other);
  return one == other || (first && second && *first == *second);
}

bool areSame(const Values &one, const Values &other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), isSame);
}

std::string textOf(const Values &values) {
  return values.empty() ? "not given" : fmt::format("{}", fmt::join(values, " "));
}

/// The options of the job that a program, or the one that wrote a checkpoint, was made for; null where its `info` says
/// none, as that of device programs and of older versions.
const Json *optionsOf(const Json &info) {
  const Json *at = &info;
  for (const char *key : {"plan", "job", "options"}) {
    auto found = at->is_object() ? at->find(key) : at->end();
    if (found == at->end())
      return nullptr;
    at = &*found;
  }
  return at->is_object() ? at : nullptr;
}

/// Changes of the learning rate, the order of the data and the seed, which are taken.
void addRunChanges(const RunFlags &flags, const runtime::Checkpoint &resumed, std::vector<std::string> &changes) {
  const Json &info = resumed.index.info;
  auto made = info.is_object() ? info.find("schedule") : info.end();
  for (const RunOption &option : kRunOptions) {
    auto given = option.given(flags);
    if (!given || made == info.end() || !made->is_object() || !made->contains(option.key))
      continue;
    const Json &value = (*made)[option.key];
    std::string then = value.is_string() ? value.get<std::string>() : value.dump();
    if (!isSame(*given, then))
      changes.push_back(fmt::format("--{} is {}, was {}", option.name, *given, then));
  }
  auto order = info.is_object() ? info.find("data") : info.end();
  for (auto [name, given] : {std::pair("samples", flags.samples), std::pair("shuffle", flags.shuffle)})
    if (given && order != info.end() && order->is_object() && order->value(name, Json()) == Json(false))
      changes.push_back(fmt::format("--{} is given, was not", name));
  if (flags.seed && *flags.seed != resumed.index.seed)
    changes.push_back(fmt::format("--seed is {}, was {}", *flags.seed, resumed.index.seed));
}

std::string noteOf(const std::vector<std::string> &changes) {
  if (changes.empty())
    return "";
  return fmt::format("note: other options than the checkpoint's: {}\n", fmt::join(changes, "; "));
}

std::string unknownNote(const runtime::Checkpoint &resumed, const char *whose) {
  return fmt::format("note: '{}' does not say the options of its optimizer and model (an older version or a device "
                     "program wrote it): they are {}\n",
                     resumed.folder, whose);
}
} // namespace

Result<std::string> takeResumedOptions(CLI::App &command, const RunFlags &flags, const runtime::Checkpoint &resumed) {
  std::vector<std::string> changes;
  const Json *made = optionsOf(resumed.index.info);
  bool sameTypes = true; // --dtype stands before the options of its precision
  for (const NumericOption &each : numericOptions()) {
    CLI::Option *option = command.get_option_no_throw(fmt::format("--{}", each.name));
    if (!option || !made || (each.isOfPrecision && !sameTypes))
      continue;
    Values then = valuesIn(*made, each);
    if (option->count() == 0) {
      try {
        for (const std::string &value : then)
          option->add_result(value);
        if (!then.empty())
          option->run_callback();
      } catch (const CLI::ParseError &error) {
        return Error{fmt::format("checkpoint '{}': it was made with --{} {}, which is not understood here: {}",
                                 resumed.folder, each.name, textOf(then), error.what())};
      }
      continue;
    }
    if (areSame(option->results(), then))
      continue;
    if (each.change == Change::Refused)
      return Error{
          fmt::format("--{} is {}, and '{}' was made with {}: leave the option out, or begin a training of its "
                      "own with the weights of that one (--save there, --weights here)",
                      each.name, textOf(option->results()), resumed.folder, then.empty() ? "none" : textOf(then))};
    changes.push_back(fmt::format("--{} is {}, was {}", each.name, textOf(option->results()), textOf(then)));
    sameTypes = sameTypes && std::string_view(each.name) != "dtype";
  }
  addRunChanges(flags, resumed, changes);
  return (made ? "" : unknownNote(resumed, "those of this command")) + noteOf(changes);
}

Result<std::string> compareResumedOptions(const package::Program &program, const RunFlags &flags,
                                          const runtime::Checkpoint &resumed) {
  std::vector<std::string> changes;
  const Json *made = optionsOf(resumed.index.info), *own = optionsOf(program.info);
  bool isKnown = made && own;
  for (const NumericOption &each : numericOptions()) {
    if (!isKnown)
      break;
    Values then = valuesIn(*made, each), now = valuesIn(*own, each);
    if (areSame(now, then))
      continue;
    if (each.change == Change::Refused)
      return Error{fmt::format("the package was compiled with --{} {}, and '{}' was made with {}: compile it with the "
                               "same, or begin a training of its own with the weights of that one (--save there, "
                               "--weights here)",
                               each.name, textOf(now), resumed.folder, then.empty() ? "none" : textOf(then))};
    changes.push_back(fmt::format("--{} of the package is {}, was {}", each.name, textOf(now), textOf(then)));
  }
  addRunChanges(flags, resumed, changes);
  return (isKnown ? "" : unknownNote(resumed, "the package's")) + noteOf(changes);
}

} // namespace kerf::tool
