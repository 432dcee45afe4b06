// SPDX-License-Identifier: Apache-2.0
// Determines the roles of the arguments and results of a StableHLO program, and reads the weights. A program that
// returns new values of some arguments (donated in JAX) is a train step, and these arguments are parameters and states.
// Any other program is a loss function.
#include "StableHlo/HloImport.h"
#include "Common/KerfFile.h"
#include "Common/LossRequest.h"
#include "Common/Metrics.h"
#include "Common/WayOut.h"
#include "Onnx/OnnxNode.h"
#include "StableHlo/HloEvaluate.h"
#include "StableHlo/HloSignature.h"
#include "kerf/Support/Glob.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::frontend {

using namespace hlo;

namespace {

constexpr int64_t kIgnoredLabel = -100; // the ignored label of a loss that --loss builds

struct InputOfMain {
  std::string name, kind;
  bool trained = false;
  std::optional<size_t> result; // index of the result that replaces the argument after a step; absent: none
  std::vector<std::string> stackOf;
};

/// Normalizes an argument name of JAX's debug information: "params['blocks'][0].w" -> "params.blocks.0.w".
std::string dotted(const std::string &name) {
  std::string result;
  for (char c : name)
    if (c == '[' || c == '.')
      result += '.';
    else if (c != ']' && c != '\'' && c != '"')
      result += c;
  return result;
}

class HloImport {
public:
  HloImport(mlir::MLIRContext &context, const ModelSource &source, hlo::Module text, const ImportOptions &options)
      : source(source), text(std::move(text)), options(options), unknown(mlir::UnknownLoc::get(&context)),
        module(mlir::ModuleOp::create(unknown)), function(emptyFunction()), block(&function.getBody().front()),
        b(block, options.floatType) {}

  Result<ImportedModel> run();

private:
  mlir::func::FuncOp emptyFunction() {
    mlir::OpBuilder top = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto made = mlir::func::FuncOp::create(top, unknown, ir::KerfDialect::kEntryName, top.getFunctionType({}, {}));
    made.addEntryBlock();
    return made;
  }
  Status findMain();
  Status nameArguments();
  Status pairResults();
  Status readGivenWeights();
  Status decideKinds();
  Status addArguments();
  Status chooseLoss();
  Status chooseMetrics();
  Result<Term> buildLoss(const Terms &results);
  void hoistSlices();
  Status finish(const Terms &results, const Term &loss, ImportedModel &model);
  Result<std::optional<Tensor>> weightOf(const InputOfMain &input, const Shape &shape);
  std::string resultName(size_t index) const;
  std::string nameList() const;

  const ModelSource &source;
  hlo::Module text;
  const ImportOptions &options;
  mlir::Location unknown;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::Block *block;
  TermBuilder b;

  const hlo::Function *main = nullptr;
  std::optional<Signature> signature;
  std::vector<InputOfMain> inputs; // one for each argument of main; an input that --loss adds comes last
  Terms arguments;
  bool isStep = false;
  LossRequest loss;
  size_t lossResult = 0;
  std::vector<size_t> metricResults;
  TensorMap given;
  std::string weightsFile;
  std::vector<std::string> warnings, missingFiles;
};

Status HloImport::findMain() {
  main = text.find(ir::KerfDialect::kEntryName.str());
  if (!main && text.functions.size() == 1)
    main = &text.functions.front();
  if (main && main->hasBody)
    return ok();
  std::vector<std::string> names;
  for (const hlo::Function &f : text.functions)
    names.push_back("@" + f.name);
  return Error{fmt::format("it has no function @main with a body; its functions are: {}",
                           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))};
}

std::string HloImport::nameList() const {
  std::vector<std::string> names;
  for (const InputOfMain &input : inputs)
    names.push_back(input.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Status HloImport::nameArguments() {
  KERF_TRY(found, readSignature(source));
  signature = found;
  size_t count = main->arguments.size();
  if (signature && signature->arguments.size() != count)
    return Error{
        fmt::format("@main has {} arguments, but signature.json names {}", count, signature->arguments.size())};
  std::set<std::string> taken;
  for (size_t i = 0; i < count; ++i) {
    const hlo::Argument &argument = main->arguments[i];
    InputOfMain input;
    if (signature) {
      const NamedArgument &named = signature->arguments[i];
      input.name = named.name;
      input.stackOf = named.stackOf;
      if (named.shape && *named.shape != argument.type.shape)
        return Error{fmt::format("argument {} of @main has the shape {}, but signature.json has '{}' with {}", i,
                                 shapeText(argument.type.shape), named.name, shapeText(*named.shape))};
    } else if (!argument.location.empty()) {
      input.name = dotted(argument.location);
    } else {
      input.name = fmt::format("arg{}", i);
    }
    if (!taken.insert(input.name).second)
      return Error{fmt::format("two arguments are called '{}'", input.name)};
    inputs.push_back(std::move(input));
  }
  return ok();
}

std::string HloImport::resultName(size_t index) const {
  if (signature && index < signature->results.size() && !signature->results[index].empty())
    return signature->results[index];
  const Attribute *info = main->resultAttributes[index].find("jax.result_info");
  return info && !info->text.empty() ? info->text : fmt::format("result{}", index);
}

/// Finds the result that replaces each argument: by donation in the text, or else in the signature, or else by equal
/// names in the signature.
Status HloImport::pairResults() {
  std::vector<std::optional<size_t>> replaced(main->resultTypes.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Attribute *aliasing = main->arguments[i].attributes.find("tf.aliasing_output");
    std::optional<int64_t> result;
    if (aliasing)
      result = aliasing->integer;
    std::optional<int64_t> said = signature ? signature->arguments[i].aliasesResult : std::nullopt;
    if (result && said && *result != *said)
      return Error{fmt::format("argument '{}' is replaced by result {} in the text, but by result {} in signature.json",
                               inputs[i].name, *result, *said)};
    if (!result)
      result = said;
    for (size_t r = 0; !result && signature && r < signature->results.size(); ++r)
      if (signature->results[r] == inputs[i].name)
        result = int64_t(r);
    if (!result)
      continue;
    if (*result < 0 || *result >= int64_t(main->resultTypes.size()))
      return Error{fmt::format("argument '{}' is replaced by result {}, but there are {} results", inputs[i].name,
                               *result, main->resultTypes.size())};
    size_t r = size_t(*result);
    if (replaced[r])
      return Error{fmt::format("arguments '{}' and '{}' are both replaced by result {}", inputs[*replaced[r]].name,
                               inputs[i].name, r)};
    const hlo::Type &before = main->arguments[i].type, &after = main->resultTypes[r];
    if (before.element != after.element || before.shape != after.shape)
      return Error{fmt::format("argument '{}' is {}, but result {}, which replaces the argument, is {}", inputs[i].name,
                               before.text, r, after.text)};
    replaced[r] = i;
    inputs[i].result = r;
    isStep = true;
  }
  return ok();
}

Status HloImport::readGivenWeights() {
  constexpr const char *kBeside = "weights.npz";
  weightsFile = options.weights.value_or(source.beside(kBeside));
  std::error_code code;
  if (!options.weights && !std::filesystem::exists(weightsFile, code)) {
    missingFiles.push_back(weightsFile.empty() ? kBeside : weightsFile);
    return ok();
  }
  KERF_TRY(tensors, readWeights(weightsFile));
  given = std::move(tensors);
  return ok();
}

Status HloImport::decideKinds() {
  auto isParameter = [&](const std::string &name) { return name == "params" || name.rfind("params.", 0) == 0; };
  std::vector<bool> used(options.trainable.size(), false);
  bool anyTrained = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputOfMain &input = inputs[i];
    bool floating =
        storedType(main->arguments[i].type.element) && isFloat(*storedType(main->arguments[i].type.element));
    bool parameter = isParameter(input.name) && floating;
    bool asked = false;
    for (size_t k = 0; k < options.trainable.size(); ++k)
      if (floating && globMatch(options.trainable[k], input.name)) {
        used[k] = true;
        asked = true;
      }
    if (isStep) {
      input.kind = parameter ? "parameter" : input.result ? "state" : given.count(input.name) ? "buffer" : "input";
      input.trained = parameter && input.result;
    } else {
      input.kind = parameter || asked ? "parameter" : given.count(input.name) ? "buffer" : "input";
      input.trained = input.kind == "parameter";
    }
    anyTrained |= input.trained;
  }
  if (isStep && !(options.trainable.empty() && options.frozen.empty()))
    return Error{
        "<trainable> and <frozen> do not apply to a whole train step, which defines what it trains; leave them out"};
  for (size_t k = 0; k < used.size(); ++k)
    if (!used[k])
      return Error{fmt::format("<trainable> '{}' matches none of the floating arguments; they are: {}",
                               options.trainable[k], nameList())};
  if (!isStep && !anyTrained)
    return Error{fmt::format("none of the arguments is a parameter: {} Name arguments 'params.*' in signature.json, or "
                             "give <trainable> GLOB; the arguments are: {}",
                             signature ? "" : "there is no signature.json beside the text.", nameList())};
  return ok();
}

Status HloImport::addArguments() {
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto type = hlo::tensorType(main->arguments[i].type, options.floatType);
    if (!type)
      return withWayOut({fmt::format("argument {} of @main ('{}'): {}", i, inputs[i].name, type.error().message)},
                        "give the argument another type (docs/stablehlo.md)");
    if (type->narrow)
      return Error{
          fmt::format("argument {} of @main ('{}') has the type {}; pass it as f32 and convert it in the function", i,
                      inputs[i].name, main->arguments[i].type.text)};
    mlir::Location at = mlir::NameLoc::get(b.builder.getStringAttr(inputs[i].name));
    arguments.push_back(b.fromValue(block->addArgument(b.type(type->dtype, type->shape), at)));
  }
  return ok();
}

Status HloImport::chooseLoss() {
  size_t count = main->resultTypes.size();
  std::vector<std::string> names;
  for (size_t r = 0; r < count; ++r)
    names.push_back(resultName(r));
  auto replaces = [&](size_t r) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const InputOfMain &input) { return input.result == r; });
  };
  if (!options.loss.empty()) {
    KERF_TRY(request, parseLoss(options.loss));
    loss = request;
    for (size_t r = 0; r < count; ++r)
      if (names[r] == loss.value || fmt::format("result{}", r) == loss.value) {
        lossResult = r;
        if (isStep && !loss.labels.empty())
          return Error{fmt::format(
              "the loss '{}' does not apply to a whole train step, whose loss is one of its results; leave <loss> out",
              options.loss)};
        return ok();
      }
    return Error{fmt::format("the loss '{}' names '{}', which is not a result; the results are: {}", options.loss,
                             loss.value, fmt::join(names, ", "))};
  }
  auto isScalar = [&](size_t r) {
    const hlo::Type &type = main->resultTypes[r];
    auto stored = storedType(type.element);
    return stored && isFloat(*stored) && type.shape.empty() && !replaces(r);
  };
  for (bool byName : {true, false})
    for (size_t r = 0; r < count; ++r)
      if (isScalar(r) && (!byName || names[r] == "loss")) {
        lossResult = r;
        return ok();
      }
  return Error{fmt::format("none of the results ({}) is a floating scalar{}; return the loss{}", fmt::join(names, ", "),
                           isStep ? " beside the new parameters and states" : "",
                           isStep ? ""
                                  : ", name it with <loss> NAME, or build one with <loss> \"cross_entropy(LOGITS, "
                                    "LABELS)\"")};
}

Status HloImport::chooseMetrics() {
  for (const std::string &metric : options.metrics) {
    std::vector<std::string> names;
    for (size_t r = 0; r < main->resultTypes.size(); ++r)
      names.push_back(resultName(r));
    size_t found = std::find(names.begin(), names.end(), metric) - names.begin();
    for (size_t r = 0; r < names.size() && found == names.size(); ++r)
      if (fmt::format("result{}", r) == metric)
        found = r;
    if (found == names.size())
      return Error{fmt::format("the metric '{}' is not a result; the results are: {}", metric, fmt::join(names, ", "))};
    if (std::any_of(inputs.begin(), inputs.end(),
                    [&](const InputOfMain &input) { return input.result == found || input.name == metric; }))
      return Error{
          fmt::format("the metric '{}' has the name of an argument, or replaces one; name another result", metric)};
    metricResults.push_back(found);
  }
  return ok();
}

Result<Term> HloImport::buildLoss(const Terms &results) {
  const Term &value = results[lossResult];
  b.setLocation(mlir::NameLoc::get(b.builder.getStringAttr("loss")));
  if (loss.labels.empty()) {
    if (elementsOf(value.shape) != 1 || !isFloat(value.dtype))
      return Error{fmt::format("the loss '{}' has the type {} and the shape {}, but a floating-point scalar is needed; "
                               "return a scalar, or name another result with <loss>",
                               resultName(lossResult), toString(value.dtype), shapeText(value.shape))};
    return b.reshape(value, {});
  }
  if (!isFloat(value.dtype) || value.rank() < 1)
    return Error{fmt::format("the logits '{}' have the type {} and the shape {}, but a floating-point tensor with a "
                             "class dimension is needed; name other logits in <loss>",
                             loss.value, toString(value.dtype), shapeText(value.shape))};
  Term labels;
  for (size_t i = 0; i < main->arguments.size(); ++i)
    if (inputs[i].name == loss.labels)
      labels = arguments[i];
  if (!labels.value) {
    Shape shape(value.shape.begin(), value.shape.end() - 1);
    // The input is inserted before the constants that became arguments in the meantime.
    inputs.push_back({loss.labels, "input", false, {}, {}});
    labels = b.fromValue(block->insertArgument(unsigned(inputs.size() - 1), b.type(DType::I64, shape), unknown));
    arguments.push_back(labels);
  }
  auto result = crossEntropy(b, value, labels, kIgnoredLabel, "mean");
  if (!result)
    return withWayOut({fmt::format("the loss '{}': {}", options.loss, result.error().message)},
                      "name other logits or labels in <loss>");
  return result;
}

/// Moves slices of stacked parameters to the beginning of the function, because slices at different offsets would make
/// repeated layers differ.
void HloImport::hoistSlices() {
  mlir::Operation *front = &block->front();
  llvm::DenseSet<mlir::Operation *> hoisted;
  for (mlir::Operation &op : llvm::make_early_inc_range(*block)) {
    if (op.getNumOperands() != 1)
      continue;
    mlir::Value operand = op.getOperand(0);
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(operand);
    bool ofParameter =
        argument && argument.getArgNumber() < inputs.size() && inputs[argument.getArgNumber()].kind == "parameter";
    bool slice = mlir::isa<ir::SliceOp>(op) && ofParameter;
    bool view = mlir::isa<ir::ReshapeOp, ir::TransposeOp>(op) && hoisted.contains(operand.getDefiningOp());
    if (!slice && !view)
      continue;
    hoisted.insert(&op);
    if (&op == front)
      front = op.getNextNode();
    else
      op.moveBefore(front);
  }
}

/// Returns the tensor of that name, or its stacked parts joined; nothing if the file has none.
Result<std::optional<Tensor>> HloImport::weightOf(const InputOfMain &input, const Shape &shape) {
  auto whole = given.find(input.name);
  if (whole != given.end()) {
    if (whole->second.shape != shape)
      return Error{fmt::format(
          "'{}' in '{}' has the shape {}, but the program's tensor has {}; give the weights of this program",
          input.name, weightsFile, shapeText(whole->second.shape), shapeText(shape))};
    return std::optional<Tensor>(whole->second);
  }
  std::vector<const Tensor *> parts;
  for (const std::string &name : input.stackOf)
    if (auto part = given.find(name); part != given.end())
      parts.push_back(&part->second);
  if (parts.empty())
    return std::optional<Tensor>();
  Shape each(shape.empty() ? shape.begin() : shape.begin() + 1, shape.end());
  if (parts.size() != input.stackOf.size() || shape.empty() || int64_t(parts.size()) != shape[0])
    return Error{fmt::format(
        "'{}' is a stack of {} tensors with the shape {}, but '{}' has {} of them; give a file with all of them",
        input.name, input.stackOf.size(), shapeText(shape), weightsFile, parts.size())};
  auto [tensor, bytes] = allocateTensor(parts.front()->dtype, shape);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i]->shape != each || parts[i]->dtype != parts.front()->dtype)
      return Error{
          fmt::format("'{}' in '{}' is {} {}, but the stack '{}' needs {} {}; give the weights of this program",
                      input.stackOf[i], weightsFile, toString(parts[i]->dtype), shapeText(parts[i]->shape), input.name,
                      toString(parts.front()->dtype), shapeText(each))};
    if (parts[i]->bytes() > 0)
      std::memcpy(bytes + int64_t(i) * parts[i]->bytes(), parts[i]->data, size_t(parts[i]->bytes()));
  }
  return std::optional<Tensor>(std::move(tensor));
}

Status HloImport::finish(const Terms &results, const Term &lossTerm, ImportedModel &model) {
  mlir::Builder &builder = b.builder;
  llvm::SmallVector<mlir::Value> returned{b.emit(lossTerm)};
  std::vector<std::string> names{"loss"};
  std::vector<llvm::SmallVector<mlir::NamedAttribute>> attributes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputOfMain &input = inputs[i];
    auto &named = attributes.emplace_back();
    named.push_back(builder.getNamedAttr(ir::KerfDialect::kKindAttr, builder.getStringAttr(input.kind)));
    named.push_back(builder.getNamedAttr(ir::KerfDialect::kNameAttr, builder.getStringAttr(input.name)));
    mlir::Value next = input.result ? b.emit(results[*input.result]) : mlir::Value();
    if (next && next != arguments[i].value) {
      named.push_back(
          builder.getNamedAttr(ir::KerfDialect::kUpdatedByAttr, builder.getI64IntegerAttr(int64_t(returned.size()))));
      returned.push_back(next);
      names.push_back(input.name);
    }
    if (input.trained)
      named.push_back(builder.getNamedAttr(ir::KerfDialect::kTrainableAttr, builder.getUnitAttr()));
  }
  for (size_t m = 0; m < metricResults.size(); ++m) {
    KERF_TRY(metric, metricOf(b, options.metrics[m], results[metricResults[m]], options.floatType));
    returned.push_back(metric);
    names.push_back(options.metrics[m]);
  }
  mlir::func::ReturnOp::create(b.builder, unknown, returned);
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (!op.hasTrait<mlir::OpTrait::IsTerminator>() && op.use_empty())
      op.erase();
  hoistSlices();

  llvm::BitVector dead(block->getNumArguments());
  for (const ConstantArgument &constant : b.constantArguments()) {
    if (constant.argument.use_empty()) {
      dead.set(constant.argument.getArgNumber());
      continue;
    }
    attributes.push_back({builder.getNamedAttr(ir::KerfDialect::kKindAttr, builder.getStringAttr(constant.kind)),
                          builder.getNamedAttr(ir::KerfDialect::kNameAttr, builder.getStringAttr(constant.name))});
    model.weights[constant.name] = constant.literal.stored;
  }
  block->eraseArguments(dead);
  llvm::SmallVector<mlir::DictionaryAttr> ofArguments, ofResults;
  for (const auto &named : attributes)
    ofArguments.push_back(builder.getDictionaryAttr(named));
  for (const std::string &name : names)
    ofResults.push_back(
        builder.getDictionaryAttr(builder.getNamedAttr(ir::KerfDialect::kNameAttr, builder.getStringAttr(name))));
  function.setFunctionType(builder.getFunctionType(block->getArgumentTypes(), mlir::ValueRange(returned).getTypes()));
  function.setAllArgAttrs(ofArguments);
  function.setAllResultAttrs(ofResults);

  std::set<std::string> used;
  std::vector<std::string> absent;
  for (size_t i = 0; i < main->arguments.size(); ++i) {
    if (inputs[i].kind == "input")
      continue;
    KERF_TRY(tensor, weightOf(inputs[i], main->arguments[i].type.shape));
    if (!tensor) {
      if (inputs[i].kind == "parameter")
        absent.push_back(inputs[i].name);
      continue;
    }
    used.insert(inputs[i].name);
    used.insert(inputs[i].stackOf.begin(), inputs[i].stackOf.end());
    model.weights[inputs[i].name] = std::move(*tensor);
  }
  std::vector<std::string> unknownNames;
  for (const auto &[name, tensor] : given)
    if (!used.count(name))
      unknownNames.push_back(name);
  if (!given.empty() && used.empty())
    return Error{fmt::format("'{}' has none of the program's tensors; its tensors are: {}; the program's are: {}",
                             weightsFile, fmt::join(unknownNames, ", "), nameList())};
  if (!unknownNames.empty())
    warnings.push_back(fmt::format("'{}': {} of its {} tensors are not in the program: {}; they are ignored, so check "
                                   "that the file has this program's weights",
                                   weightsFile, unknownNames.size(), given.size(), fmt::join(unknownNames, ", ")));
  return ok();
}

Result<ImportedModel> HloImport::run() {
  KERF_CHECK(findMain());
  if (Status status = nameArguments(); !status)
    return withWayOut(status.error(), kWriteSignatureAgain);
  if (Status status = pairResults(); !status)
    return withWayOut(status.error(), kWriteSignatureAgain);
  KERF_CHECK(readGivenWeights());
  KERF_CHECK(decideKinds());
  KERF_CHECK(chooseLoss());
  KERF_CHECK(chooseMetrics());
  std::vector<bool> wanted(main->resultTypes.size(), false);
  wanted[lossResult] = true;
  for (size_t metric : metricResults)
    wanted[metric] = true;
  for (const InputOfMain &input : inputs)
    if (input.result)
      wanted[*input.result] = true;
  Evaluator evaluator(text, b);
  KERF_CHECK(evaluator.checkOperations(*main, wanted));
  KERF_CHECK(addArguments());
  auto evaluated = evaluator.run(*main, arguments, wanted);
  if (!evaluated)
    return withWayOut(evaluated.error(), kLowerAgain);
  const Terms &results = *evaluated;
  if (results.size() != main->resultTypes.size())
    return Error{fmt::format("@main returns {} values, but its type has {}; {}", results.size(),
                             main->resultTypes.size(), kLowerAgain)};
  for (size_t r = 0; r < results.size(); ++r) {
    if (!wanted[r])
      continue;
    auto said = hlo::tensorType(main->resultTypes[r], options.floatType);
    if (!said)
      return withWayOut({fmt::format("result {} of @main: {}", r, said.error().message)},
                        "return another type (docs/stablehlo.md)");
    if (said->narrow)
      return Error{fmt::format("result {} of @main has the type {}; return it as f32", r, main->resultTypes[r].text)};
    if (results[r].shape != said->shape || results[r].dtype != said->dtype)
      return Error{fmt::format("result {} of @main is {} {}, but its type is {}; {}", r, toString(results[r].dtype),
                               shapeText(results[r].shape), main->resultTypes[r].text, kLowerAgain)};
  }
  KERF_TRY(lossTerm, buildLoss(results));
  ImportedModel model;
  KERF_CHECK(finish(results, lossTerm, model));
  model.module = std::move(module);
  model.warnings = std::move(warnings);
  model.missingFiles = std::move(missingFiles);
  if (!isStep)
    if (Status status = applyGlobs(function, options); !status)
      return status.error();
  return model;
}

} // namespace

Result<ImportedModel> importStableHlo(mlir::MLIRContext &context, const ModelSource &source, std::string_view text,
                                      const ImportOptions &options) {
  const std::string &path = source.name;
  auto parsed = hlo::parse(text);
  if (!parsed)
    return withWayOut({fmt::format("'{}': {}", path, parsed.error().message), parsed.error().status}, kLowerAgain);
  auto model = HloImport(context, source, std::move(*parsed), options).run();
  if (!model)
    return Error{fmt::format("'{}': {}", path, model.error().message), model.error().status};
  if (Status status = verifyModule(*model->module); !status)
    return Error{fmt::format("'{}': the imported program is not valid: {}; report this model, it is a bug of Kerf",
                             path, status.error().message),
                 ExitStatus::InternalCheck};
  return model;
}

} // namespace kerf::frontend
