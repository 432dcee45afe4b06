// SPDX-License-Identifier: Apache-2.0
#include "kerf/Frontend/ModelSource.h"
#include "kerf/Support/File.h"

#include <filesystem>

namespace kerf {

static std::optional<ModelFormat> formatOf(const std::string &path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".onnx")
    return ModelFormat::Onnx;
  if (ending == ".json")
    return ModelFormat::Config;
  if (ending == ".mlir")
    return ModelFormat::Mlir;
  return std::nullopt;
}

ModelSource::ModelSource(std::string path) : name(std::move(path)), format(formatOf(name)) {}

ModelSource ModelSource::inMemory(ModelFormat format, std::string bytes, std::string name) {
  ModelSource source(std::move(name));
  source.format = format;
  source.bytes = std::make_shared<const std::string>(std::move(bytes));
  return source;
}

Result<std::string> ModelSource::read() const { return bytes ? Result<std::string>(*bytes) : readFile(name); }

std::string ModelSource::beside(const std::string &file) const {
  return bytes ? "" : (std::filesystem::path(name).parent_path() / file).string();
}

} // namespace kerf
