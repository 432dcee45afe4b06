// SPDX-License-Identifier: Apache-2.0
// The command-line options of a run, which `kerf run`, `kerf train` and `kerf-run` share.
#pragma once

#include "kerf/Runtime/Run.h"
#include "kerf/Runtime/RunSettings.h"
#include <CLI/CLI.hpp>

namespace kerf::tool {

inline constexpr const char *kReportHelp =
    "file for the report, whose suffix selects the form: F.txt (text), F.json (JSON) or F.html (one web page)";

/// The options of a run: data, evaluation, checkpoints, outputs and the device; each field holds the option of the same
/// name.
struct RunFlags : runtime::RequestedSettings {
  std::string data, evalData, save, saveHf, hfConfig, log, trace, gradientNorms, checkpoint, resume;
  std::optional<int64_t> every, keep, evalEvery, evalSteps; // absent: not given
  std::optional<runtime::EmulatedLink> link;
  int64_t threads = 1;
  std::string device = std::string(runtime::kDefaultDevice);
  bool deterministic = false, tf32 = false;
  std::string onNan = "stop";

  /// Adds all options of a run to `command`.
  void addTo(CLI::App &command);
  /// Adds the options that plans and packages store for later runs: the learning rate, its schedule and the seed.
  void addStoredSettingsTo(CLI::App &command);
};

} // namespace kerf::tool
