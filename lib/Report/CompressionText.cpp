// SPDX-License-Identifier: Apache-2.0
#include "kerf/Report/ExplainText.h"
#include "kerf/Support/Units.h"

#include <fmt/format.h>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

double milliseconds(double seconds) { return 1e3 * seconds; }

/// Returns the choice of a gradient: "int8, two-stage, 4 pieces", or "none".
std::string howText(const compression::SyncChoice &choice) {
  if (!choice.codec)
    return "none";
  return fmt::format("{}, {}{}{}", choice.codec->name, choice.hierarchy ? "hierarchical " : "", toString(choice.scheme),
                     choice.pieces > 1 ? fmt::format(", {} pieces", choice.pieces) : "");
}

/// Returns where the choice changes: "compressed up to 3 x the bandwidth".
std::string changeText(const ExplainedGradient &one) {
  if (one.reason == CompressionReason::Excluded)
    return "";
  if (one.compressedUpTo == 0)
    return "; the planner compresses it at no bandwidth that was tried";
  return fmt::format("; the planner compresses it up to {:g} x the bandwidth", one.compressedUpTo);
}

} // namespace

std::string toText(const ExplainedCompression &all) {
  std::string text = fmt::format("compression on stage {}: the last sum is there {:.4g} s after the last backward "
                                 "starts, {:.4g} s without compression, and no choice takes less than {:.4g} s\n",
                                 all.stage, all.seconds, all.plainSeconds, all.lowerBoundSeconds);
  if (all.stateBytes > 0)
    text += fmt::format("  error feedback and factors take {} on a rank\n", bytesText(all.stateBytes));
  for (const ExplainedGradient &one : all.gradients) {
    text += fmt::format("  {}{}, {}: {} ({})\n", one.count > 1 ? fmt::format("{} x ", one.count) : "", one.name,
                        bytesText(one.bytes), howText(one.choice), toString(one.reason));
    text += fmt::format("      {:.3g} ms on the wire without compression", milliseconds(one.plain.wire));
    if (one.choice.codec)
      text += fmt::format(", {:.3g} ms with it; codec {:.3g} ms; saves {:.3g} ms", milliseconds(one.own.wire),
                          milliseconds(one.own.compute()), milliseconds(one.savedSeconds));
    text += changeText(one) + "\n";
  }
  return text;
}

Json toJson(const ExplainedCompression &all) {
  Json root = {{"stage", all.stage},
               {"seconds", all.seconds},
               {"plain_seconds", all.plainSeconds},
               {"lower_bound_seconds", all.lowerBoundSeconds},
               {"state_bytes", all.stateBytes},
               {"gradients", Json::array()}};
  for (const ExplainedGradient &one : all.gradients) {
    Json entry = {{"name", one.name},
                  {"count", one.count},
                  {"bytes", one.bytes},
                  {"choice", howText(one.choice)},
                  {"reason", toString(one.reason)},
                  {"plain_wire_seconds", one.plain.wire},
                  {"compressed_up_to", one.compressedUpTo}};
    if (one.choice.codec) {
      entry["wire_seconds"] = one.own.wire;
      entry["codec_seconds"] = one.own.compute();
      entry["saved_seconds"] = one.savedSeconds;
    }
    root["gradients"].push_back(std::move(entry));
  }
  return root;
}

} // namespace kerf
