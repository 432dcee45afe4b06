// SPDX-License-Identifier: Apache-2.0
// Writes the IR of a configuration's model (@main with embedding, one call of @layer for each layer, head and loss),
// and reads its weights.
#include "Config/TransformerImport.h"
#include "Common/KerfFile.h"
#include "Config/SmallModel.h"
#include "Config/TransformerLayer.h"
#include "Onnx/OnnxNode.h"
#include "kerf/Package/HuggingFace.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::frontend {

namespace {

using mlir::Value;

constexpr int64_t kIgnoredLabel = -100; // the label that PyTorch's cross_entropy ignores by default
constexpr const char *kWeightsFile = "model.safetensors";

mlir::func::FuncOp emptyFunction(mlir::ModuleOp module, llvm::StringRef name, mlir::Location loc) {
  mlir::OpBuilder top = mlir::OpBuilder::atBlockEnd(module.getBody());
  auto function = mlir::func::FuncOp::create(top, loc, name, top.getFunctionType({}, {}));
  function.addEntryBlock();
  return function;
}

class TransformerImport {
public:
  TransformerImport(mlir::MLIRContext &context, const TransformerModel &m, StepSize step, DType floatType,
                    bool structureOnly)
      : m(m), n(m.names), structureOnly(structureOnly), batch(step.batch), sequence(step.sequence),
        floatType(floatType), element(elementType(&context, floatType)), unknown(mlir::UnknownLoc::get(&context)),
        module(mlir::ModuleOp::create(unknown)), main(emptyFunction(*module, ir::KerfDialect::kEntryName, unknown)),
        w(main, element, ""), emit(w.emitter()) {
    w.dropoutMarksEnabled = structureOnly;
  }

  Result<mlir::OwningOpRef<mlir::ModuleOp>> run() {
    mlir::Type ids = w.opBuilder().getI64Type();
    bool image = m.objective == TrainingObjective::ImageClassification;
    Value given = image ? w.input("pixel_values", element, {batch, m.channels, m.imageSize, m.imageSize})
                        : w.input("input_ids", ids, {batch, sequence});
    SharedValues shared;
    Value types;
    if (m.objective == TrainingObjective::MaskedLm || m.objective == TrainingObjective::SequenceToSequence)
      shared.mask = paddingMask(w, w.input("attention_mask", ids, {batch, sequence}));
    if (m.objective == TrainingObjective::MaskedLm)
      types = w.input("token_type_ids", ids, {batch, sequence});
    Value labels = w.input("labels", ids, image ? Shape{batch} : Shape{batch, sequence});
    Value x = image ? pictureEmbedding(given) : tokenEmbedding(given, types);
    if (m.position == PositionKind::Rotary)
      addRotaryTables(w, m, sequence, shared);
    if (m.position == PositionKind::Alibi)
      shared.mask = alibiBias(w, m, sequence);
    else if (m.window > 0)
      shared.mask = windowMask(w, m.window, sequence);
    else if (m.position == PositionKind::RelativeBias)
      shared.bias = relativeBias(w, m, n.relativeBias, sequence, VisibleKeys::All);
    if (m.denseLayers > 0) {
      TransformerModel dense = m;
      dense.experts = 0;
      x = layers(x, shared, dense, n, {0, m.denseLayers}, "dense_layer");
    }
    if (m.denseLayers < m.layers)
      x = layers(x, shared, m, n, {m.denseLayers, m.layers}, m.decoderLayers ? "encoder_layer" : "layer");
    if (m.decoderLayers)
      x = decoder(x, shared.mask, labels);
    KERF_TRY(loss, lossOf(head(x), labels));
    w.finish(loss);
    describeArguments();
    main.setResultAttr(0, ir::KerfDialect::kNameAttr, w.opBuilder().getStringAttr("loss"));
    return std::move(module);
  }

private:
  Value embedding(const std::string &name, int64_t rows, Value indices) {
    w.at(name, "embedding");
    if (name == n.tokens && !table)
      table = w.parameter(name + ".weight", {rows, m.hidden});
    Value from = name == n.tokens ? table : w.parameter(name + ".weight", {rows, m.hidden});
    return ir::EmbeddingOp::create(w.opBuilder(), w.location(), w.type({batch, sequence, m.hidden}), from, indices,
                                   Value(), w.opBuilder().getI64IntegerAttr(rows));
  }

  Value tokenEmbedding(Value ids, Value types) {
    Value x = embedding(n.tokens, m.vocabulary, ids);
    if (m.scaledEmbedding)
      x = emit.multiply(x, emit.splat(std::sqrt(double(m.hidden)), x));
    if (types)
      x = emit.add(x, embedding(n.tokenTypes, m.tokenTypes, types));
    if (m.position == PositionKind::Learned) {
      w.at(n.positions, "embedding");
      Value all = w.parameter(n.positions + ".weight", {m.maxPositions + m.positionOffset, m.hidden});
      Value rows = w.slice(all, 0, m.positionOffset, m.positionOffset + sequence);
      x = w.markDropout(emit.add(x, emit.broadcast(rows, ir::shapeOf(x), {1, 2})), m.dropsEmbedding);
    }
    return m.embeddingNorm ? w.norm(x, m.norm, m.epsilon, n.embeddingNorm) : x;
  }

  /// Embeds the patches of an image. As patches do not overlap, the convolution is a matrix product over the channels
  /// and pixels of each patch.
  Value pictureEmbedding(Value pixels) {
    int64_t side = m.imageSize / m.patchSize;
    w.at(n.patches, "linear");
    Value parts = emit.reshape(pixels, {batch, m.channels, side, m.patchSize, side, m.patchSize});
    Value weight = w.parameter(n.patches + ".weight", {m.hidden, m.channels, m.patchSize, m.patchSize});
    Value patches = emit.reshape(emit.dot(parts, weight, {}, {}, {1, 3, 5}, {1, 2, 3}), {batch, side * side, m.hidden});
    patches = w.bias(patches, {m.hidden}, n.patches + ".bias");
    w.at(n.classToken, "concatenate");
    Value token = w.parameter(n.classToken, {1, 1, m.hidden}, {m.hidden});
    Value x = w.concatenate({emit.broadcast(token, {batch, 1, m.hidden}, {2}), patches}, 1);
    w.at(n.positions, "embedding");
    Value positions = w.parameter(n.positions, {1, sequence, m.hidden}, {sequence, m.hidden});
    return emit.add(x, emit.broadcast(positions, ir::shapeOf(x), {1, 2}));
  }

  struct Layers {
    int64_t begin, end;
  };

  /// Writes one call for each layer. The first layer defines the function.
  Value layers(Value x, const SharedValues &shared, const TransformerModel &kind, const ModuleNames &names,
               Layers range, const char *name) {
    auto scopeOf = [&](int64_t k) { return w.opBuilder().getStringAttr(fmt::format("{}.{}", names.layers, k)); };
    mlir::func::FuncOp layer = emptyFunction(*module, name, mlir::NameLoc::get(scopeOf(range.begin)));
    layer->moveBefore(main);
    layer.setPrivate();
    FunctionWriter body(layer, element, scopeOf(range.begin).str() + ".");
    body.dropoutMarksEnabled = structureOnly;
    writeLayer(body, kind, names, x, shared);
    llvm::SmallVector<Value> common = presentValues(shared);
    llvm::ArrayRef<TransformerArgument> parameters = llvm::ArrayRef(body.arguments()).drop_front(1 + common.size());
    auto types = layer.getArgumentTypes().drop_front(1 + common.size());
    for (int64_t k = range.begin; k < (structureOnly ? range.begin + 1 : range.end); ++k) {
      llvm::SmallVector<Value> operands = {x};
      operands.append(common);
      for (auto [parameter, type] : llvm::zip(parameters, types))
        operands.push_back(w.parameter(parameter, scopeOf(k).str() + "." + parameter.name, ir::shapeOf(type)));
      auto call = ir::CallOp::create(w.opBuilder(), mlir::NameLoc::get(scopeOf(k)), layer.getResultTypes(),
                                     layer.getSymName(), operands);
      if (structureOnly)
        call->setAttr(ir::KerfDialect::kRepeatAttr, w.opBuilder().getI64IntegerAttr(range.end - range.begin));
      x = call.getResult(0);
    }
    return x;
  }

  /// Returns the input of the decoder: the labels shifted by one token, with padding in place of ignored labels.
  Value lateLabels(Value labels) {
    w.at(m.decoder.layers, "shift");
    Value start = emit.splat(m.startToken, w.slice(labels, 1, 0, 1));
    Value late = w.concatenate({start, w.slice(labels, 1, 0, sequence - 1)}, 1);
    Value ignored = emit.compare(late, emit.splat(kIgnoredLabel, late), ir::Comparison::EQ);
    return emit.select(ignored, emit.splat(m.paddingToken, late), late);
  }

  /// Applies the decoder to the result of the encoder.
  Value decoder(Value encoded, Value mask, Value labels) {
    SharedValues shared;
    shared.memory = w.norm(encoded, m.norm, m.epsilon, n.finalNorm);
    shared.memoryMask = mask;
    Value x = embedding(n.tokens, m.vocabulary, lateLabels(labels));
    shared.bias = relativeBias(w, m, m.decoder.relativeBias, sequence, VisibleKeys::UpToQuery);
    return layers(x, shared, m, m.decoder, {0, m.decoderLayers}, "decoder_layer");
  }

  Value head(Value x) {
    if (m.finalNorm)
      x = w.norm(x, m.norm, m.epsilon, m.decoderLayers ? m.decoder.finalNorm : n.finalNorm);
    if (m.scaledHead)
      x = emit.multiply(x, emit.splat(1 / std::sqrt(double(m.hidden)), x));
    if (m.objective == TrainingObjective::ImageClassification) {
      w.at(n.head, "class_token");
      x = emit.reshape(w.slice(x, 1, 0, 1), {batch, m.hidden});
      return w.linear(x, 1, {m.classes}, n.head, m.layout, m.headBias);
    }
    if (!n.headTransform.empty()) {
      x = w.linear(x, 1, {m.hidden}, n.headTransform, WeightLayout::OutIn, /*hasBias=*/true);
      w.at(n.headTransform, "activation");
      x = w.norm(w.activation(x, m.activation), m.norm, m.epsilon, n.headNorm);
    }
    w.at(n.head, "linear");
    Value weight = m.tiedHead ? table : w.parameter(n.head + ".weight", {m.vocabulary, m.hidden});
    Value logits = emit.dot(x, weight, {}, {}, {2}, {1});
    return m.headBias ? w.bias(logits, {m.vocabulary}, n.headBias) : logits;
  }

  Result<Value> lossOf(Value logits, Value labels) {
    w.at("loss", "cross_entropy");
    if (m.objective ==
        TrainingObjective::CausalLm) { // the label of each token is the next token; the last token has none
      Value none = emit.splat(kIgnoredLabel, w.slice(labels, 1, 0, 1));
      labels = w.concatenate({w.slice(labels, 1, 1, sequence), none}, 1);
    }
    TermBuilder terms(&w.block(), floatType);
    terms.setLocation(w.location());
    KERF_TRY(loss, crossEntropy(terms, terms.fromValue(logits), terms.fromValue(labels), kIgnoredLabel, "mean"));
    return terms.emit(loss);
  }

  void describeArguments() {
    mlir::OpBuilder &b = w.opBuilder();
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    for (auto [argument, value] : llvm::zip(w.arguments(), w.block().getArguments())) {
      llvm::SmallVector<mlir::NamedAttribute> named{
          b.getNamedAttr(ir::KerfDialect::kKindAttr, b.getStringAttr(argument.kind)),
          b.getNamedAttr(ir::KerfDialect::kNameAttr, b.getStringAttr(argument.name))};
      if (argument.kind == "parameter" && argument.trained)
        named.push_back(b.getNamedAttr(ir::KerfDialect::kTrainableAttr, b.getUnitAttr()));
      if (argument.exported != ir::shapeOf(value))
        named.push_back(b.getNamedAttr(ir::KerfDialect::kExportedShapeAttr, b.getDenseI64ArrayAttr(argument.exported)));
      attributes.push_back(b.getDictionaryAttr(named));
    }
    main.setAllArgAttrs(attributes);
  }

  const TransformerModel &m;
  const ModuleNames &n;
  bool structureOnly;
  int64_t batch, sequence;
  DType floatType;
  mlir::Type element;
  mlir::Location unknown;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp main;
  FunctionWriter w;
  ir::Emitter &emit;
  Value table; // of the tokens
};

/// Joins the tensors of one name in the modules of all experts to [E, n, ...]. Returns nothing if the first expert has
/// no such tensor.
Result<std::optional<Tensor>> stacked(const TensorMap &given, const std::string &prefix,
                                      const std::vector<std::string> &modules, int64_t experts,
                                      std::set<std::string> &known) {
  auto nameOf = [&](int64_t expert, size_t part) {
    return fmt::format("{}.{}.{}.weight", prefix, expert, modules[part]);
  };
  auto first = given.find(nameOf(0, 0));
  if (first == given.end())
    return std::optional<Tensor>();
  const Tensor &like = first->second;
  Shape shape = like.shape;
  if (shape.size() != 2)
    return Error{fmt::format("'{}' has the shape {}, but two dimensions are needed; give the weights of this "
                             "configuration's model",
                             first->first, shapeText(shape))};
  auto [all, bytes] = allocateTensor(like.dtype, {experts, int64_t(modules.size()) * shape[0], shape[1]});
  for (int64_t expert = 0; expert < experts; ++expert)
    for (size_t part = 0; part < modules.size(); ++part) {
      std::string name = nameOf(expert, part);
      auto it = given.find(name);
      if (it == given.end())
        return Error{fmt::format("the weights have '{}' but not '{}'; the weights of all {} experts are needed",
                                 first->first, name, experts)};
      if (it->second.shape != shape || it->second.dtype != like.dtype)
        return Error{fmt::format(
            "'{}' is {}{}, but '{}' is {}{}; the weights of all experts must have one type and shape", first->first,
            toString(like.dtype), shapeText(shape), name, toString(it->second.dtype), shapeText(it->second.shape))};
      bytes = std::copy_n(it->second.data, it->second.bytes(), bytes);
      known.insert(name);
    }
  return std::optional<Tensor>(std::move(all));
}

/// Builds the parameter of all experts from one tensor for each expert, as published checkpoints have them.
Result<std::optional<Tensor>> expertWeights(const TensorMap &given, const std::string &name, const TransformerModel &m,
                                            std::set<std::string> &known) {
  const ModuleNames &n = m.names;
  const std::pair<const char *, std::vector<std::string>> parts[] = {{".gate_up_proj", {n.expertGate, n.expertUp}},
                                                                     {".down_proj", {n.expertDown}}};
  for (const auto &[suffix, modules] : parts) {
    std::string ending = n.experts + suffix;
    if (m.experts && llvm::StringRef(name).ends_with(ending))
      return stacked(given, name.substr(0, name.size() - std::string(suffix).size()), modules, m.experts, known);
  }
  return std::optional<Tensor>();
}

/// Returns the tensors of the model's parameters by name. Adds a warning on other tensors of the file, except the
/// head's copy of a tied table.
Status takeWeights(ImportedModel &model, mlir::func::FuncOp main, const TransformerModel &m, const TensorMap &given,
                   const std::string &from) {
  std::set<std::string> known;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto name = main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kNameAttr).str();
    if (main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kKindAttr) != "parameter")
      continue;
    std::string found =
        given.count(name) || name.rfind(m.optionalPrefix, 0) != 0 ? name : name.substr(m.optionalPrefix.size());
    auto it = given.find(found);
    Tensor tensor;
    if (it != given.end()) {
      tensor = it->second;
      known.insert(found);
    } else {
      std::optional<Tensor> ofExperts;
      for (const std::string &each : {name, found}) {
        KERF_TRY(made, expertWeights(given, each, m, known));
        ofExperts = ofExperts ? ofExperts : made;
      }
      if (!ofExperts)
        continue;
      tensor = *ofExperts;
    }
    Shape wanted = ir::shapeOf(main.getArgumentTypes()[i]);
    if (auto exported = main.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, ir::KerfDialect::kExportedShapeAttr))
      wanted.assign(exported.asArrayRef().begin(), exported.asArrayRef().end());
    if (tensor.shape != wanted)
      return Error{fmt::format("'{}' in '{}' has the shape {}, but the configuration's model has {}; give the "
                               "config.json that belongs to the weights",
                               found, from, shapeText(tensor.shape), shapeText(wanted))};
    model.weights[name] = tensor;
  }
  std::vector<std::string> others;
  for (const auto &[name, tensor] : given)
    if (!known.count(name) && !(m.tiedHead && name == m.names.head + ".weight"))
      others.push_back(name);
  if (known.empty())
    return Error{
        fmt::format("'{}' has none of the model's tensors; its tensors are: {}", from, fmt::join(others, ", "))};
  if (!others.empty())
    model.warnings.push_back(fmt::format("'{}': {} of its {} tensors are not in the model: {}; they are ignored, so "
                                         "check that the file has this model's weights",
                                         from, others.size(), given.size(), fmt::join(others, ", ")));
  return ok();
}

} // namespace

Result<std::optional<TensorMap>> weightsBesideConfig(const std::string &path) {
  return readHuggingFaceWeights(std::filesystem::path(path).parent_path().string());
}

namespace {

StepSize stepSizeOf(const ImportOptions &options) {
  StepSize step{options.globalBatch, options.sequence};
  step.expertCapacity = options.expertCapacity.value_or(options.structureOnly ? 1 : kExactExperts);
  return step;
}

/// Writes the model as IR into `model`.
Status writeModule(mlir::MLIRContext &context, const std::string &path, const TransformerModel &transformer,
                   const StepSize &step, const ImportOptions &options, ImportedModel &model) {
  Result<mlir::OwningOpRef<mlir::ModuleOp>> module =
      TransformerImport(context, transformer, step, options.floatType, options.structureOnly).run();
  if (!module)
    return Error{fmt::format("'{}': {}", path, module.error().message), module.error().status};
  model.module = std::move(*module);
  if (Status status = verifyModule(*model.module); !status)
    return Error{fmt::format("'{}': the imported program is not valid: {}; report this model, it is a bug of Kerf",
                             path, status.error().message),
                 ExitStatus::InternalCheck};
  return applyGlobs(model.module->lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName), options);
}

} // namespace

Result<ImportedModel> importConfig(mlir::MLIRContext &context, const ModelSource &source,
                                   const ImportOptions &options) {
  const std::string &path = source.name;
  if (!options.loss.empty() && options.loss != "loss")
    return Error{fmt::format(
        "'{}' is a configuration, whose loss is fixed; leave <loss> '{}' out, which applies to exports only", path,
        options.loss)};
  ImportedModel model;
  StepSize step = stepSizeOf(options);
  KERF_TRY(transformer, modelFromConfig(source, step, model.warnings));
  KERF_CHECK(writeModule(context, path, transformer, step, options, model));
  if (options.structureOnly)
    return model;
  auto main = model.module->lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  if (options.weights) {
    KERF_TRY(given, readWeights(*options.weights));
    KERF_CHECK(takeWeights(model, main, transformer, given, *options.weights));
    return model;
  }
  if (source.bytes) {
    model.missingFiles.push_back(kWeightsFile);
    return model;
  }
  KERF_TRY(beside, weightsBesideConfig(path));
  const std::string file = source.beside(kWeightsFile);
  if (!beside) {
    model.missingFiles.push_back(file);
    return model;
  }
  KERF_CHECK(takeWeights(model, main, transformer, *beside, file));
  return model;
}

} // namespace kerf::frontend

namespace kerf {

Result<SmallModel> importSmallModel(mlir::MLIRContext &context, const ModelSource &config, const ImportOptions &options,
                                    const SmallSizes &sizes) {
  using namespace frontend;
  SmallModel small;
  StepSize step = stepSizeOf(options);
  KERF_TRY(transformer, modelFromConfig(config, step, small.model.warnings));
  small.notes = reduceSizes(transformer, step, sizes);
  small.sequence = step.sequence;
  KERF_CHECK(writeModule(context, config.name, transformer, step, options, small.model));
  return small;
}

} // namespace kerf
