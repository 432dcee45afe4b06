// SPDX-License-Identifier: Apache-2.0
#include "StableHlo/HloSignature.h"
#include "Common/TermBuilder.h"
#include "kerf/Support/File.h"
#include "kerf/Support/JsonText.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::frontend::hlo {

using Json = nlohmann::json;

namespace {

Result<std::vector<std::string>> textsOf(const Json &list, const std::string &what) {
  std::vector<std::string> texts;
  for (const Json &one : list) {
    if (!one.is_string())
      return Error{fmt::format("{} is not a list of names", what)};
    texts.push_back(one.get<std::string>());
  }
  if (!list.is_array())
    return Error{fmt::format("{} is not a list of names", what)};
  return texts;
}

Result<NamedArgument> argumentOf(const Json &json, size_t index) {
  NamedArgument argument;
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    return Error{fmt::format("argument {} has no name", index)};
  argument.name = json["name"].get<std::string>();
  if (auto shape = json.find("shape"); shape != json.end()) {
    Shape sizes;
    bool valid = shape->is_array();
    for (const Json &size : *shape) {
      valid &= size.is_number_integer();
      if (valid)
        sizes.push_back(size.get<int64_t>());
    }
    if (!valid)
      return Error{fmt::format("'{}': its shape is not a list of sizes", argument.name)};
    argument.shape = std::move(sizes);
  }
  if (auto alias = json.find("aliases_result"); alias != json.end() && !alias->is_null()) {
    if (!alias->is_number_integer())
      return Error{fmt::format("'{}': aliases_result is not the index of a result", argument.name)};
    argument.aliasesResult = alias->get<int64_t>();
  }
  if (auto stack = json.find("stack_of"); stack != json.end()) {
    KERF_TRY(names, textsOf(*stack, fmt::format("'{}': stack_of", argument.name)));
    argument.stackOf = names;
  }
  return argument;
}

Result<Signature> signatureOf(const Json &json) {
  Signature signature;
  if (!json.is_object() || !json.contains("arguments") || !json["arguments"].is_array())
    return Error{"it has no list of arguments"};
  std::set<std::string> names;
  for (const Json &one : json["arguments"]) {
    KERF_TRY(argument, argumentOf(one, signature.arguments.size()));
    if (!names.insert(argument.name).second)
      return Error{fmt::format("two arguments are called '{}'", argument.name)};
    signature.arguments.push_back(std::move(argument));
  }
  if (auto results = json.find("results"); results != json.end())
    for (const Json &one : *results) {
      bool named = one.is_object() && one.contains("name") && one["name"].is_string();
      signature.results.push_back(named ? one["name"].get<std::string>() : "");
    }
  return signature;
}

} // namespace

Result<std::optional<Signature>> readSignature(const ModelSource &source) {
  const std::string path = source.bytes ? "the signature of " + source.name : source.beside("signature.json");
  std::error_code code;
  if (source.bytes ? source.signature.empty() : !std::filesystem::exists(path, code))
    return std::optional<Signature>();
  KERF_TRY(text, source.bytes ? Result<std::string>(source.signature) : readFile(path));
  if (Status status = checkJson(text, fmt::format("'{}'", path)); !status)
    return status.error();
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error{fmt::format("'{}' is not a JSON object", path)};
  std::string file = std::filesystem::path(source.name).filename().string();
  std::vector<std::string> others;
  for (const auto &[name, value] : json.items())
    others.push_back(name);
  const Json *own = json.contains(file) ? &json[file] : json.contains("arguments") ? &json : nullptr;
  if (!own)
    return Error{fmt::format("'{}' has no entry for '{}'; its entries are: {}", path, file, fmt::join(others, ", "))};
  auto signature = signatureOf(*own);
  if (!signature)
    return Error{fmt::format("'{}', {}: {}", path, file, signature.error().message)};
  return std::optional<Signature>(std::move(*signature));
}

} // namespace kerf::frontend::hlo
