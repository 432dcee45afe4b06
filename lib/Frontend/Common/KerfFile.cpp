// SPDX-License-Identifier: Apache-2.0
// Reads and writes kerf IR as text. Weights stay in their files, which the module names.
#include "Common/KerfFile.h"
#include "Common/TermBuilder.h"
#include "Common/WayOut.h"
#include "Config/TransformerImport.h"
#include "Onnx/OnnxFile.h"
#include "StableHlo/HloImport.h"
#include "kerf/Frontend/DeviceFile.h"
#include "kerf/Support/Glob.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace kerf {

namespace frontend {

namespace {

constexpr const char *kWeightsAttr = "kerf.weights";

/// Collects the errors that MLIR would print.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (!text.empty())
            text += "; ";
          llvm::raw_string_ostream stream(text);
          diagnostic.getLocation().print(stream);
          stream << ": " << diagnostic.str();
          return mlir::success();
        }) {}
  std::string text;

private:
  mlir::ScopedDiagnosticHandler handler;
};

mlir::func::FuncOp entryOf(mlir::ModuleOp module) {
  return module.lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
}

std::string textAttr(mlir::func::FuncOp function, unsigned argument, llvm::StringRef name) {
  auto attr = function.getArgAttrOfType<mlir::StringAttr>(argument, name);
  return attr ? attr.str() : std::string();
}

Status checkArguments(mlir::func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (textAttr(function, i, ir::KerfDialect::kNameAttr).empty() ||
        textAttr(function, i, ir::KerfDialect::kKindAttr).empty())
      return Error{fmt::format("argument {} of @main has no kerf.name or no kerf.kind", i)};
  if (function.getNumResults() == 0)
    return Error{"@main returns nothing; its first result is the loss"};
  return ok();
}

/// Converts every floating-point type and constant of the module to `floatType`.
void retype(mlir::ModuleOp module, DType floatType) {
  mlir::Type element = elementType(module.getContext(), floatType);
  auto converted = [&](mlir::Type type) -> mlir::Type {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    return tensor && mlir::isa<mlir::FloatType>(tensor.getElementType()) ? mlir::Type(tensor.clone(element)) : type;
  };
  auto convertAll = [&](auto types) {
    llvm::SmallVector<mlir::Type> result;
    for (mlir::Type type : types)
      result.push_back(converted(type));
    return result;
  };
  module.walk([&](mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      result.setType(converted(result.getType()));
    for (mlir::Region &region : op->getRegions())
      for (mlir::Block &block : region)
        for (mlir::BlockArgument argument : block.getArguments())
          argument.setType(converted(argument.getType()));
    if (auto function = mlir::dyn_cast<mlir::func::FuncOp>(op))
      function.setFunctionType(mlir::FunctionType::get(op->getContext(), convertAll(function.getArgumentTypes()),
                                                       convertAll(function.getResultTypes())));
    auto constant = mlir::dyn_cast<ir::ConstantOp>(op);
    auto dense = constant ? mlir::dyn_cast<mlir::DenseFPElementsAttr>(constant.getValue()) : nullptr;
    if (!dense)
      return;
    const llvm::fltSemantics &semantics = mlir::cast<mlir::FloatType>(element).getFloatSemantics();
    constant.setValueAttr(dense.mapValues(element, [&](const llvm::APFloat &value) {
      llvm::APFloat number = value;
      bool inexact = false;
      number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
      return number.bitcastToAPInt();
    }));
  });
}

/// Removes conversions between types that have become equal.
void dropIdleConversions(mlir::ModuleOp module) {
  module.walk([](ir::ConvertOp op) {
    if (op.getOperand().getType() != op.getType())
      return;
    op.getResult().replaceAllUsesWith(op.getOperand());
    op.erase();
  });
}

/// Reads the tensors of all weights files that are arguments of the function, with its shapes. Tensors of later files
/// have precedence.
Status loadWeights(ImportedModel &model, mlir::func::FuncOp function, const std::vector<std::string> &files) {
  for (const std::string &file : files) {
    KERF_TRY(tensors, readWeights(file));
    size_t found = 0;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto it = tensors.find(textAttr(function, i, ir::KerfDialect::kNameAttr));
      if (it == tensors.end() || textAttr(function, i, ir::KerfDialect::kKindAttr) == "input")
        continue;
      auto given = function.getArgAttrOfType<mlir::TypeAttr>(i, ir::KerfDialect::kGlobalTypeAttr);
      auto whole = given ? mlir::dyn_cast<mlir::RankedTensorType>(given.getValue()) : nullptr;
      Shape wanted = ir::shapeOf(whole ? mlir::Type(whole) : function.getArgumentTypes()[i]);
      if (auto exported = function.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, ir::KerfDialect::kExportedShapeAttr))
        wanted.assign(exported.asArrayRef().begin(), exported.asArrayRef().end());
      ++found;
      if (it->second.shape == wanted)
        model.weights[it->first] = it->second;
      else if (textAttr(function, i, ir::KerfDialect::kKindAttr) !=
               "constant") // the import stored only one slice of a constant
        return Error{fmt::format("'{}' in '{}' has the shape {}, but the model's tensor has {}; give the file with "
                                 "this model's weights",
                                 it->first, file, shapeText(it->second.shape), shapeText(wanted))};
    }
    if (found == 0)
      return Error{fmt::format("'{}' has none of the model's tensors; give the file with this model's weights", file)};
  }
  return ok();
}

/// Checks the module beyond MLIR's verifier: functions have one block and tensor types, and call each other with
/// kerf.call.
Status checkFunctions(mlir::ModuleOp module) {
  for (mlir::Operation &op : module.getOps())
    if (!mlir::isa<mlir::func::FuncOp, ir::MeshOp>(op))
      return Error{fmt::format("the module contains {}, but only functions and one kerf.mesh are allowed",
                               op.getName().getStringRef().str())};
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    std::string name = function.getName().str();
    if (!function.getBody().hasOneBlock())
      return Error{
          fmt::format("@{} has {} blocks, but a function must have one", name, function.getBody().getBlocks().size())};
    for (mlir::TypeRange types :
         {mlir::TypeRange(function.getArgumentTypes()), mlir::TypeRange(function.getResultTypes())})
      for (mlir::Type type : types)
        if (auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type); !tensor || !tensor.hasStaticShape()) {
          std::string text;
          llvm::raw_string_ostream(text) << type;
          return Error{fmt::format(
              "@{} has an argument or a result of type {}, but only tensors of static shape are allowed", name, text)};
        }
    for (mlir::Operation &op : function.front().without_terminator())
      if (!mlir::isa<ir::KerfDialect>(op.getDialect()))
        return Error{fmt::format("@{} contains {}, but only operators of the dialect kerf are allowed", name,
                                 op.getName().getStringRef().str())};
  }
  return ok();
}

/// Fails unless the module has a function @main whose arguments have names.
Result<mlir::OwningOpRef<mlir::ModuleOp>> parseKerf(mlir::MLIRContext &context, const std::string &path,
                                                    const std::string &text) {
  Diagnostics diagnostics(&context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context), path);
  if (!module)
    return Error{fmt::format("'{}' is not kerf IR: {}; {}", path, diagnostics.text, kCorrectIr)};
  mlir::func::FuncOp function = entryOf(*module);
  if (!function || function.isExternal())
    return Error{fmt::format("'{}' has no function @main; {}", path, kCorrectIr)};
  if (Status status = checkFunctions(*module); !status)
    return withWayOut({fmt::format("'{}': {}", path, status.error().message)}, kCorrectIr);
  if (Status status = checkArguments(function); !status)
    return withWayOut({fmt::format("'{}': {}", path, status.error().message)}, kCorrectIr);
  return module;
}

/// Removes the attribute that names the weights files from the module, and reads these files.
Status takeWeights(ImportedModel &model, const ModelSource &source, const std::optional<std::string> &more) {
  std::vector<std::string> files;
  if (auto named = (*model.module)->getAttrOfType<mlir::ArrayAttr>(kWeightsAttr))
    for (mlir::Attribute name : named) {
      auto file = mlir::dyn_cast<mlir::StringAttr>(name);
      if (!file)
        return Error{fmt::format("'{}': kerf.weights is not a list of file names; {}", source.name, kCorrectIr)};
      files.push_back(source.beside(file.str()));
    }
  (*model.module)->removeAttr(kWeightsAttr);
  if (more)
    files.push_back(*more);
  if (Status status = loadWeights(model, entryOf(*model.module), files); !status)
    return Error{fmt::format("'{}': {}", source.name, status.error().message)};
  return ok();
}

} // namespace

Status applyGlobs(mlir::func::FuncOp function, const ImportOptions &options) {
  auto apply = [&](const std::vector<std::string> &globs, const char *option, bool trainable) -> Status {
    for (const std::string &glob : globs) {
      bool any = false;
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        if (textAttr(function, i, ir::KerfDialect::kKindAttr) != "parameter" ||
            !globMatch(glob, textAttr(function, i, ir::KerfDialect::kNameAttr)))
          continue;
        any = true;
        function.removeArgAttr(i, ir::KerfDialect::kTrainableAttr);
        if (trainable)
          function.setArgAttr(i, ir::KerfDialect::kTrainableAttr, mlir::UnitAttr::get(function.getContext()));
      }
      if (!any)
        return Error{
            fmt::format("{} '{}' matches none of the model's parameters; 'kerf import' lists them", option, glob)};
    }
    return ok();
  };
  KERF_CHECK(apply(options.frozen, "<frozen>", false));
  return apply(options.trainable, "<trainable>", true);
}

Status verifyModule(mlir::ModuleOp module) {
  Diagnostics diagnostics(module.getContext());
  if (mlir::failed(mlir::verify(module)))
    return Error{diagnostics.text};
  return ok();
}

Result<TensorMap> readWeights(const std::string &path) {
  std::string kind = std::filesystem::path(path).extension().string();
  if (kind == ".json") {
    KERF_TRY(beside, weightsBesideConfig(path));
    return beside ? std::move(*beside) : TensorMap();
  }
  if (kind == ".mlir")
    return TensorMap(); // the weights of StableHLO lie beside the text
  if (kind != ".onnx")
    return readTensors(path);
  KERF_TRY(file, readOnnx(path));
  TensorMap tensors;
  for (const Initializer &initializer : file.initializers)
    if (initializer.hasData())
      tensors[initializer.name] = initializer.tensor;
  return tensors;
}

/// Returns whether the text is StableHLO or kerf IR, by the first operation name of either dialect, quoted or not.
/// Comments and other strings are skipped.
static bool isStableHlo(llvm::StringRef text) {
  auto endOfWord = [&](size_t at) {
    while (at < text.size() && (llvm::isAlnum(text[at]) || llvm::StringRef("_.$-").contains(text[at])))
      ++at;
    return at;
  };
  auto isOf = [](llvm::StringRef word) { return word.starts_with("stablehlo.") || word.starts_with("kerf."); };
  for (size_t at = 0; at < text.size();) {
    llvm::StringRef rest = text.substr(at);
    if (rest.starts_with("//")) {
      at = text.find('\n', at);
    } else if (rest.front() == '"') {
      size_t end = at + 1;
      while (end < text.size() && text[end] != '"')
        end += text[end] == '\\' ? 2 : 1;
      llvm::StringRef name = text.slice(at + 1, end);
      if (isOf(name) && text.substr(std::min(end + 1, text.size())).starts_with("("))
        return name.starts_with("stablehlo.");
      at = end + 1;
    } else if (llvm::isAlpha(rest.front())) {
      llvm::StringRef word = text.slice(at, endOfWord(at));
      if (isOf(word))
        return word.starts_with("stablehlo.");
      at += word.size();
    } else {
      bool isName = llvm::StringRef("%@#!^").contains(rest.front());
      at = isName ? endOfWord(at + 1) : at + 1;
    }
  }
  return false;
}

Result<ImportedModel> readKerf(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options) {
  const std::string &path = source.name;
  KERF_TRY(text, source.read());
  if (text.rfind("ML\xefR", 0) == 0)
    return Error{
        fmt::format("'{}' is MLIR bytecode, but Kerf reads text; write the text with JAX's lowered.as_text()", path)};
  if (isStableHlo(text))
    return importStableHlo(context, source, text, options);
  ImportedModel model;
  KERF_TRY(module, parseKerf(context, path, text));
  model.module = std::move(module);
  mlir::func::FuncOp function = entryOf(*model.module);
  auto resultName = function.getResultAttrOfType<mlir::StringAttr>(0, ir::KerfDialect::kNameAttr);
  if (!options.loss.empty() && (!resultName || resultName.str() != options.loss))
    return Error{fmt::format("'{}' is kerf IR, which already has the loss '{}'; give <loss> when the model is imported "
                             "from its original file",
                             path, resultName ? resultName.str() : "")};
  if (!options.metrics.empty())
    return Error{fmt::format(
        "'{}' is kerf IR, whose results are fixed; give <metric> when the model is imported from its export", path)};
  retype(*model.module, options.floatType);
  dropIdleConversions(*model.module);
  KERF_CHECK(applyGlobs(function, options));
  if (Status status = verifyModule(*model.module); !status)
    return Error{fmt::format("'{}': {}", path, status.error().message)};
  KERF_CHECK(takeWeights(model, source, options.weights));
  return model;
}

} // namespace frontend

using namespace frontend;

Result<ImportedModel> readDeviceProgram(mlir::MLIRContext &context, const std::string &path,
                                        const std::optional<std::string> &weights) {
  context.loadDialect<mlir::func::FuncDialect, ir::KerfDialect>();
  KERF_TRY(text, readFile(path));
  ImportedModel model;
  KERF_TRY(module, parseKerf(context, path, text));
  model.module = std::move(module);
  if (model.module->getOps<ir::MeshOp>().empty())
    return Error{fmt::format(
        "'{}' has no kerf.mesh, so it is not a device program; `kerf compile <device-ir>` writes a device program",
        path)};
  if (Status status = verifyModule(*model.module); !status)
    return Error{fmt::format("'{}': {}", path, status.error().message)};
  KERF_CHECK(takeWeights(model, path, weights));
  return model;
}

Status writeModel(const ImportedModel &model, const std::string &source, const std::string &path) {
  mlir::OwningOpRef<mlir::ModuleOp> module = model.module.get().clone();
  TensorMap inSource;
  if (!source.empty()) {
    KERF_TRY(tensors, readWeights(source));
    inSource = std::move(tensors);
  }
  TensorMap beside;
  bool needsSource = false;
  for (const auto &[name, tensor] : model.weights) {
    auto it = inSource.find(name);
    bool same = it != inSource.end() && it->second.shape == tensor.shape && it->second.dtype == tensor.dtype &&
                std::memcmp(it->second.data, tensor.data, size_t(tensor.bytes())) == 0;
    needsSource |= same;
    if (!same)
      beside[name] = tensor;
  }
  std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  llvm::SmallVector<mlir::Attribute> files;
  mlir::Builder builder(module->getContext());
  if (needsSource)
    files.push_back(builder.getStringAttr(std::filesystem::absolute(source).lexically_relative(folder).string()));
  if (!beside.empty()) {
    std::filesystem::path file = std::filesystem::path(path).replace_extension(".safetensors");
    KERF_CHECK(writeSafetensors(file.string(), beside));
    files.push_back(builder.getStringAttr(file.filename().string()));
  }
  if (!files.empty())
    (*module)->setAttr(kWeightsAttr, builder.getArrayAttr(files));
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, mlir::OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
  stream << "\n";
  return writeFile(path, text);
}

} // namespace kerf
