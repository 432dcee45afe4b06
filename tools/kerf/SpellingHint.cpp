// SPDX-License-Identifier: Apache-2.0
#include "SpellingHint.h"

#include "kerf/Support/Suggest.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::tool {

std::string spellingHint(const CLI::App &app, const CLI::App &command, const std::string &word) {
  std::vector<std::string> known, others; // names, and commands that have the option
  std::string name = word.substr(0, word.find('='));
  if (!name.starts_with('-')) {
    for (const CLI::App *one : app.get_subcommands(nullptr))
      known.push_back(one->get_name());
    std::string near = &command == &app ? nearestWord(name, known) : "";
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  }
  for (const CLI::Option *option : command.get_options())
    for (const std::string &lname : option->get_lnames())
      known.push_back("--" + lname);
  if (std::string near = nearestWord(name, known); !near.empty())
    return fmt::format("; did you mean {}?", near);
  for (const CLI::App *one : app.get_subcommands(nullptr))
    if (one != &command && one->get_option_no_throw(name))
      others.push_back("`kerf " + one->get_name() + "`");
  return others.empty() ? "" : fmt::format(", which is an option of {}", fmt::join(others, ", "));
}

} // namespace kerf::tool
