// SPDX-License-Identifier: Apache-2.0
#include "Onnx/TorchMetadata.h"

#include <fmt/format.h>

namespace kerf::frontend {

namespace {

constexpr std::string_view kSignatureKey = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr std::string_view kCallKey = "pkg.torch.onnx.fx_node";
constexpr std::string_view kScopesKey = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kClassesKey = "pkg.torch.onnx.class_hierarchy";
constexpr std::string_view kNamespaceKey = "namespace";

/// Returns the tensors of one kind in the signature, from lines of the form "variable: KIND target='name'".
std::vector<SignatureEntry> signatureEntries(const OnnxFile &file, std::string_view kind) {
  std::string text = metadata(file.model->graph().metadata_props(), kSignatureKey);
  std::string mark = fmt::format(": {} target='", kind);
  std::vector<SignatureEntry> entries;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    size_t line = text.rfind('\n', at), start = at + mark.size(), end = text.find('\'', start);
    if (end == std::string::npos)
      break;
    line = line == std::string::npos ? 0 : line + 1;
    entries.push_back({text.substr(line, at - line), text.substr(start, end - start)});
    at = end;
  }
  return entries;
}

bool isOfName(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); }

/// Returns the end of the bracketed text that begins at `at`.
size_t endOfBrackets(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '(' || c == '[' || c == '{')
      ++depth;
    else if ((c == ')' || c == ']' || c == '}') && depth-- == 0)
      break;
  }
  return at;
}

/// Returns the parts of a text that commas outside of brackets separate.
std::vector<std::string> listEntries(std::string_view text) {
  std::vector<std::string> entries;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    while (at < text.size() && text[at] != ',')
      at = text[at] == '(' || text[at] == '[' || text[at] == '{' ? endOfBrackets(text, at + 1) + 1 : at + 1;
    at = std::min(at, text.size());
    std::string_view entry = text.substr(start, at - start);
    entry.remove_prefix(std::min(entry.find_first_not_of(' '), entry.size()));
    entries.emplace_back(entry);
    ++at;
  }
  return entries;
}

} // namespace

std::vector<std::string> listWords(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size(); ++at) {
    char quote = text[at];
    if (quote != '\'' && quote != '"')
      continue;
    size_t end = text.find(quote, at + 1);
    if (end == std::string_view::npos)
      break;
    words.emplace_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

std::vector<SignatureEntry> signatureParameters(const OnnxFile &file) { return signatureEntries(file, "PARAMETER"); }

std::vector<std::string> mutatedBuffers(const OnnxFile &file) {
  std::vector<std::string> names;
  for (SignatureEntry &entry : signatureEntries(file, "BUFFER_MUTATION"))
    names.push_back(std::move(entry.target));
  return names;
}

std::vector<std::string> mutatedTensors(const OnnxFile &file) {
  std::vector<std::string> names = mutatedBuffers(file);
  for (SignatureEntry &entry : signatureEntries(file, "PARAMETER_MUTATION"))
    names.push_back(std::move(entry.target));
  return names;
}

std::string moduleOf(const onnx::NodeProto &node) {
  // The last component is the node itself.
  if (std::vector<std::string> scopes = listWords(metadata(node.metadata_props(), kScopesKey)); scopes.size() >= 2)
    return scopes[scopes.size() - 2];
  // "transformer: Model/transformer.wte: Embedding/embedding: aten.embedding"
  std::string text = metadata(node.metadata_props(), kNamespaceKey);
  size_t last = text.rfind('/');
  if (last == std::string::npos)
    return "";
  size_t start = text.rfind('/', last - 1);
  start = last == 0 || start == std::string::npos ? 0 : start + 1;
  std::string scope = text.substr(start, last - start);
  return scope.substr(0, scope.find(':'));
}

std::vector<std::string> classesOf(const onnx::NodeProto &node) {
  return listWords(metadata(node.metadata_props(), kClassesKey));
}

std::string callOf(const onnx::NodeProto &node) { return metadata(node.metadata_props(), kCallKey); }

std::optional<std::string> callArgument(const std::string &call, std::string_view function, size_t index,
                                        std::string_view keyword) {
  std::string begin = fmt::format("[target=torch.ops.{}](args = (", function);
  size_t at = call.find(begin);
  if (at == std::string::npos)
    return std::nullopt;
  at += begin.size();
  size_t end = endOfBrackets(call, at);
  std::vector<std::string> arguments = listEntries(std::string_view(call).substr(at, end - at));
  if (index < arguments.size())
    return arguments[index];
  constexpr std::string_view kKeywords = "kwargs = {";
  size_t keywords = call.find(kKeywords, end);
  if (keywords == std::string::npos)
    return std::nullopt;
  keywords += kKeywords.size();
  for (const std::string &entry :
       listEntries(std::string_view(call).substr(keywords, endOfBrackets(call, keywords) - keywords)))
    if (entry.rfind(fmt::format("{}: ", keyword), 0) == 0)
      return entry.substr(keyword.size() + 2);
  return std::nullopt;
}

std::set<std::string> variablesOfCalls(const OnnxFile &file) {
  std::set<std::string> variables;
  for (const onnx::NodeProto &node : file.model->graph().node()) {
    std::string call = callOf(node);
    // The first '%' stands before the result of the call, so the search starts after it.
    for (size_t at = call.find('%', 1); at != std::string::npos; at = call.find('%', at)) {
      size_t end = ++at;
      while (end < call.size() && isOfName(call[end]))
        ++end;
      variables.insert(call.substr(at, end - at));
    }
  }
  return variables;
}

} // namespace kerf::frontend
