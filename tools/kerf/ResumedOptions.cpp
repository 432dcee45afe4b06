// SPDX-License-Identifier: Apache-2.0
#include "ResumedOptions.h"
#include "kerf/Optimizer/Record.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

namespace {
using Json = nlohmann::ordered_json;
using Values = std::vector<std::string>; // the values of one option: several for a repeated option, none for an option
                                         // that is not given

/// Whether a resumed run may change the value that the checkpoint has.
enum class Change { Refused, Taken };

/// An option that changes the results of a training.
struct NumericOption {
  std::string name;
  Change change;
  bool isOfPrecision = false; // one of the options of mixed precision, which depend on --dtype
  bool isSetting = false;     // a setting of an optimizer
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
        {"compress", Change::Taken},
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

/// An option of a run: its name, and its key in the "schedule" of a checkpoint.
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

/// Returns `given`, or else the default of the optimizer setting `name`, because checkpoints of older versions did not
/// store defaults. Returns nothing for a setting that the optimizer in `options` does not have.
Values settingOf(const Json &options, const std::string &name, Values given) {
  auto optimizer = options.find("optimizer");
  const OptimizerRecord *record =
      optimizer != options.end() && optimizer->is_string() ? findOptimizer(optimizer->get<std::string>()) : nullptr;
  for (const OptimizerSetting &setting : record ? record->settings : std::vector<OptimizerSetting>{}) {
    if (setting.name != name)
      continue;
    if (!given.empty() || record->fallback)
      return given;
    return {setting.kind == SettingKind::Switch ? (setting.defaultValue ? "true" : "false")
                                                : fmt::format("{}", setting.defaultValue)};
  }
  return {};
}

/// Returns the values of `option` in `options`, the options of a job.
Values valuesIn(const Json &options, const NumericOption &option) {
  std::string key = option.name;
  std::replace(key.begin(), key.end(), '-', '_');
  Values values;
  if (auto found = options.find(key); found != options.end())
    for (const Json &value : found->is_array() ? *found : Json::array({*found}))
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return option.isSetting ? settingOf(options, option.name, std::move(values)) : values;
}

/// Returns whether two values are equal as texts or as numbers: 0.001 equals 1e-3.
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

/// Returns the options of the job in the `info` of a program or of a checkpoint. Returns null when `info` has none, as
/// in device programs and files of older versions.
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

/// Adds to `changes` the differences in learning rate, data order and seed, which a resumed run may change.
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
  return fmt::format("note: these options differ from the checkpoint: {}\n", fmt::join(changes, "; "));
}

std::string unknownNote(const runtime::Checkpoint &resumed, const char *whose) {
  return fmt::format(
      "note: '{}' does not store the options of its optimizer and model, because an older version or a device "
      "program wrote it; the run uses {}\n",
      resumed.folder, whose);
}
} // namespace

Result<std::string> applyCheckpointOptions(CLI::App &command, const RunFlags &flags,
                                           const runtime::Checkpoint &resumed) {
  std::vector<std::string> changes;
  const Json *made = optionsOf(resumed.index.info);
  bool sameTypes = true; // --dtype comes before the options of mixed precision in the table
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
        return Error{fmt::format("checkpoint '{}' was made with --{} {}, which this command refuses: {}; start a new "
                                 "training from the weights of the old one (--save there, --weights here)",
                                 resumed.folder, each.name, textOf(then), error.what())};
      }
      continue;
    }
    if (areSame(option->results(), then))
      continue;
    if (each.change == Change::Refused)
      return Error{
          fmt::format("--{} is {}, but checkpoint '{}' was made with {}; leave the option out, or start a new training "
                      "from the weights of the old one (--save there, --weights here)",
                      each.name, textOf(option->results()), resumed.folder, then.empty() ? "none" : textOf(then))};
    changes.push_back(fmt::format("--{} is {}, was {}", each.name, textOf(option->results()), textOf(then)));
    sameTypes = sameTypes && std::string_view(each.name) != "dtype";
  }
  addRunChanges(flags, resumed, changes);
  return (made ? "" : unknownNote(resumed, "the options of this command")) + noteOf(changes);
}

Result<std::string> checkCheckpointOptions(const package::Program &program, const RunFlags &flags,
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
      return Error{fmt::format(
          "the package was compiled with --{} {}, but checkpoint '{}' was made with {}; compile the package with "
          "the same value, or start a new training from the weights of the old one (--save there, "
          "--weights here)",
          each.name, textOf(now), resumed.folder, then.empty() ? "none" : textOf(then))};
    changes.push_back(fmt::format("--{} of the package is {}, was {}", each.name, textOf(now), textOf(then)));
  }
  addRunChanges(flags, resumed, changes);
  return (isKnown ? "" : unknownNote(resumed, "the options of the package")) + noteOf(changes);
}

} // namespace kerf::tool
