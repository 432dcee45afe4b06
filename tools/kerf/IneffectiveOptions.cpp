// SPDX-License-Identifier: Apache-2.0
#include "IneffectiveOptions.h"
#include "kerf/Optimizer/Options.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace kerf::tool {

namespace {

/// A condition: the option `option` has an effect only when the option `other` has one of `values`.
struct EffectCondition {
  std::string option, other;
  std::vector<std::string> values;
};

/// Returns the conditions of all options. A setting of an optimizer also has an effect with an optimizer that leaves
/// some parameters to the first one (muon leaves all but matrices to AdamW).
std::vector<EffectCondition> allConditions() {
  std::vector<EffectCondition> needs = {{"total", "lr-schedule", {"linear", "cosine"}}};
  for (const OptimizerSetting &setting : allSettings()) {
    EffectCondition its{setting.name, "optimizer", {}};
    for (const OptimizerRecord &record : optimizers()) {
      OptimizerOptions alone;
      alone.optimizer = record.name;
      for (const OptimizerRecord *used : optimizersOf(alone))
        if (std::any_of(used->settings.begin(), used->settings.end(),
                        [&](const OptimizerSetting &one) { return one.name == its.option; }))
          its.values.emplace_back(record.name);
    }
    needs.push_back(std::move(its));
  }
  return needs;
}

/// Returns the optimizers named by the parameter groups of --group, such as "adamw" of "GLOB:lr=1e-4,optimizer=adamw".
std::vector<std::string> optimizersOfGroups(const CLI::App &command) {
  constexpr std::string_view kKey = "optimizer=";
  std::vector<std::string> names;
  const CLI::Option *groups = command.get_option_no_throw("--group");
  for (const std::string &text : groups ? groups->results() : std::vector<std::string>{})
    if (size_t at = text.rfind(kKey); at != std::string::npos)
      names.push_back(text.substr(at + kKey.size(), text.find(',', at) - at - kKey.size()));
  return names;
}

/// Returns the value of the option `name`: the typed value, or else the default; "" when the option has neither.
std::string valueOf(const CLI::App &command, const std::string &name) {
  const CLI::Option *option = command.get_option_no_throw("--" + name);
  return !option ? "" : option->count() ? option->results().back() : option->get_default_str();
}

} // namespace

std::set<std::string> typedOptions(const CLI::App &command) {
  std::set<std::string> names;
  for (const CLI::Option *option : command.get_options())
    if (option->count() && !option->get_lnames().empty())
      names.insert(option->get_lnames().front());
  return names;
}

Status checkOptionsTakeEffect(const CLI::App &command, const std::set<std::string> &typed) {
  for (const EffectCondition &need : allConditions()) {
    if (!typed.contains(need.option))
      continue;
    if (need.option == "total" && typed.contains("resume"))
      continue; // the checkpoint may have a learning-rate schedule that --total applies to
    std::string value = valueOf(command, need.other);
    std::vector<std::string> values = {value};
    if (need.other == "optimizer")
      for (std::string &name : optimizersOfGroups(command))
        values.push_back(std::move(name));
    if (std::find_first_of(values.begin(), values.end(), need.values.begin(), need.values.end()) == values.end())
      return Error{fmt::format("--{} has no effect, because --{} is {}; leave it out, or give --{} {}", need.option,
                               need.other, value.empty() ? "constant" : value, need.other, need.values.front())};
  }
  return ok();
}

} // namespace kerf::tool
