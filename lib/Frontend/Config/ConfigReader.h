// SPDX-License-Identifier: Apache-2.0
// Reads the keys of a Hugging Face config.json. An absent key has the default of its configuration class. A key with a
// wrong value is an error that names the key and the value. The reader stores the first error, so that the code that
// reads a configuration needs no error check after each key.
#pragma once

#include "kerf/Frontend/ModelSource.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kerf::frontend {

/// A reader of one JSON object of a configuration.
class ConfigReader {
public:
  /// Reads and parses a configuration: a JSON object of at most 16 MiB.
  static Result<ConfigReader> open(const ModelSource &source);

  // The argument `names` is a key, or several keys with the same meaning, as in "n_layer|num_hidden_layers". The first
  // of these keys that the file has is read.

  /// Reads an integer from `least` to `most`. Returns nothing for null, and `fallback` when the key is absent.
  std::optional<int64_t> integer(const std::string &names, std::optional<int64_t> fallback, int64_t least,
                                 int64_t most);
  /// Reads a finite number greater than `above`. Returns `fallback` when the key is absent or null.
  double number(const std::string &names, double fallback, double above);
  /// Reads true or false. Returns `fallback` when the key is absent or null.
  bool flag(const std::string &names, bool fallback);
  /// Reads a text. Returns `fallback` when the key is absent or null.
  std::string text(const std::string &names, const std::string &fallback);
  /// Reads a list of strings. Returns an empty list when the key is absent or null.
  std::vector<std::string> texts(const std::string &names);
  /// Returns the number of entries of an object or a list, or nothing when the key is absent or null.
  std::optional<int64_t> count(const std::string &names);
  /// Returns a reader of the object under the key, or nothing when the key is absent or null. Errors of the returned
  /// reader are stored in this reader too.
  std::optional<ConfigReader> section(const std::string &names);
  /// Returns whether the key is present and not null.
  bool has(const std::string &names) const { return !at(names).second.is_null(); }
  /// Returns the value as JSON, or null when the key is absent.
  const nlohmann::json &value(const std::string &names) const { return at(names).second; }

  /// Stores an error, unless there is one already.
  void fail(const std::string &message);
  /// Returns the stored error, or success.
  Status status() const;

private:
  ConfigReader(const nlohmann::json *object, std::string within, std::shared_ptr<std::optional<std::string>> error)
      : object(object), within(std::move(within)), error(std::move(error)) {}
  /// Returns the first key of `names` that the object has, with its value.
  std::pair<std::string, const nlohmann::json &> at(const std::string &names) const;
  /// Stores the error that `name` is `value` instead of what is `wanted`.
  void refuse(const std::string &name, const nlohmann::json &value, const std::string &wanted);

  std::shared_ptr<nlohmann::json> whole; // the whole file, which keeps `object` alive
  const nlohmann::json *object;
  std::string within; // prefix of keys in messages: "" or "rope_parameters."
  std::shared_ptr<std::optional<std::string>> error;
};

} // namespace kerf::frontend
