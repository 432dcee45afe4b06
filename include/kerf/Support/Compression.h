// SPDX-License-Identifier: Apache-2.0
// Rules that say which gradients are compressed when they are summed over ranks, and how (docs/compression.md). The
// command line and the key "compression" of plan.json give these rules.
#pragma once

#include "kerf/Support/Result.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

/// The words for CompressionRule::scheme. An all-reduce of payloads is the same as two-stage, in which each owner adds
/// in f32; a reduce-scatter is the first half of two-stage.
inline constexpr std::string_view kCompressionSchemes[] = {"two-stage", "all-gather", "all-reduce", "reduce-scatter"};
/// The most pieces in which a gradient is sent.
inline constexpr int64_t kMostPieces = 64;

/// The compression of the gradients of the parameters whose names match `glob`.
struct CompressionRule {
  std::string glob = "*";
  std::string codec;                      // name of a codec; "none": these gradients are not compressed
  std::string scheme = {};                // "two-stage" or "all-gather"; "": chosen by codec and ranks
  int64_t pieces = 1;                     // pieces that are encoded, sent and decoded beside each other; >= 1
  bool hierarchy = false;                 // whether only the sums between nodes are coded
  std::optional<bool> errorFeedback = {}; // absent: for biased codecs only
  int64_t firstStep = 0;                  // the first step that compresses
  /// Returns whether the rule names its parameters. The pattern "*" alone leaves out vectors, tables of embeddings and
  /// gradients below kLeastBytesCoded.
  bool namesParameters() const { return glob != "*"; }
  bool operator==(const CompressionRule &) const = default;
};

/// All rules of a training step. The first one that matches a parameter counts.
struct CompressionOptions {
  std::vector<CompressionRule> rules;
  bool allowBiased = false;                 // whether biased codecs may run without error feedback
  std::string gathers = {};                 // codec of gathered parameters (optimizer sharding 3); "": none
  std::map<std::string, std::string> texts; // the user's codecs: the text of each, by name
};

/// Reads a rule "CODEC" or "GLOB=CODEC". Fails where a part is empty.
Result<CompressionRule> compressionRuleFrom(const std::string &text);
/// Reads the file of a user's codec, and returns its name (that of its module) and its text. Fails where the file
/// cannot be read or has no named module.
Result<std::pair<std::string, std::string>> readCodecFile(const std::string &path);

/// Gradients with fewer bytes in f32 are not compressed by the pattern "*" (as in BytePS).
inline constexpr int64_t kLeastBytesCoded = 65536;

/// Returns the rule for the gradient of the parameter `name` of `rank` dimensions and `elements` elements, or null if
/// it is not compressed. `isTable` says whether the parameter is a table of embeddings.
const CompressionRule *compressionOf(const CompressionOptions &options, std::string_view name, size_t rank,
                                     int64_t elements, bool isTable);

} // namespace kerf
