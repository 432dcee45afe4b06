// SPDX-License-Identifier: Apache-2.0
// One door for every kind of model file.
#include "kerf/Frontend/Import.h"
#include "Common/KerfFile.h"
#include "Config/TransformerImport.h"
#include "Onnx/OnnxGraph.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf {

using namespace frontend;

/// The tensors of `--weights` that the model has, with a message about the others.
static Result<TensorMap> replacements(const OnnxFile &file, const std::string &path,
                                      std::vector<std::string> &warnings) {
  Result<TensorMap> given = readWeights(path);
  if (!given)
    return given.error();
  std::vector<std::string> unknown;
  for (const auto &[name, tensor] : *given)
    if (!file.find(name))
      unknown.push_back(name);
  if (unknown.size() == given->size())
    return Error{
        fmt::format("<weights> '{}' holds none of the model's tensors; it has: {}", path, fmt::join(unknown, ", "))};
  if (!unknown.empty())
    warnings.push_back(fmt::format("<weights> '{}': {} of its {} tensors are not in the model: {}", path,
                                   unknown.size(), given->size(), fmt::join(unknown, ", ")));
  for (const std::string &name : unknown)
    given->erase(name);
  return given;
}

static Result<ImportedModel> importOnnxFile(mlir::MLIRContext &context, const ModelSource &source,
                                            const ImportOptions &options) {
  const std::string &path = source.name;
  Result<OnnxFile> file = readOnnx(source);
  if (!file)
    return file.error();
  std::vector<std::string> warnings;
  TensorMap replaced;
  if (options.weights) {
    Result<TensorMap> given = replacements(*file, *options.weights, warnings);
    if (!given)
      return given.error();
    replaced = std::move(*given);
  }
  Result<ImportedModel> model = importOnnx(context, std::move(*file), options, replaced);
  if (!model)
    return Error{fmt::format("'{}': {}", path, model.error().message), model.error().status};
  model->warnings.insert(model->warnings.begin(), warnings.begin(), warnings.end());
  if (Status status = verifyModule(*model->module); !status)
    return Error{fmt::format("'{}': the imported program is not valid: {}", path, status.error().message),
                 ExitStatus::InternalCheck};
  return model;
}

/// Why a file with no known ending is no model, and what to give instead.
static Error notAModel(const std::filesystem::path &file) {
  std::error_code code;
  const std::string path = file.string(), ending = file.extension().string();
  if (path.empty())
    return {"MODEL is empty; give a .onnx file, a Hugging Face config.json, or an .mlir file"};
  if (std::filesystem::is_directory(file, code)) {
    for (const char *name : {"config.json", "model.onnx", "model.mlir"})
      if (std::filesystem::exists(file / name, code))
        return {fmt::format("'{}' is a folder, not a model file; give '{}'", path, (file / name).string())};
    return {
        fmt::format("'{}' is a folder, not a model file; give a .onnx file, a Hugging Face config.json, or an .mlir "
                    "file",
                    path)};
  }
  if (ending == ".pt" || ending == ".pth" || ending == ".bin" || ending == ".safetensors" || ending == ".py")
    return {fmt::format("'{}' holds no graph that Kerf reads; export the model to ONNX, or give its Hugging Face "
                        "config.json{}",
                        path, ending == ".py" ? "" : " and the weights by <weights>")};
  return {fmt::format("'{}' is no model file that Kerf reads: .onnx, config.json, or .mlir as 'kerf import' writes it",
                      path)};
}

/// An export has its sizes: those that were asked for have to be the same.
static Status checkSizes(const ImportedModel &model, const std::string &path, const ImportOptions &options) {
  if (options.expertCapacity)
    return Error{fmt::format("'{}' is an export, which has its experts' slots: <expert-capacity> is for a config.json; "
                             "leave it out",
                             path)};
  auto main = mlir::SymbolTable(*model.module).lookup<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  int64_t batch = 0;
  std::set<int64_t> sequences; // second dimensions of inputs
  for (unsigned i = 0; main && i < main.getNumArguments(); ++i) {
    auto kind = main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kKindAttr);
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(main.getArgumentTypes()[i]);
    if (!kind || kind.getValue() != "input" || !type || type.getRank() == 0)
      continue;
    batch = batch ? batch : type.getDimSize(0);
    if (type.getRank() > 1)
      sequences.insert(type.getDimSize(1));
  }
  if (options.globalBatch && batch && options.globalBatch != batch)
    return Error{fmt::format("<global-batch> is {}; '{}' was exported with a batch of {}, which is fixed: leave the "
                             "option out, or export it with {}",
                             options.globalBatch, path, batch, options.globalBatch)};
  if (options.sequence && !sequences.empty() && !sequences.contains(options.sequence))
    return Error{fmt::format("<sequence> is {}; the inputs of '{}' were exported with {} as their second dimension, "
                             "which is fixed: leave the option out, or export it with {}",
                             options.sequence, path, fmt::join(sequences, ", "), options.sequence)};
  return ok();
}

/// Names of metrics are names of results.
static Status checkMetrics(const std::vector<std::string> &metrics, const ModelSource &source) {
  std::set<std::string> seen = {"loss"};
  for (const std::string &name : metrics)
    if (!seen.insert(name).second)
      return Error{name == "loss" ? "<metric> loss: evaluations tell the loss anyway"
                                  : fmt::format("<metric> {} is given twice", name)};
  if (!metrics.empty() && source.isConfig())
    return Error{
        fmt::format("<metric> {}: the model of '{}' has no output but its loss", metrics.front(), source.name)};
  return ok();
}

static Result<ImportedModel> importAny(mlir::MLIRContext &context, const ModelSource &source,
                                       const ImportOptions &options) {
  context.loadDialect<mlir::func::FuncDialect, ir::KerfDialect>();
  if (options.floatType != DType::F32 && options.floatType != DType::F64)
    return Error{fmt::format("a model is imported in f32 or f64, not in {}", toString(options.floatType))};
  if (Status status = checkMetrics(options.metrics, source); !status)
    return status.error();
  if (!source.format)
    return notAModel(source.name);
  switch (*source.format) {
  case ModelFormat::Onnx:
    return importOnnxFile(context, source, options);
  case ModelFormat::Mlir:
    return readKerf(context, source, options);
  case ModelFormat::Config:
    return importConfig(context, source, options);
  }
  return notAModel(source.name);
}

Result<ImportedModel> importModel(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options) {
  auto model = importAny(context, source, options);
  if (model && !source.isConfig())
    if (Status status = checkSizes(*model, source.name, options); !status)
      return status.error();
  return model;
}

} // namespace kerf
