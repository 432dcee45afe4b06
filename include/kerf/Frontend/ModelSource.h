// SPDX-License-Identifier: Apache-2.0
// A model to be imported: a file, or text or bytes in memory.
#pragma once

#include "kerf/Support/Result.h"

#include <memory>
#include <optional>
#include <string>

namespace kerf {

enum class ModelFormat {
  Onnx,   // the bytes of a .onnx file
  Config, // the text of a Hugging Face config.json
  Mlir    // StableHLO text, or kerf IR
};

struct ModelSource {
  /// A file, whose format follows from its suffix.
  ModelSource(std::string path);
  ModelSource(const char *path) : ModelSource(std::string(path)) {}
  /// A model in memory. No file lies beside it: weights that are not in it are given by name (ImportOptions::weights).
  /// `name` is what messages call it.
  static ModelSource inMemory(ModelFormat format, std::string bytes, std::string name = "model in memory");

  std::string name;                         // the file's path, or the name in messages
  std::optional<ModelFormat> format;        // nothing: the suffix is none that Kerf reads
  std::shared_ptr<const std::string> bytes; // in memory; null: they are the file's
  /// For StableHLO in memory: the JSON text that stands in signature.json beside a file (docs/stablehlo.md); "" for
  /// none.
  std::string signature = {};

  bool isConfig() const { return format == ModelFormat::Config; }
  /// The bytes, wherever they are.
  Result<std::string> read() const;
  /// The path of a file beside the model; "", which no file has, beside a model in memory.
  std::string beside(const std::string &file) const;
};

} // namespace kerf
