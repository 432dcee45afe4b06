// SPDX-License-Identifier: Apache-2.0
// The keys of a Hugging Face config.json. A key that is absent has the default of its configuration class; one that is
// wrong is an error with its name and value. The first error is kept, so that what reads a configuration is a plain
// list of keys.
#pragma once

#include "kerf/Frontend/ModelSource.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kerf::frontend {

class ConfigReader {
public:
  /// Reads and parses a configuration: a JSON object of at most 16 MiB.
  static Result<ConfigReader> open(const ModelSource &source);

  // `names`: a key, or several that mean the same, "n_layer|num_hidden_layers": the first that the file has counts.

  /// An integer in [least, most]; nothing where the key is null, and `otherwise` where it is absent.
  std::optional<int64_t> integer(const std::string &names, std::optional<int64_t> otherwise, int64_t least,
                                 int64_t most);
  /// A finite number above `above`, or `otherwise` where the key is absent or null.
  double number(const std::string &names, double otherwise, double above);
  bool flag(const std::string &names, bool otherwise);
  std::string text(const std::string &names, const std::string &otherwise);
  /// The strings of a list; none where the key is absent or null.
  std::vector<std::string> texts(const std::string &names);
  /// The number of entries of an object or a list; nothing where the key is absent or null.
  std::optional<int64_t> count(const std::string &names);
  /// The object under the key; nothing where it is absent or null. Its errors are this reader's.
  std::optional<ConfigReader> section(const std::string &names);
  bool has(const std::string &names) const { return !at(names).second.is_null(); }
  /// The value as JSON; null where the key is absent.
  const nlohmann::json &value(const std::string &names) const { return at(names).second; }

  void fail(const std::string &message);
  Status status() const;

private:
  ConfigReader(const nlohmann::json *object, std::string within, std::shared_ptr<std::optional<std::string>> error)
      : object(object), within(std::move(within)), error(std::move(error)) {}
  std::pair<std::string, const nlohmann::json &> at(const std::string &names) const;
  void refuse(const std::string &name, const nlohmann::json &value, const std::string &wanted);

  std::shared_ptr<nlohmann::json> whole; // of the file; keeps `object` alive
  const nlohmann::json *object;
  std::string within; // "rope_parameters." in a section
  std::shared_ptr<std::optional<std::string>> error;
};

} // namespace kerf::frontend
