// SPDX-License-Identifier: Apache-2.0
// Helpers of tests that write, import and refuse a Hugging Face config.json.
#pragma once

#include "Graphs.h"

#include <nlohmann/json.hpp>

namespace kerf {

using nlohmann::json;

/// Returns `config` with `key` set to `value`.
inline json with(json config, const std::string &key, json value) {
  config[key] = std::move(value);
  return config;
}

/// A test with a folder for a configuration and its weights.
struct Configuration : testing::Test {
  TemporaryFolder folder;
  std::string path = (folder.path / "config.json").string();

  void write(const std::string &name, const std::string &text) { std::ofstream(folder.path / name) << text; }
  Imported import(const json &config, int64_t batch = 2, int64_t sequence = 8) {
    write("config.json", config.dump());
    ImportOptions options;
    options.globalBatch = batch;
    options.sequence = sequence;
    return importFile(path, options);
  }
  /// Returns the number of elements of all trained parameters.
  static int64_t parameters(Imported &imported) {
    int64_t elements = 0;
    for (unsigned i = 0; i < imported.function().getNumArguments(); ++i)
      if (imported.function().getArgAttr(i, "kerf.trainable"))
        elements += elementsOf(ir::shapeOf(imported.function().getArgument(i)));
    return elements;
  }
  /// Expects that the import of `config` fails with a message that contains all `words`.
  void refuses(const json &config, const std::vector<std::string> &words, int64_t batch = 0, int64_t sequence = 0) {
    Imported imported = import(config, batch, sequence);
    ASSERT_FALSE(bool(imported.model)) << config.dump();
    for (const std::string &word : words)
      EXPECT_NE(imported.model.error().message.find(word), std::string::npos)
          << word << " in: " << imported.model.error().message;
    EXPECT_EQ(imported.model.error().status, ExitStatus::BadInput);
  }
};

} // namespace kerf
