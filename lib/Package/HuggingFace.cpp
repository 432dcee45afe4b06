// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/HuggingFace.h"
#include "Readers.h"

#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace kerf {

namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kWeightsFile = "model.safetensors", *kIndexFile = "model.safetensors.index.json",
                     *kConfigFile = "config.json";

std::string_view torchName(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return "float64";
  case DType::BF16:
    return "bfloat16";
  case DType::F16:
    return "float16";
  default:
    return "float32";
  }
}

/// Returns the floating type that most floating elements have; f32 if there are none.
DType floatingType(const TensorMap &tensors) {
  std::map<DType, int64_t> elements;
  for (const auto &[name, tensor] : tensors)
    if (tensor.dtype <= DType::F16)
      elements[tensor.dtype] += elementsOf(tensor.shape);
  DType most = DType::F32;
  int64_t count = 0;
  for (const auto &[dtype, its] : elements)
    if (its > count)
      most = dtype, count = its;
  return most;
}

/// Returns the names of the weight files that an index file lists.
Result<std::set<std::string>> filesOf(const std::string &indexPath) {
  auto bytes = readFile(indexPath);
  if (!bytes)
    return bytes.error();
  if (Status nesting = checkNesting(*bytes); !nesting)
    return errorWithWayOut(fmt::format("'{}': {}", indexPath, nesting.error().message), kDownloadAgain);
  Json index = Json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
  Json map = index.is_object() && index.contains("weight_map") ? index["weight_map"] : Json();
  std::set<std::string> files;
  for (const Json &file : map.is_object() ? map : Json::object()) {
    std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name) // never read outside of the folder
      return Error{fmt::format("'{}': weight_map names {}, but must name a file in the same folder; correct the name",
                               indexPath, file.dump())};
    files.insert(name);
  }
  if (files.empty())
    return Error{fmt::format(
        "'{}' has no weight_map that names a file for each tensor; write or download the file again", indexPath)};
  return files;
}

/// Splits tensors, in the order of their names, into files of at most `shardBytes` bytes each. A larger tensor has a
/// file of its own.
std::vector<TensorMap> inShards(const TensorMap &tensors, int64_t shardBytes) {
  std::vector<TensorMap> shards(1);
  int64_t bytes = 0;
  for (const auto &[name, tensor] : tensors) {
    if (bytes > 0 && bytes + tensor.bytes() > shardBytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace(name, tensor);
    bytes += tensor.bytes();
  }
  return shards;
}

Status writeConfig(const fs::path &folder, const std::string &config, const TensorMap &tensors) {
  Json json = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error{"the configuration to be saved is not a JSON object; correct the config.json of the model"};
  json["dtype"] = torchName(floatingType(tensors));
  if (json.contains("torch_dtype")) // its name before Transformers 5
    json["torch_dtype"] = json["dtype"];
  return writeFile((folder / kConfigFile).string(), json.dump(2) + "\n");
}
} // namespace

Result<std::optional<TensorMap>> readHuggingFaceWeights(const std::string &folder) {
  std::set<std::string> files;
  std::error_code code;
  const fs::path path(folder);
  if (fs::exists(path / kWeightsFile, code)) {
    files.insert(kWeightsFile);
  } else if (fs::exists(path / kIndexFile, code)) {
    auto named = filesOf((path / kIndexFile).string());
    if (!named)
      return named.error();
    files = std::move(*named);
  }
  if (files.empty())
    return std::optional<TensorMap>();
  TensorMap all;
  for (const std::string &file : files) {
    auto tensors = readSafetensors((path / file).string());
    if (!tensors)
      return tensors.error();
    all.merge(*tensors);
  }
  return std::optional<TensorMap>(std::move(all));
}

Status writeHuggingFace(const std::string &folder, const TensorMap &tensors, const std::string &config,
                        int64_t shardBytes) {
  const fs::path path(folder);
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    return Error{
        fmt::format("cannot make the folder '{}': {}; give a folder that can be written", folder, code.message())};
  std::set<std::string> before;
  if (fs::exists(path / kIndexFile, code))
    if (auto named = filesOf((path / kIndexFile).string()))
      before = std::move(*named);
  const std::vector<TensorMap> shards = inShards(tensors, shardBytes);
  Json map = Json::object();
  int64_t bytes = 0;
  std::set<std::string> written;
  for (size_t i = 0; i < shards.size(); ++i) {
    std::string name =
        shards.size() == 1 ? kWeightsFile : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    if (Status status = writeSafetensors((path / name).string(), shards[i], {{"format", "pt"}}); !status)
      return status;
    written.insert(name);
    for (const auto &[tensor, content] : shards[i]) {
      map[tensor] = name;
      bytes += content.bytes();
    }
  }
  Json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  if (shards.size() > 1)
    if (Status status = writeFile((path / kIndexFile).string(), index.dump(2) + "\n"); !status)
      return status;
  before.insert(shards.size() > 1 ? kWeightsFile : kIndexFile); // readers would prefer the stale file
  for (const std::string &name : before)
    if (!written.count(name))
      fs::remove(path / name, code);
  return config.empty() ? ok() : writeConfig(path, config, tensors);
}

} // namespace kerf
