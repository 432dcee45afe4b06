// SPDX-License-Identifier: Apache-2.0
#include "PlanCompression.h"
#include "kerf/Support/Suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf {

using compression::SyncChoice;
using compression::SyncScheme;
using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kMostPinnedPieces = 1024;
constexpr const char *kNone = "none"; // the word for gradients that are not compressed
const std::vector<std::string> kKeys = {"codec", "scheme", "pieces", "hierarchy", "error_feedback", "first_step"};

/// Reads the members of one entry and keeps the first fault.
struct EntryReader {
  const Json &entry;
  const std::string &where;
  std::string fault = {};

  const Json *find(const char *key) { return entry.contains(key) && fault.empty() ? &entry.at(key) : nullptr; }
  void fail(const char *key, const std::string &what) {
    if (fault.empty())
      fault = fmt::format("{}.{} is {}; {}", where, key, entry.contains(key) ? entry.at(key).dump() : "missing", what);
  }
  void flag(const char *key, bool &value) {
    if (const Json *given = find(key)) {
      if (given->is_boolean())
        value = given->get<bool>();
      else
        fail(key, "it has to be true or false");
    }
  }
  void count(const char *key, int64_t least, int64_t most, int64_t &value) {
    if (const Json *given = find(key)) {
      bool fits = given->is_number_integer() && !(given->is_number_unsigned() && given->get<uint64_t>() > INT64_MAX);
      if (fits && given->get<int64_t>() >= least && given->get<int64_t>() <= most)
        value = given->get<int64_t>();
      else
        fail(key, fmt::format("it has to be an integer from {} to {}", least, most));
    }
  }
  std::string word(const char *key, const std::vector<std::string> &words) {
    const Json *given = find(key);
    if (given && given->is_string() && std::find(words.begin(), words.end(), given->get<std::string>()) != words.end())
      return given->get<std::string>();
    std::string typed = given && given->is_string() ? given->get<std::string>() : "";
    fail(key, typed.empty() ? fmt::format("it has to be one of {}", fmt::join(words, ", ")) : suggestion(typed, words));
    return "";
  }
};

std::string readEntry(const std::string &where, const Json &entry, SyncChoice &choice) {
  if (!entry.is_object())
    return fmt::format("{} is {}; it has to be an object like {{\"codec\": \"int8\"}}", where, entry.dump());
  for (const auto &[key, unused] : entry.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      return fmt::format("{} has the unknown key \"{}\"; {}", where, key, suggestion(key, kKeys));
  EntryReader in{entry, where};
  std::vector<std::string> codecs = compression::codecNames();
  codecs.emplace_back(kNone);
  choice.codec = compression::findCodec(in.word("codec", codecs));
  if (!choice.codec)
    return in.fault;
  choice.scheme = usualScheme(*choice.codec);
  if (entry.contains("scheme")) {
    const auto &words = PlanWords<SyncScheme>::words;
    choice.scheme = parsePlanWord<SyncScheme>(in.word("scheme", {words.begin(), words.end()})).value_or(choice.scheme);
  }
  choice.errorFeedback = choice.codec->biased;
  in.count("pieces", 1, kMostPinnedPieces, choice.pieces);
  in.flag("hierarchy", choice.hierarchy);
  in.flag("error_feedback", choice.errorFeedback);
  in.count("first_step", 0, INT64_MAX, choice.firstStep);
  return in.fault;
}

} // namespace

std::string readCompression(const Json &json, std::vector<CompressionPin> &pins) {
  if (!json.is_object())
    return fmt::format("compression is {}; it has to be an object of patterns of parameters, like {{\"*.weight\": "
                       "{{\"codec\": \"int8\"}}}}",
                       json.dump());
  for (const auto &[pattern, entry] : json.items()) {
    CompressionPin pin{pattern, {}};
    if (std::string wrong = readEntry(fmt::format("compression[\"{}\"]", pattern), entry, pin.choice); !wrong.empty())
      return wrong;
    pins.push_back(std::move(pin));
  }
  return "";
}

Json compressionJson(const std::vector<CompressionPin> &pins) {
  Json json = Json::object();
  for (const CompressionPin &pin : pins) {
    const SyncChoice &choice = pin.choice;
    if (!choice.codec) {
      json[pin.pattern] = {{"codec", kNone}};
      continue;
    }
    json[pin.pattern] = {
        {"codec", choice.codec->name},   {"scheme", toString(choice.scheme)},      {"pieces", choice.pieces},
        {"hierarchy", choice.hierarchy}, {"error_feedback", choice.errorFeedback}, {"first_step", choice.firstStep}};
  }
  return json;
}

} // namespace kerf
