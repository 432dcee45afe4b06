// SPDX-License-Identifier: Apache-2.0
// Selects the importer for the format of a model.
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

/// Returns the tensors of --weights that the model has, and adds a warning on the others.
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
    return Error{fmt::format("<weights> '{}' has none of the model's tensors; its tensors are: {}", path,
                             fmt::join(unknown, ", "))};
  if (!unknown.empty())
    warnings.push_back(fmt::format("<weights> '{}': {} of its {} tensors are not in the model: {}; they are ignored, "
                                   "so check that the file has this model's weights",
                                   path, unknown.size(), given->size(), fmt::join(unknown, ", ")));
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
    return Error{fmt::format("'{}': the imported program is not valid: {}; report this model, it is a bug of Kerf",
                             path, status.error().message),
                 ExitStatus::InternalCheck};
  return model;
}

/// Returns the error for a file with an unknown suffix: why it is not a model, and what to give instead.
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
    return {fmt::format(
        "'{}' has no graph that Kerf can read; export the model to ONNX, or give its Hugging Face config.json{}", path,
        ending == ".py" ? "" : " and the weights by <weights>")};
  return {fmt::format("'{}' is not a model file that Kerf reads; give a .onnx file, a config.json, or an .mlir file as "
                      "'kerf import' writes it",
                      path)};
}

/// Fails when --global-batch or --sequence differs from the fixed sizes of an export.
static Status checkSizes(const ImportedModel &model, const std::string &path, const ImportOptions &options) {
  if (options.expertCapacity)
    return Error{fmt::format("'{}' is an export, whose expert capacity is fixed; leave <expert-capacity> out, which "
                             "applies to a config.json only",
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

/// Fails for a metric called "loss", a metric given twice, and metrics of a config.json, whose model only has a loss.
static Status checkMetrics(const std::vector<std::string> &metrics, const ModelSource &source) {
  std::set<std::string> seen = {"loss"};
  for (const std::string &name : metrics)
    if (!seen.insert(name).second)
      return Error{name == "loss" ? "<metric> loss: evaluations report the loss without this option; leave it out"
                                  : fmt::format("<metric> {} is given twice; give it once", name)};
  if (!metrics.empty() && source.isConfig())
    return Error{fmt::format("<metric> {}: the model of '{}' has no output but its loss; leave the option out",
                             metrics.front(), source.name)};
  return ok();
}

static Result<ImportedModel> importAny(mlir::MLIRContext &context, const ModelSource &source,
                                       const ImportOptions &options) {
  context.loadDialect<mlir::func::FuncDialect, ir::KerfDialect>();
  if (options.floatType != DType::F32 && options.floatType != DType::F64)
    return Error{
        fmt::format("a model is imported in {}, but must be imported in f32 or f64", toString(options.floatType))};
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
