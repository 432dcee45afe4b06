// SPDX-License-Identifier: Apache-2.0
#include "Config/ConfigReader.h"
#include "kerf/Support/JsonText.h"
#include "kerf/Support/Nesting.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>

namespace kerf::frontend {

using nlohmann::json;

namespace {

constexpr uintmax_t kMostFileBytes =
    16 << 20;                     // real configurations have kilobytes; long lists of labels are the largest
constexpr size_t kMostShown = 60; // characters of a value that a message shows

const json kNull;

std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  return text.size() > kMostShown ? text.substr(0, kMostShown) + "…" : text;
}

} // namespace

Result<ConfigReader> ConfigReader::open(const ModelSource &source) {
  const std::string &path = source.name;
  std::error_code code;
  uintmax_t size = source.bytes ? source.bytes->size() : std::filesystem::file_size(path, code);
  if (!code && size > kMostFileBytes)
    return Error{fmt::format("'{}' has {} bytes, but a configuration has at most {}; give the config.json of a model",
                             path, size, kMostFileBytes)};
  auto text = source.read();
  if (!text)
    return text.error();
  if (int levels = jsonNesting(*text); levels > kMaxJsonNesting)
    return Error{fmt::format(
        "'{}' has {} levels of nesting, but a configuration has at most {}; give the config.json of a model", path,
        levels, kMaxJsonNesting)};
  if (Status status = checkJson(*text, fmt::format("'{}'", path)); !status)
    return status.error();
  auto whole = std::make_shared<json>(json::parse(*text, nullptr, /*allow_exceptions=*/false));
  if (!whole->is_object())
    return Error{fmt::format("'{}' is not a Hugging Face configuration: its content is {}, not an object; give the "
                             "config.json of a model",
                             path, whole->type_name())};
  ConfigReader reader(whole.get(), "", std::make_shared<std::optional<std::string>>());
  reader.whole = std::move(whole);
  return reader;
}

std::pair<std::string, const json &> ConfigReader::at(const std::string &names) const {
  std::string first;
  for (size_t from = 0; from <= names.size();) {
    size_t to = std::min(names.find('|', from), names.size());
    std::string name = names.substr(from, to - from);
    if (auto it = object->find(name); it != object->end())
      return {name, *it};
    if (first.empty())
      first = name;
    from = to + 1;
  }
  return {first, kNull};
}

void ConfigReader::fail(const std::string &message) {
  if (!*error)
    *error = message;
}

Status ConfigReader::status() const { return *error ? Status(Error{**error}) : ok(); }

void ConfigReader::refuse(const std::string &name, const json &value, const std::string &wanted) {
  fail(fmt::format("{}{} is {}, but {} is needed", within, name, shown(value), wanted));
}

std::optional<int64_t> ConfigReader::integer(const std::string &names, std::optional<int64_t> fallback, int64_t least,
                                             int64_t most) {
  auto [name, value] = at(names);
  if (value.is_null())
    return object->contains(name) ? std::nullopt : fallback;
  bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX));
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) {
    refuse(name, value, fmt::format("an integer from {} to {}", least, most));
    return fallback.value_or(least);
  }
  return value.get<int64_t>();
}

double ConfigReader::number(const std::string &names, double fallback, double above) {
  auto [name, value] = at(names);
  if (value.is_null())
    return fallback;
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= above) {
    refuse(name, value, fmt::format("a number above {}", above));
    return fallback;
  }
  return value.get<double>();
}

bool ConfigReader::flag(const std::string &names, bool fallback) {
  auto [name, value] = at(names);
  if (value.is_null())
    return fallback;
  if (!value.is_boolean()) {
    refuse(name, value, "true or false");
    return fallback;
  }
  return value.get<bool>();
}

std::string ConfigReader::text(const std::string &names, const std::string &fallback) {
  auto [name, value] = at(names);
  if (value.is_null())
    return fallback;
  if (!value.is_string()) {
    refuse(name, value, "a text");
    return fallback;
  }
  return value.get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const std::string &names) {
  auto [name, value] = at(names);
  std::vector<std::string> result;
  if (value.is_null())
    return result;
  bool strings = value.is_array();
  for (const json &item : strings ? value : json::array())
    strings &= item.is_string();
  if (!strings) {
    refuse(name, value, "a list of texts");
    return result;
  }
  for (const json &item : value)
    result.push_back(item.get<std::string>());
  return result;
}

std::optional<int64_t> ConfigReader::count(const std::string &names) {
  auto [name, value] = at(names);
  if (value.is_null())
    return std::nullopt;
  if (!value.is_structured()) {
    refuse(name, value, "an object or a list");
    return std::nullopt;
  }
  return int64_t(value.size());
}

std::optional<ConfigReader> ConfigReader::section(const std::string &names) {
  auto [name, value] = at(names);
  if (value.is_null())
    return std::nullopt;
  if (!value.is_object()) {
    refuse(name, value, "an object");
    return std::nullopt;
  }
  ConfigReader reader(&value, within + name + ".", error);
  reader.whole = whole;
  return reader;
}

} // namespace kerf::frontend
