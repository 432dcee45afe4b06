// SPDX-License-Identifier: Apache-2.0
// The source of a model to import: a file, or text or bytes in memory.
#pragma once

#include "kerf/Support/Result.h"

#include <memory>
#include <optional>
#include <string>

namespace kerf {

/// The format of a model.
enum class ModelFormat {
  Onnx,   // the bytes of a .onnx file
  Config, // the text of a Hugging Face config.json
  Mlir    // StableHLO text, or kerf IR
};

/// A model to import: its format and the place of its bytes.
struct ModelSource {
  /// Names a model file, whose suffix selects the format.
  ModelSource(std::string path);
  ModelSource(const char *path) : ModelSource(std::string(path)) {}
  /// Returns a source for a model in memory. Weights that are not in `bytes` must be given by ImportOptions::weights,
  /// because no files lie beside the model. `name` is the model's name in messages.
  static ModelSource inMemory(ModelFormat format, std::string bytes, std::string name = "model in memory");

  std::string name;                         // path of the file, or the name of a model in memory
  std::optional<ModelFormat> format;        // absent: Kerf does not read files with this suffix
  std::shared_ptr<const std::string> bytes; // the bytes of a model in memory; null: the model is a file
  /// The JSON text of signature.json for StableHLO in memory (docs/stablehlo.md); "": none.
  std::string signature = {};

  /// Returns whether the model is a Hugging Face config.json.
  bool isConfig() const { return format == ModelFormat::Config; }
  /// Returns the bytes of the model, read from the file if necessary. Fails when the file cannot be read.
  Result<std::string> read() const;
  /// Returns the path of `file` in the folder of the model, or "" for a model in memory.
  std::string beside(const std::string &file) const;
};

} // namespace kerf
