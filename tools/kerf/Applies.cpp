// SPDX-License-Identifier: Apache-2.0
#include "Applies.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace kerf::tool {

namespace {

/// `option` counts only where `other` has one of `values`.
struct Needs {
  const char *option, *other;
  std::vector<std::string> values;
};

const std::vector<Needs> &allNeeds() {
  static const std::vector<Needs> needs = {
      {"momentum", "optimizer", {"sgd"}},
      {"beta1", "optimizer", {"adamw"}},
      {"beta2", "optimizer", {"adamw"}},
      {"eps", "optimizer", {"adamw"}},
      {"total", "lr-schedule", {"linear", "cosine"}},
  };
  return needs;
}

/// What the option has, its default included; "" where it has none.
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

Status checkApplies(const CLI::App &command, const std::set<std::string> &typed) {
  for (const Needs &need : allNeeds()) {
    if (!typed.contains(need.option))
      continue;
    if (std::string_view(need.option) == "total" && typed.contains("resume"))
      continue; // the checkpoint may have a schedule
    std::string value = valueOf(command, need.other);
    if (std::find(need.values.begin(), need.values.end(), value) == need.values.end())
      return Error{fmt::format("--{} changes nothing: --{} is {}; leave it out, or give --{} {}", need.option,
                               need.other, value.empty() ? "constant" : value, need.other, need.values.front())};
  }
  return ok();
}

} // namespace kerf::tool
