// SPDX-License-Identifier: Apache-2.0
#include "Checks.h"
#include "SpellingHint.h"

#include "kerf/Support/ByteCount.h"
#include "kerf/Support/File.h"

#include <charconv>
#include <cmath>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <optional>

namespace kerf::tool {

namespace {

/// Returns `text` as a number, or nothing when the whole text is not a number that `Number` can hold.
template <typename Number> std::optional<Number> parsed(std::string_view text) {
  Number value{};
  if (text.starts_with('+'))
    text.remove_prefix(1);
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Returns the subcommand that was typed, or `app` itself when none was.
const CLI::App &typedCommand(const CLI::App &app) {
  std::vector<const CLI::App *> typed = app.get_subcommands(nullptr);
  for (const CLI::App *command : typed)
    if (command->parsed())
      return *command;
  return app;
}

/// Returns the names of all subcommands: "train, import, ...".
std::string commandNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    names.push_back(command->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the first word of the command line that no option accepts, preferring an unknown option; "" when there is
/// none.
std::string unexpected(const CLI::App &command) {
  std::vector<std::string> left = command.remaining();
  for (const std::string &word : left)
    if (word.size() > 1 && word.front() == '-')
      return word;
  return left.empty() ? "" : left.front();
}

/// Rewords a message of CLI11:
///   "--dtype: f12 not in {f32,f64}"  ->  "--dtype is 'f12'; it has to be one of f32, f64"
///   "Could not convert: --eps = x"   ->  "--eps is 'x', which is not a number"
std::string reworded(const std::string &text) {
  constexpr std::string_view kNotConverted = "Could not convert: ";
  if (size_t equals = text.find(" = "); text.starts_with(kNotConverted) && equals != text.npos)
    return fmt::format("{} is '{}', which is not a number",
                       text.substr(kNotConverted.size(), equals - kNotConverted.size()), text.substr(equals + 3));
  size_t colon = text.find(": "), open = text.find(" not in {");
  if (colon == text.npos || open == text.npos || text.back() != '}')
    return text;
  std::string value = text.substr(colon + 2, open - colon - 2), list = text.substr(open + 9);
  list.pop_back();
  for (size_t at = list.find(','); at != list.npos; at = list.find(',', at + 2))
    list.replace(at, 1, ", ");
  return fmt::format("{} is '{}'; it has to be one of {}", text.substr(0, colon), value, list);
}

/// Returns the words that call a command: "kerf train", or "kerf-run" for a program without subcommands.
std::string callOf(const CLI::App &app, const CLI::App &command) {
  return &command == &app ? app.get_name() : app.get_name() + " " + command.get_name();
}

std::string usageText(const CLI::App &app, const CLI::App &command, const CLI::ParseError &error) {
  std::string word = unexpected(command), name = callOf(app, command);
  if (&command == &app && !app.get_subcommands(nullptr).empty())
    return word.empty()          ? fmt::format("no command was given; the commands are {}", commandNames(app))
           : word.front() == '-' ? fmt::format("kerf has no option '{}'; an option stands after one of the commands {}",
                                               word, commandNames(app))
                                 : fmt::format("kerf has no command '{}'; it has {}{}", word, commandNames(app),
                                               spellingHint(app, command, word));
  // A misspelled option is reported first, because it may be the reason why a required option is missing.
  if (dynamic_cast<const CLI::ExtrasError *>(&error) || word.starts_with('-'))
    return word.starts_with('-') ? fmt::format("{} has no option '{}'{}", name, word, spellingHint(app, command, word))
                                 : fmt::format("{} does not take '{}'", name, word);
  std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError *>(&error)) {
    constexpr std::string_view kEnd = " is required";
    if (text.ends_with(kEnd))
      return fmt::format("{} needs {}", name, text.substr(0, text.size() - kEnd.size()));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch *>(&error))
    if (size_t at = text.find(": 1 required "); at != text.npos)
      return fmt::format("{} has no value; give one after it", text.substr(0, at));
  constexpr std::string_view kRepeated = ": At Most 1 required but received ";
  if (size_t at = text.find(kRepeated); at != text.npos)
    return fmt::format("{} is given {} times; give it once", text.substr(0, at), text.substr(at + kRepeated.size()));
  return reworded(text);
}

} // namespace

CLI::Validator wholeNumber(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string &text) {
        auto value = parsed<int64_t>(text);
        if (value && *value >= least && *value <= most)
          return std::string();
        if (least == std::numeric_limits<int64_t>::min())
          return fmt::format("'{}' is not a whole number of 64 bits", text);
        return most == std::numeric_limits<int64_t>::max()
                   ? fmt::format("'{}' is not a whole number of {} or more (at most 64 bits)", text, least)
                   : fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
      },
      "");
}

CLI::Validator unsignedNumber() {
  return CLI::Validator(
      [](std::string &text) {
        return parsed<uint64_t>(text)
                   ? std::string()
                   : fmt::format("'{}' is not a whole number from 0 to {}", text, std::numeric_limits<uint64_t>::max());
      },
      "");
}

CLI::Validator finiteNumber(double least, double most) {
  return CLI::Validator(
      [=](std::string &text) {
        auto value = parsed<double>(text);
        if (value && *value >= least && *value <= most)
          return std::string();
        return most == std::numeric_limits<double>::max()
                   ? fmt::format("'{}' is not a finite number of {} or more", text, least)
                   : fmt::format("'{}' is not a number from {} to {}", text, least, most);
      },
      "");
}

CLI::Validator numberOfBytes() {
  return CLI::Validator(
      [](std::string &text) {
        auto bytes = byteCountFrom(text);
        if (!bytes)
          return fmt::format("'{}' is not a number of bytes such as 85899345920, 80GiB or 80GB", text);
        text = fmt::format("{}", *bytes);
        return std::string();
      },
      "");
}

CLI::Validator writableFile() {
  return CLI::Validator(
      [](std::string &text) {
        Status status = checkWritable(text);
        return status ? std::string() : status.error().message;
      },
      "");
}

int printUsage(const CLI::App &app, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0)
    return app.exit(error);
  const CLI::App &command = typedCommand(app);
  std::string text = usageText(app, command, error);
  fmt::print(stderr, "error: {}{} `{} --help` lists the options\n", text, text.ends_with('?') ? "" : ";",
             callOf(app, command));
  return 1;
}

} // namespace kerf::tool
