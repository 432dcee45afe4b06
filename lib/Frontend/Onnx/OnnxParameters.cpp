// SPDX-License-Identifier: Apache-2.0
// Decides which initializers are parameters, by the exporter's marks or by their names, and writes the warnings about
// this decision.
#include "Onnx/OnnxParameters.h"
#include "Common/Literal.h"
#include "Common/Narrow.h"
#include "Onnx/TorchMetadata.h"
#include "kerf/Support/Glob.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace kerf::frontend {

namespace {

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
bool startsWith(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

/// Returns whether an exporter generated the name, so that the tensor is not a parameter of the module.
bool isMadeUp(const std::string &name) {
  if (startsWith(name, "onnx::") || startsWith(name, "/") || startsWith(name, "const_") || endsWith(name, "/shape"))
    return true;
  return startsWith(name, "val_") && name.find_first_not_of("0123456789", 4) == std::string::npos;
}

bool isNormStatistic(const std::string &name) {
  return endsWith(name, "running_mean") || endsWith(name, "running_var") || endsWith(name, "num_batches_tracked");
}

/// Returns the name from which an initializer was folded, or "" if there are none or several.
std::string onlySource(const Initializer &initializer) {
  std::vector<std::string> from = listWords(initializer.foldedFrom);
  return from.size() == 1 ? from[0] : std::string();
}

bool isTransposeOf(const Initializer &copy, const Initializer &of) {
  const Tensor &x = copy.tensor, &y = of.tensor;
  if (copy.narrow || of.narrow || x.shape.size() != 2 || y.shape != Shape(x.shape.rbegin(), x.shape.rend()) ||
      x.dtype != y.dtype || !x.data || !y.data)
    return false;
  int64_t rows = x.shape[0], columns = x.shape[1], bytes = bytesOf(x.dtype);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (std::memcmp(x.data + (row * columns + column) * bytes, y.data + (column * rows + row) * bytes,
                      size_t(bytes)) != 0)
        return false;
  return true;
}

/// Returns initializers that configure nodes, such as the scales of a Resize or the class weights of a loss, and are
/// therefore no parameters.
std::set<std::string> settings(const OnnxFile &file) {
  struct Operand {
    std::string_view op;
    int first; // this operand and all after it
  };
  constexpr Operand kSettings[] = {{"NegativeLogLikelihoodLoss", 2}, {"OneHot", 1},  {"Pad", 1}, {"Resize", 1},
                                   {"SoftmaxCrossEntropyLoss", 2},   {"Upsample", 1}};
  std::set<std::string> names;
  for (const onnx::NodeProto &node : file.model->graph().node())
    for (const Operand &operand : kSettings)
      for (int i = operand.first; node.op_type() == operand.op && i < node.input_size(); ++i)
        names.insert(node.input(i));
  return names;
}

} // namespace

bool exporterMarksParameters(const OnnxFile &file) {
  return std::any_of(file.initializers.begin(), file.initializers.end(),
                     [](const Initializer &i) { return !i.kind.empty(); });
}

namespace {

/// Returns whether PyTorch's older exporter gave this name to a weight that it transposed for a matrix product.
bool isTransposedByName(const OnnxFile &file, const Initializer &initializer) {
  return startsWith(initializer.name, "onnx::MatMul_") && initializer.tensor.shape.size() == 2 &&
         isFloat(initializer.tensor.dtype) && !initializer.narrow && !exporterMarksParameters(file);
}

/// Returns the parameter whose transpose the weight is too (a head tied to its embedding), or null. Uniform matrices do
/// not count, because they are equal by accident.
const Initializer *tiedTo(const OnnxFile &file, const Initializer &copy) {
  for (const Initializer &of : file.initializers)
    if (!isMadeUp(of.name) && isTransposeOf(copy, of) && !isUniform(of.tensor))
      return &of;
  return nullptr;
}

} // namespace

std::set<std::string> transposedWeights(const OnnxFile &file) {
  std::set<std::string> parameters;
  for (SignatureEntry &entry : signatureParameters(file))
    parameters.insert(std::move(entry.target));
  std::map<std::string, std::vector<std::string>> madeOf; // name of a missing parameter -> constants computed from it
  for (const Initializer &initializer : file.initializers)
    for (const std::string &from : listWords(initializer.foldedFrom))
      if (parameters.count(from) && !file.find(from))
        madeOf[from].push_back(initializer.name);
  std::set<std::string> weights, otherwiseRead;
  for (const auto &[parameter, folded] : madeOf)
    if (const Initializer *weight = file.find(folded[0]);
        folded.size() == 1 && onlySource(*weight) == parameter && weight->tensor.shape.size() == 2)
      weights.insert(weight->name);
  for (const Initializer &initializer : file.initializers)
    if (isTransposedByName(file, initializer) && !tiedTo(file, initializer))
      weights.insert(initializer.name);
  for (const onnx::NodeProto &node : file.model->graph().node())
    for (int i = 0; i < node.input_size(); ++i)
      if (node.op_type() != "MatMul" || i != 1)
        otherwiseRead.insert(node.input(i));
  for (const std::string &name : otherwiseRead)
    weights.erase(name);
  return weights;
}

std::optional<int64_t> untrainedRow(const OnnxFile &file, const onnx::NodeProto &node) {
  const Initializer *table = node.op_type() == "Gather" ? file.find(node.input(0)) : nullptr;
  if (!table || !table->hasData() || table->narrow || table->tensor.shape.size() != 2)
    return std::nullopt;
  std::string padding = callArgument(callOf(node), "aten.embedding.default", 2, "padding_idx").value_or("");
  int64_t row = -1, columns = table->tensor.shape[1], bytes = columns * bytesOf(table->tensor.dtype);
  if (std::from_chars(padding.data(), padding.data() + padding.size(), row).ec != std::errc() || row < 0 ||
      row >= table->tensor.shape[0])
    return std::nullopt;
  const std::byte *values = table->tensor.data + row * bytes;
  return std::all_of(values, values + bytes, [](std::byte b) { return b == std::byte(0); }) ? std::optional(row)
                                                                                            : std::nullopt;
}

Result<std::vector<InitializerRole>> initializerRoles(const OnnxFile &file, const ImportOptions &options) {
  bool kinds = exporterMarksParameters(file);
  std::vector<bool> trainableUsed(options.trainable.size()), frozenUsed(options.frozen.size());
  std::vector<InitializerRole> roles;
  std::set<std::string> areSettings = settings(file), areTransposed = transposedWeights(file);
  for (const Initializer &initializer : file.initializers) {
    const std::string &name = initializer.name;
    bool floating = isFloat(initializer.tensor.dtype) && !initializer.narrow;
    bool parameter = initializer.kind == "PARAMETER" || areTransposed.count(name);
    if (!kinds)
      parameter = areTransposed.count(name) || (!isMadeUp(name) && !isNormStatistic(name) &&
                                                initializer.foldedFrom.empty() && !initializer.tensor.shape.empty());
    parameter &= floating && !areSettings.count(name);
    InitializerRole role = parameter ? InitializerRole::TrainedParameter
                           : !initializer.narrow && (initializer.kind == "BUFFER" || (!kinds && isNormStatistic(name)))
                               ? InitializerRole::Buffer
                               : InitializerRole::Constant;
    for (size_t i = 0; i < options.frozen.size(); ++i)
      if (globMatch(options.frozen[i], name)) {
        role = parameter ? InitializerRole::FrozenParameter : role;
        frozenUsed[i] = true;
      }
    for (size_t i = 0; i < options.trainable.size(); ++i)
      if (floating && globMatch(options.trainable[i], name)) {
        role = InitializerRole::TrainedParameter;
        trainableUsed[i] = true;
      }
    for (size_t i = 0; i < options.trainable.size() && initializer.narrow; ++i)
      if (options.trainable[i] == name)
        return Error{fmt::format("<trainable> '{}' has the narrow type {}, whose tensors are constants; to train it, "
                                 "export it as float and cast it in the model",
                                 name, initializer.narrow->name)};
    roles.push_back(role);
  }
  auto unused = [&](const std::vector<std::string> &globs, const std::vector<bool> &used,
                    const char *option) -> Status {
    for (size_t i = 0; i < globs.size(); ++i)
      if (!used[i])
        return Error{fmt::format("{} '{}' matches none of the model's {} initializers; 'kerf import' lists them",
                                 option, globs[i], file.initializers.size())};
    return ok();
  };
  if (Status status = unused(options.trainable, trainableUsed, "<trainable>"); !status)
    return status.error();
  if (Status status = unused(options.frozen, frozenUsed, "<frozen>"); !status)
    return status.error();
  return roles;
}

const Initializer *parameterTransposedTo(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                         const Initializer &copy) {
  const Initializer *of = isTransposedByName(file, copy) ? tiedTo(file, copy) : file.find(onlySource(copy));
  bool isParameter = of && roles[of - file.initializers.data()] >= InitializerRole::FrozenParameter;
  return isParameter && isTransposeOf(copy, *of) ? of : nullptr;
}

std::vector<std::string> parameterWarnings(const OnnxFile &file, const std::vector<InitializerRole> &roles,
                                           const std::vector<int> &needed, const LostParameters &lost) {
  std::vector<std::string> warnings;
  if (!file.missingFiles.empty() && !file.inMemory) { // the weights of a model in memory are given when it is trained
    std::vector<std::string> files;
    for (const auto &[name, count] : file.missingFiles)
      files.push_back(fmt::format("'{}' ({} tensors)", name, count));
    warnings.push_back(fmt::format("the weights file {} of the model does not exist; for training, put the file into "
                                   "the model's folder, or give <weights>",
                                   fmt::join(files, ", ")));
  }

  if (!lost.transposed.empty())
    warnings.push_back(fmt::format(
        "the exporter transposed {} weights and renamed them; they are trained and saved under the new names: {}",
        lost.transposed.size(), fmt::join(lost.transposed, ", ")));
  if (!lost.trainedAs.empty())
    warnings.push_back(fmt::format("{} parameters are trained as the constants into which the exporter folded them: "
                                   "{}; export with optimize=False to train them under their own names",
                                   lost.trainedAs.size(), fmt::join(lost.trainedAs, ", ")));
  if (!lost.folded.empty())
    warnings.push_back(fmt::format(
        "the exporter folded {} of the model's {}parameters into constants or merged them with others; training this "
        "graph is not training the model (export with optimize=False, docs/exporting.md; <trainable> GLOB trains a "
        "constant): {}",
        lost.folded.size(), lost.parameters ? fmt::format("{} ", lost.parameters) : "", fmt::join(lost.folded, ", ")));
  if (!lost.unread.empty())
    warnings.push_back(fmt::format("{} parameters of the module are not in the graph, because the module does not use "
                                   "them: {}; remove them from the module, or ignore this",
                                   lost.unread.size(), fmt::join(lost.unread, ", ")));

  // Without marks of the exporter, a scalar may be a learned temperature or a constant.
  std::vector<std::string> scalars;
  bool isPyTorch = file.model->producer_name() == "pytorch"; // only PyTorch uses such names
  for (size_t i = 0; i < file.initializers.size() && !exporterMarksParameters(file); ++i)
    if (const Initializer &one = file.initializers[i];
        isFloat(one.tensor.dtype) && !one.narrow && one.tensor.shape.empty() && roles[i] == InitializerRole::Constant &&
        !isMadeUp(one.name) && (isPyTorch || one.name.find('.') != std::string::npos))
      scalars.push_back(one.name);
  if (!scalars.empty())
    warnings.push_back(
        fmt::format("scalars that may be parameters are not trained: {}; train them with <trainable> NAME",
                    fmt::join(scalars, ", ")));

  std::vector<std::string> narrow;
  std::set<std::string> names;
  for (SignatureEntry &entry : signatureParameters(file))
    names.insert(std::move(entry.target));
  for (const Initializer &initializer : file.initializers)
    if (initializer.narrow && (initializer.kind == "PARAMETER" || names.count(initializer.name)))
      narrow.push_back(fmt::format("{} ({})", initializer.name, initializer.narrow->name));
  if (!narrow.empty())
    warnings.push_back(fmt::format(
        "parameters of narrow formats are constants and are not trained: {}; export them in a wider type to train them",
        fmt::join(narrow, ", ")));

  std::vector<std::string> apart;
  for (const std::string &name : file.separated)
    if (roles[file.initializerIndex.at(name)] == InitializerRole::TrainedParameter)
      apart.push_back(name);
  constexpr size_t kNamed = 6;
  if (!apart.empty()) {
    size_t more = apart.size() > kNamed ? apart.size() - kNamed : 0;
    warnings.push_back(fmt::format("the exporter merged parameters of equal values; {} that are uniform or belong to "
                                   "repeated layers are trained separately again: {}{}",
                                   apart.size(), fmt::join(apart.begin(), apart.end() - int64_t(more), ", "),
                                   more ? fmt::format(" and {} more", more) : ""));
  }

  constexpr int64_t kLikeWeights = 1024; // elements; smaller tensors may be tables of scalars
  std::vector<std::string> large;
  std::set<std::string> constantsSaid = lost.constants;
  for (int index : needed) {
    const onnx::NodeProto &node = file.model->graph().node(index);
    const std::string &op = node.op_type();
    bool isProduct =
        op == "MatMul" || op == "Gemm" || op == "Conv" || op == "Gather" || op == "LSTM" || op == "GRU" || op == "RNN";
    for (const std::string &input : node.input()) {
      // The older exporter gives this name to folded constants, which were computed from a parameter or a buffer.
      bool isFolded = startsWith(input, "onnx::") && !exporterMarksParameters(file);
      if (!isProduct && !isFolded)
        continue;
      auto it = file.initializerIndex.find(input);
      if (it == file.initializerIndex.end() || roles[it->second] != InitializerRole::Constant ||
          constantsSaid.count(input))
        continue;
      const Tensor &tensor = file.initializers[it->second].tensor;
      if (!isFloat(tensor.dtype) || elementsOf(tensor.shape) < (isFolded ? 2 : kLikeWeights) ||
          parameterTransposedTo(file, roles, file.initializers[it->second]))
        continue;
      constantsSaid.insert(input);
      large.push_back(fmt::format("{} {} of '{}'", input, shapeText(tensor.shape), node.name()));
    }
  }
  if (!large.empty())
    warnings.push_back(
        fmt::format("constants that are used as weights are not trained (<trainable> NAME trains them; exported with "
                    "do_constant_folding=False they may be parameters): {}",
                    fmt::join(large, ", ")));
  return warnings;
}

} // namespace kerf::frontend
