// SPDX-License-Identifier: Apache-2.0
#include "ReportFile.h"
#include "Command.h"
#include "kerf/Support/File.h"

namespace kerf::tool {

namespace {

/// Returns the report as JSON text. Bytes of names that are not UTF-8 are replaced.
std::string textOf(const nlohmann::ordered_json &json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace

Status writeReport(const Report &report, const std::string &path, const Cluster *cluster) {
  return writeFile(path, path.ends_with(".json")   ? textOf(toJson(report))
                         : path.ends_with(".html") ? toHtml(report, cluster)
                                                   : toText(report));
}

StepReport spelled(StepReport report) {
  for (std::string &warning : report.warnings)
    warning = settingsAsOptions(warning);
  return report;
}

Status writeReport(const StepReport &report, const std::string &path) {
  return writeFile(path, path.ends_with(".json")   ? textOf(toJson(report))
                         : path.ends_with(".html") ? toHtml(report)
                                                   : toText(report));
}

} // namespace kerf::tool
