// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Compression.h"
#include "kerf/Support/File.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <fmt/format.h>
#include <regex>

namespace kerf {

Result<CompressionRule> compressionRuleFrom(const std::string &text) {
  CompressionRule rule;
  size_t equals = text.rfind('=');
  rule.codec = equals == std::string::npos ? text : text.substr(equals + 1);
  if (equals != std::string::npos)
    rule.glob = text.substr(0, equals);
  if (rule.codec.empty() || rule.glob.empty())
    return Error{
        fmt::format("'{}' is neither CODEC nor GLOB=CODEC; give one of these, such as int8 or layers.*=int8", text)};
  return rule;
}

Result<std::pair<std::string, std::string>> readCodecFile(const std::string &path) {
  auto text = readFile(path);
  if (!text)
    return text.error();
  std::smatch match;
  const std::regex name("(^|\\n)[ \\t]*module[ \\t]+@([A-Za-z_][A-Za-z0-9_.$-]*)");
  if (!std::regex_search(*text, match, name))
    return Error{
        fmt::format("'{}' has no line that begins with `module @NAME`; add it, because it names the codec", path)};
  return std::pair(match[2].str(), std::move(*text));
}

const CompressionRule *compressionOf(const CompressionOptions &options, std::string_view name, size_t rank,
                                     int64_t elements, bool isTable) {
  auto rule = std::find_if(options.rules.begin(), options.rules.end(),
                           [&](const CompressionRule &each) { return globMatch(each.glob, std::string(name)); });
  if (rule == options.rules.end() || rule->codec == "none")
    return nullptr;
  const bool isSmall = rank < 2 || isTable || elements * int64_t(sizeof(float)) < kLeastBytesCoded;
  return isSmall && !rule->namesParameters() ? nullptr : &*rule;
}

} // namespace kerf
