// SPDX-License-Identifier: Apache-2.0
// The parts that all commands share: the connection of a command with its options, and the printing of messages.
#pragma once

#include "IneffectiveOptions.h"
#include "Job.h"
#include <CLI/CLI.hpp>
#include <memory>

namespace kerf::tool {

/// Returns a library's message in which each setting "<name>" is written as the option "--name"
/// (kerf/Support/Settings.h).
std::string settingsAsOptions(const std::string &message);
/// Remembers the option names of `app` and of all its commands, which `settingsAsOptions` looks up.
void registerOptionNames(const CLI::App &app);

/// Prints `text` on standard error. Errors of writing (a full disk, a closed pipe) are ignored.
void printToStderr(const std::string &text);

/// Prints the error as the only message of a failed command. Returns the exit status of the command.
int fail(const Error &error);

/// Parses the command line of a program whose commands are connected with `app`, and runs the chosen command. Prints
/// help, version and errors. Returns the exit status of the program; `status` is where commands store theirs.
int runCommandLine(CLI::App &app, int argc, char **argv, const int &status);

/// Runs the command that `setUp` connects as a program of its own, `name`. Returns the exit status of the program.
int runAsProgram(const char *name, const char *description, void (*setUp)(CLI::App &, int &), int argc, char **argv);

/// Connects the subcommand or program `app` with a new `Command` object, whose fields its options fill. When `app` is
/// chosen, its callback runs `Command::beforePlan` (if it exists), takes the options that were not typed from the plan
/// of --plan (if the Command has a member `planInput`), refuses options without effect, and stores the result of
/// `Command::run` in `status`.
template <typename Command> std::shared_ptr<Command> attachCommand(CLI::App &app, int &status) {
  auto command = std::make_shared<Command>();
  app.callback([command, &app, &status] {
    std::set<std::string> typed = typedOptions(app);
    if constexpr (requires { command->beforePlan(); })
      if (Status before = command->beforePlan(); !before) {
        status = fail(before.error());
        return;
      }
    if constexpr (requires { command->planInput; })
      if (Status taken = loadPlanAndJob(app, command->planInput); !taken) {
        status = fail(taken.error());
        return;
      }
    Status applies = checkOptionsTakeEffect(app, typed);
    status = applies ? command->run() : fail(applies.error());
  });
  return command;
}

/// Adds the subcommand `name` with the help text `text` to `app`. Returns the subcommand and its `Command` object.
template <typename Command>
std::pair<CLI::App *, std::shared_ptr<Command>> addCommand(CLI::App &app, const char *name, const char *text,
                                                           int &status) {
  CLI::App *sub = app.add_subcommand(name, text);
  return {sub, attachCommand<Command>(*sub, status)};
}

} // namespace kerf::tool
