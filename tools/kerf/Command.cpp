// SPDX-License-Identifier: Apache-2.0
#include "Command.h"
#include "Checks.h"
#include "kerf/Support/Settings.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace kerf::tool {

namespace {

/// The remedy for an error that only a mistake in Kerf can cause.
constexpr const char *kReportBug = "this is a bug of Kerf: keep the files and report the command";

Error lost() { return {fmt::format("cannot write the output: {}", std::strerror(errno))}; }

} // namespace

void printToStderr(const std::string &text) { std::fwrite(text.data(), 1, text.size(), stderr); }

static std::set<std::string, std::less<>> &knownOptions() {
  static std::set<std::string, std::less<>> names;
  return names;
}

void registerOptionNames(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    knownOptions().insert(option->get_lnames().begin(), option->get_lnames().end());
  for (const CLI::App *command : app.get_subcommands(nullptr))
    registerOptionNames(*command);
}

std::string settingsAsOptions(const std::string &message) {
  return spellSettings(message, [](std::string_view name, std::string_view value) {
    return knownOptions().contains(name) ? std::optional(fmt::format("--{}{}{}", name, value.empty() ? "" : " ", value))
                                         : std::nullopt;
  });
}

int fail(const Error &error) {
  if (error.message.empty()) // another MPI process has printed the message
    return static_cast<int>(error.status);
  bool isBug = error.status == ExitStatus::InternalCheck && error.message.find("; ") == std::string::npos;
  printToStderr(
      fmt::format("error: {}{}{}\n", settingsAsOptions(error.message), isBug ? "; " : "", isBug ? kReportBug : ""));
  return static_cast<int>(error.status);
}

int runCommandLine(CLI::App &app, int argc, char **argv, const int &status) {
  std::signal(SIGXFSZ, SIG_IGN); // a file beyond the size limit then makes the write fail, as a full disk does
  registerOptionNames(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return printUsage(app, error);
  } catch (const std::bad_alloc &) {
    return fail({"this machine has no memory left; close other programs, or use a machine with more",
                 ExitStatus::InternalCheck});
  } catch (const std::exception &error) {
    if (std::ferror(stdout))
      return fail(lost());
    return fail({fmt::format("an internal check failed: {}", error.what()), ExitStatus::InternalCheck});
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return fail(lost());
  return status;
}

int runAsProgram(const char *name, const char *description, void (*setUp)(CLI::App &, int &), int argc, char **argv) {
  CLI::App app{description};
  app.name(name);
  app.set_version_flag("--version", KERF_VERSION);
  int status = 0;
  setUp(app, status);
  return runCommandLine(app, argc, argv, status);
}

} // namespace kerf::tool
