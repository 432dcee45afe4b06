// SPDX-License-Identifier: Apache-2.0
// Conversion of optimizer options to the optimizer of one parameter, by the optimizers' records alone.
#include "kerf/Optimizer/Options.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf {

ParameterOptimizer parameterOptimizer(const OptimizerOptions &options, std::string_view name, const Shape &shape) {
  auto matches = [&](const std::string &glob) { return globMatch(glob, std::string(name)); };
  auto group = std::find_if(options.groups.begin(), options.groups.end(),
                            [&](const OptimizerGroup &each) { return matches(each.glob); });
  bool inGroup = group != options.groups.end();
  const std::string &asked = inGroup && !group->optimizer.empty() ? group->optimizer : options.optimizer;
  ParameterOptimizer its{&optimizerOf(*findOptimizer(asked), shape), {}};
  for (const OptimizerSetting &setting : its.record->settings) {
    auto given = options.settings.find(setting.name);
    its.settings[setting.name] = given == options.settings.end() ? setting.defaultValue : given->second;
  }
  auto decay = its.settings.find("weight-decay");
  if (decay == its.settings.end())
    return its;
  if (inGroup && group->weightDecay)
    decay->second = *group->weightDecay;
  else if (std::any_of(options.noDecayGlobs.begin(), options.noDecayGlobs.end(), matches))
    decay->second = 0;
  return its;
}

std::vector<const OptimizerRecord *> optimizersOf(const OptimizerOptions &options) {
  std::vector<const OptimizerRecord *> all;
  auto add = [&](const std::string &name) {
    for (const OptimizerRecord *record = findOptimizer(name); record;
         record = record->fallback ? findOptimizer(record->fallback) : nullptr)
      if (std::find(all.begin(), all.end(), record) == all.end())
        all.push_back(record);
  };
  add(options.optimizer);
  for (const OptimizerGroup &group : options.groups)
    if (!group.optimizer.empty())
      add(group.optimizer);
  return all;
}

static bool hasSetting(const OptimizerRecord &record, std::string_view name) {
  return std::any_of(record.settings.begin(), record.settings.end(),
                     [&](const OptimizerSetting &setting) { return setting.name == name; });
}

/// Returns the range of a setting as text: "0 or more and less than 1", "more than 0 and finite".
static std::string intervalText(const OptimizerSetting &setting) {
  bool open = setting.minimum > 0 && setting.minimum <= std::numeric_limits<double>::min();
  std::string from = open ? "more than 0" : fmt::format("{} or more", setting.minimum);
  if (setting.kind != SettingKind::Real)
    from = "a whole number, " + from;
  if (std::isinf(setting.upperLimit))
    return from + " and finite";
  return fmt::format("{} and less than {}", from, setting.upperLimit);
}

Status checkSettings(const OptimizerOptions &options) {
  std::vector<std::string> names = {options.optimizer};
  for (const OptimizerGroup &group : options.groups)
    if (!group.optimizer.empty())
      names.push_back(group.optimizer);
  for (const std::string &name : names)
    if (!findOptimizer(name))
      return Error{fmt::format("unknown optimizer '{}'; there are {}", name, optimizerNames())};
  for (const OptimizerGroup &group : options.groups) {
    const OptimizerRecord &its = *findOptimizer(group.optimizer.empty() ? options.optimizer : group.optimizer);
    if (group.weightDecay && !hasSetting(its, "weight-decay"))
      return Error{fmt::format("parameter group '{}' sets a weight decay, which its optimizer {} does not have; remove "
                               "the decay, or choose another optimizer for the group",
                               group.glob, its.name)};
  }
  std::vector<const OptimizerRecord *> used = optimizersOf(options);
  for (const auto &[name, value] : options.settings) {
    bool isKnown = false;
    std::set<std::string_view> known;
    for (const OptimizerRecord *record : used)
      for (const OptimizerSetting &setting : record->settings) {
        known.insert(setting.name);
        if (setting.name != name)
          continue;
        isKnown = true;
        bool isWhole = setting.kind == SettingKind::Real || value == std::floor(value);
        if (!(value >= setting.minimum && value < setting.upperLimit) || !isWhole)
          return Error{fmt::format("optimizer option --{} is {}; it must be {}", name, value, intervalText(setting))};
      }
    if (!isKnown)
      return Error{
          fmt::format("optimizer {} has no setting '{}'; it has {}", options.optimizer, name, fmt::join(known, ", "))};
  }
  return ok();
}

Result<std::pair<std::string, double>> settingFrom(const std::string &text) {
  size_t equals = text.find('=');
  double value = 0;
  const char *end = text.data() + text.size();
  if (equals != std::string::npos)
    if (auto [next, code] = std::from_chars(text.data() + equals + 1, end, value); code == std::errc() && next == end)
      return std::pair(text.substr(0, equals), value);
  return Error{fmt::format("'{}' is no setting of an optimizer; give NAME=NUMBER, such as momentum=0.9", text)};
}

} // namespace kerf
