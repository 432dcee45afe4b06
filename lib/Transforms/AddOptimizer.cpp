// SPDX-License-Identifier: Apache-2.0
// kerf-add-optimizer: turns @main, which returns gradients, into one training step, which returns new
// parameters and states.
#include "kerf/Transforms/AddOptimizer.h"
#include "Calls.h"
#include "ChooseCompression.h"
#include "EmitUpdate.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Support/Glob.h"
#include "kerf/Transforms/Passes.h"

#include "llvm/ADT/StringMap.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace kerf {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf

namespace {
/// The constant that torch.nn.utils.clip_grad_norm_ adds to the norm before it divides by the norm.
constexpr double kClipEpsilon = 1e-6;
/// The growth and backoff factors of torch.amp.GradScaler.
constexpr double kScaleGrowth = 2.0, kScaleBackoff = 0.5;
/// The name of the argument with the learning rate.
constexpr const char *kRateName = "learning_rate";
/// The largest power of two in f32; the loss scale must not grow to infinity.
constexpr double kLargestScale = 0x1p127;

struct Trained {
  unsigned argument;
  std::string name;
  Value parameter, gradient;
  SmallVector<unsigned> states;                       // argument numbers, in the record's order
  SmallVector<Value> updated;                         // the new parameter, then the new states
  std::optional<unsigned> accumulator = std::nullopt; // the argument in which gradients are accumulated over batches
  const OptimizerGroup *group = nullptr;              // the parameter's group; null: it has the step's settings
  ParameterOptimizer optimizer = {};
  Shape shape = {};                // the parameter's shape as the optimizer's rule sees it
  DictionaryAttr compression = {}; // how the gradient is compressed; null: it is not
  bool isLocal = false;            // whether ranks take steps of their own between two sums of the gradient
};

class StepBuilder {
public:
  StepBuilder(func::FuncOp main, const OptimizerOptions &options)
      : main(main), options(options), builder(main.getBody().front().getTerminator()) {}

  LogicalResult run();

private:
  LogicalResult findGradients();
  Shape exportedShapeOf(const Trained &one);
  void chooseOptimizer(Trained &one);
  LogicalResult chooseCompressions();
  unsigned rateOf(const Trained &one) const {
    return one.group && one.group->learningRate ? *rateFactor : learningRate;
  }
  void addArguments();
  unsigned addArgument(Type type, StringRef kind, StringRef name, DictionaryAttr more);
  void sync(Trained &trained);
  Value scaled(Location loc, const Trained &one, Value scalar);
  void accumulate();
  Value updateNumber();
  void unscale();
  void adaptScale();
  void countUpdate();
  void sumRates();
  void replaceScalar(unsigned argument, Value value) { scalars.push_back({argument, value}); }
  void sumSquares();
  void clip();
  void update(Trained &trained);
  void setResults();

  Location location(const Trained &trained) {
    return NameLoc::get(StringAttr::get(main.getContext(), "optimizer/" + trained.name));
  }
  Location scaleLocation() { return NameLoc::get(StringAttr::get(main.getContext(), "optimizer/loss_scale")); }
  Location rateLocation() { return NameLoc::get(StringAttr::get(main.getContext(), "optimizer/rates")); }
  Location clipLocation() { return NameLoc::get(StringAttr::get(main.getContext(), "optimizer/clip")); }
  Value scalar(Location loc, Type type, double number) {
    auto value = DenseElementsAttr::get(cast<RankedTensorType>(type),
                                        builder.getFloatAttr(cast<RankedTensorType>(type).getElementType(), number));
    return ConstantOp::create(builder, loc, cast<RankedTensorType>(type), value);
  }
  Value convert(Location loc, Value value, Type elementType) {
    auto type = RankedTensorType::get(tensorType(value).getShape(), elementType);
    return type == value.getType() ? value : ConvertOp::create(builder, loc, type, value).getResult();
  }

  func::FuncOp main;
  const OptimizerOptions &options;
  OpBuilder builder;
  std::vector<Trained> trained;
  SmallVector<std::pair<unsigned, Value>> buffers; // arguments that the model itself updates, with the new values
  /// The attributes of all arguments of the step. They are set once, at the end, because each change would copy
  /// all of them.
  SmallVector<DictionaryAttr> argumentAttributes;
  unsigned learningRate = 0, step = 0;
  std::optional<unsigned> rateFactor; // the schedule's factor, for groups with a learning rate of their own
  /// Present with local steps only: the batches that sum, and for each argument with a learning rate the state that has
  /// its sum since ranks summed last.
  BatchSet sums;
  std::map<unsigned, unsigned> rateSums;
  Value isSumming; // i1: true where ranks sum in this step
  /// Present with a loss scale only: the scale, the number of steps in a row without overflow, and the
  /// number of updates.
  std::optional<unsigned> lossScale, goodSteps, updates;
  Value number; // the number of the update, from 0
  Value skip;   // i1: true where this step is skipped
  /// Arguments that belong to no parameter, with their new values.
  SmallVector<std::pair<unsigned, Value>> scalars;
  SmallVector<Value> squaredNorms;
};

/// Finds the results named gradient/NAME and the trainable arguments named NAME, which
/// kerf-differentiate makes correspond.
LogicalResult StepBuilder::findGradients() {
  llvm::StringMap<Value> gradients;
  Operation *terminator = main.getBody().front().getTerminator();
  for (unsigned i = 1; i < main.getNumResults(); ++i)
    if (auto name = main.getResultAttrOfType<StringAttr>(i, KerfDialect::kNameAttr))
      gradients[name.getValue()] = terminator->getOperand(i);
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (auto name = main.getArgAttrOfType<StringAttr>(index, KerfDialect::kNameAttr);
        name && name.getValue() == KerfDialect::kLossScaleName)
      lossScale = index;
    auto kind = main.getArgAttrOfType<StringAttr>(index, KerfDialect::kKindAttr);
    if (auto by = main.getArgAttrOfType<IntegerAttr>(index, KerfDialect::kUpdatedByAttr)) {
      if (!kind || kind.getValue() != "buffer")
        return main.emitOpError()
               << "argument " << index
               << " is updated already, because an optimizer was added before; run kerf-add-optimizer only once";
      buffers.push_back({index, terminator->getOperand(static_cast<unsigned>(by.getInt()))});
    }
    if (!main.getArgAttr(index, KerfDialect::kTrainableAttr))
      continue;
    auto name = main.getArgAttrOfType<StringAttr>(index, KerfDialect::kNameAttr);
    Value gradient = name ? gradients.lookup(("gradient/" + name.getValue()).str()) : Value();
    if (!gradient)
      return main.emitOpError() << "trainable parameter '" << (name ? name.getValue() : "") << "' (argument " << index
                                << ") has no result 'gradient/" << (name ? name.getValue() : "")
                                << "'; run kerf-differentiate first";
    if (gradient.getType() != argument.getType())
      return main.emitOpError() << "trainable parameter '" << name.getValue() << "' has type " << argument.getType()
                                << ", its gradient " << gradient.getType() << "; they must be equal";
    trained.push_back({index, name.str(), argument, gradient, {}, {}});
    auto group =
        llvm::find_if(options.groups, [&](const OptimizerGroup &each) { return globMatch(each.glob, name.str()); });
    if (group != options.groups.end())
      trained.back().group = &*group;
    chooseOptimizer(trained.back());
  }
  if (trained.empty())
    return main.emitError()
           << "there is no trainable parameter; run kerf-differentiate first, or choose some with <trainable>";
  for (const OptimizerGroup &group : options.groups)
    if (llvm::none_of(trained, [&](const Trained &one) { return globMatch(group.glob, one.name); }))
      return main.emitError() << "parameter group '" << group.glob << "' matches none of the " << trained.size()
                              << " trained parameters, the first of which is '" << trained.front().name
                              << "'; correct the pattern";
  for (const OptimizerGroup &group : options.groups)
    if (llvm::none_of(trained, [&](const Trained &one) { return one.group == &group; }))
      return main.emitError() << "parameter group '" << group.glob
                              << "' applies to no parameter, because earlier groups match every parameter "
                              << "that it matches; put it before them";
  for (const std::string &glob : options.noDecayGlobs)
    if (llvm::none_of(trained, [&](const Trained &one) { return globMatch(glob, one.name); }))
      return main.emitError() << "the pattern '" << glob << "' of parameters without weight decay matches none of the "
                              << trained.size() << " trained parameters, the first of which is '"
                              << trained.front().name << "'; correct the pattern";
  return success();
}

/// Chooses the optimizer that updates the parameter, and the shape that its rule sees.
Shape StepBuilder::exportedShapeOf(const Trained &one) {
  if (auto attribute = main.getArgAttrOfType<DenseI64ArrayAttr>(one.argument, KerfDialect::kExportedShapeAttr))
    return Shape(attribute.asArrayRef());
  return shapeOf(one.parameter);
}

void StepBuilder::chooseOptimizer(Trained &one) {
  Shape exported = exportedShapeOf(one);
  one.optimizer = parameterOptimizer(options, one.name, exported);
  one.shape = one.optimizer.record->readsParameterShape ? exported : shapeOf(one.parameter);
}

/// Chooses the codecs of gradients, which may change where momentum is added.
LogicalResult StepBuilder::chooseCompressions() {
  auto module = main->getParentOfType<ModuleOp>();
  const CompressionOptions &compression = options.compression;
  SmallVector<NamedAttribute> texts;
  for (const auto &[name, text] : compression.texts)
    texts.push_back(builder.getNamedAttr(name, builder.getStringAttr(text)));
  if (!texts.empty())
    module->setAttr(kCodecTextsAttr, builder.getDictionaryAttr(texts));
  if (failed(chooseGatherCodec(module, compression)))
    return failure();
  bool any = false;
  for (Trained &one : trained) {
    auto how = chooseCompression(
        module, options, {one.name, one.gradient, exportedShapeOf(one).size(), &one.optimizer, lossScale.has_value()});
    if (failed(how))
      return failure();
    if (!*how)
      continue;
    any = true;
    if (SumBatches batches = sumBatches(**how); batches.hasLocalSteps()) {
      one.isLocal = true;
      sums = batches.sums;
      const bool ofGroup = one.group && one.group->learningRate;
      (*how)->rate = ofGroup ? package::kRateFactorName : kRateName;
      (*how)->rateFactor = ofGroup ? *one.group->learningRate : 1;
    }
    one.compression = (*how)->toAttr(main.getContext());
  }
  if (!any && llvm::any_of(compression.rules, [](const CompressionRule &rule) { return rule.codec != "none"; }))
    module.emitWarning() << "<compress> compresses no gradient: none of the " << trained.size()
                         << " parameters is a matrix, no table of embeddings, and of " << kLeastBytesCoded
                         << " bytes or more; name parameters to compress others, as in <compress=w*=int8>";
  return success();
}

unsigned StepBuilder::addArgument(Type type, StringRef kind, StringRef name, DictionaryAttr more) {
  NamedAttrList attributes(more);
  attributes.set(KerfDialect::kKindAttr, builder.getStringAttr(kind));
  attributes.set(KerfDialect::kNameAttr, builder.getStringAttr(name));
  argumentAttributes.push_back(attributes.getDictionary(main.getContext()));
  return main.getBody().front().addArgument(type, NameLoc::get(builder.getStringAttr(name))).getArgNumber();
}

void StepBuilder::addArguments() {
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    argumentAttributes.push_back(main.getArgAttrDict(i));
  bool isDouble = false;
  for (Trained &one : trained) {
    isDouble |= tensorType(one.parameter).getElementType().isF64();
    NamedAttrList shape;
    if (Attribute exported = main.getArgAttr(one.argument, KerfDialect::kExportedShapeAttr))
      shape.set(KerfDialect::kExportedShapeAttr, exported);
    for (const OptimizerState &state : one.optimizer.states(one.shape)) {
      bool isLike = state.shape == shapeOf(one.parameter);
      auto type = RankedTensorType::get(state.shape, tensorType(one.parameter).getElementType());
      one.states.push_back(addArgument(type, "state", (state.name + ("/" + one.name)),
                                       isLike ? shape.getDictionary(main.getContext()) : DictionaryAttr()));
    }
    if (options.accumulate > 1)
      one.accumulator = addArgument(one.parameter.getType(), "state", (package::kAccumulatedPrefix.data() + one.name),
                                    shape.getDictionary(main.getContext()));
  }
  auto counter = RankedTensorType::get({}, builder.getI64Type());
  auto scaleKind = lossScale ? main.getArgAttrOfType<StringAttr>(*lossScale, KerfDialect::kKindAttr) : StringAttr();
  if (scaleKind && scaleKind.getValue() == "state")
    goodSteps = addArgument(counter, "state", "grad_scaler/growth_tracker", {});
  if (lossScale && llvm::any_of(trained, [](const Trained &one) { return one.optimizer.record->readsUpdateNumber; }))
    updates = addArgument(counter, "state", "grad_scaler/updates", {});
  Type rate = isDouble ? builder.getF64Type() : Type(builder.getF32Type());
  learningRate = addArgument(RankedTensorType::get({}, rate), "learning_rate", kRateName, {});
  if (llvm::any_of(trained, [](const Trained &one) { return one.group && one.group->learningRate; }))
    rateFactor = addArgument(RankedTensorType::get({}, rate), "learning_rate", package::kRateFactorName, {});
  for (const Trained &one : trained)
    if (unsigned its = rateOf(one); one.isLocal && !rateSums.contains(its))
      rateSums[its] =
          addArgument(RankedTensorType::get({}, rate), "state",
                      (kRatesPrefix + (its == learningRate ? kRateName : package::kRateFactorName)).str(), {});
  for (unsigned i = 0; i < main.getNumArguments(); ++i) // a model with dropout already has a step number
    if (auto kind = main.getArgAttrOfType<StringAttr>(i, KerfDialect::kKindAttr); kind && kind.getValue() == "step") {
      step = i;
      return;
    }
  step = addArgument(counter, "step", "step", {});
}

/// The synchronization comes as soon as the gradient is complete, so that communication overlaps with the rest of the
/// backward pass.
void StepBuilder::sync(Trained &one) {
  builder.setInsertionPointAfterValue(one.gradient);
  while (isa<SyncGradientOp>(*builder.getInsertionPoint()))
    builder.setInsertionPoint(builder.getInsertionBlock(), std::next(builder.getInsertionPoint()));
  Type own = tensorType(one.gradient).getElementType();
  Type reduced = options.reduceType == "bf16"  ? Type(builder.getBF16Type())
                 : options.reduceType == "f16" ? Type(builder.getF16Type())
                                               : own;
  Value gradient = convert(location(one), one.gradient, reduced);
  gradient =
      SyncGradientOp::create(builder, location(one), gradient.getType(), gradient, builder.getStringAttr(one.name));
  if (one.compression)
    gradient.getDefiningOp()->setAttr(kCompressionAttr, one.compression);
  one.gradient = convert(location(one), gradient, own);
}

/// Returns the gradient multiplied by a scalar.
Value StepBuilder::scaled(Location loc, const Trained &one, Value scalar) {
  auto type = tensorType(one.gradient);
  Value factor = convert(loc, scalar, type.getElementType());
  if (type.getRank() > 0)
    factor = BroadcastInDimOp::create(builder, loc, type, factor, builder.getDenseI64ArrayAttr({}));
  return MultiplyOp::create(builder, location(one), type, one.gradient, factor);
}

/// Accumulates the gradients over the batches of a step. The update uses their mean.
void StepBuilder::accumulate() {
  for (Trained &one : trained) {
    Location loc = location(one);
    Value sum = AddOp::create(builder, loc, one.gradient.getType(), main.getArgument(*one.accumulator), one.gradient);
    replaceScalar(*one.accumulator, sum);
    one.gradient = sum;
    Type element = tensorType(sum).getElementType();
    Value share = scalar(loc, RankedTensorType::get({}, element), 1.0 / static_cast<double>(options.accumulate));
    one.gradient = scaled(loc, one, share);
  }
}

/// The argument "step" counts batches, of which an accumulated step has several.
Value StepBuilder::updateNumber() {
  Value batch = main.getArgument(step);
  if (options.accumulate == 1)
    return batch;
  Emitter emit{builder, NameLoc::get(StringAttr::get(main.getContext(), "optimizer/step"))};
  return emit.divide(batch, emit.splat(options.accumulate, batch));
}

/// Divides the gradients by the loss scale, and computes whether all their elements are finite.
void StepBuilder::unscale() {
  Location loc = scaleLocation();
  Emitter emit{builder, loc};
  Value count;
  for (Trained &one : trained) {
    Value ofOne =
        CountNonfiniteOp::create(builder, location(one), RankedTensorType::get({}, builder.getI64Type()), one.gradient);
    count = count ? AddOp::create(builder, loc, count.getType(), count, ofOne).getResult() : ofOne;
  }
  skip = emit.compare(count, emit.splat(int64_t(0), count), Comparison::NE);
  skip.getDefiningOp()->setAttr(kSkipsStepAttr, builder.getUnitAttr());
  Value scale = main.getArgument(*lossScale);
  Value inverse = emit.divide(emit.splat(1.0, scale), scale);
  for (Trained &one : trained)
    one.gradient = scaled(loc, one, inverse);
}

/// Halves the loss scale after an overflow, and doubles it after `lossScaleWindow` steps in a row without one.
void StepBuilder::adaptScale() {
  Emitter emit{builder, scaleLocation()};
  Value scale = main.getArgument(*lossScale), tracker = main.getArgument(*goodSteps);
  Value zero = emit.splat(int64_t(0), tracker), one = emit.splat(int64_t(1), tracker);
  Value good = emit.add(tracker, one);
  Value grows = emit.compare(good, emit.splat(options.lossScaleWindow, tracker), Comparison::GE);
  Value doubled = emit.multiply(scale, emit.splat(kScaleGrowth, scale));
  doubled = MinimumOp::create(builder, scaleLocation(), scale.getType(), doubled, emit.splat(kLargestScale, scale));
  Value halved = emit.multiply(scale, emit.splat(kScaleBackoff, scale));
  replaceScalar(*lossScale, emit.select(skip, halved, emit.select(grows, doubled, scale)));
  replaceScalar(*goodSteps, emit.select(skip, zero, emit.select(grows, zero, good)));
}

void StepBuilder::countUpdate() {
  Emitter emit{builder, scaleLocation()};
  Value before = main.getArgument(*updates);
  replaceScalar(*updates, emit.select(skip, before, emit.add(before, emit.splat(int64_t(1), before))));
}

/// Adds the learning rate to its sum since ranks summed last. A sum sets it to 0.
void StepBuilder::sumRates() {
  Emitter emit{builder, rateLocation()};
  isSumming = isIn(emit, number, sums);
  for (auto [rate, sum] : rateSums) {
    Value all = emit.add(main.getArgument(sum), main.getArgument(rate));
    replaceScalar(sum, emit.select(isSumming, emit.splat(0.0, all), all));
  }
}

void StepBuilder::sumSquares() {
  for (Trained &one : trained) {
    Location loc = location(one);
    auto type = tensorType(one.gradient);
    // The squares of 16-bit numbers would overflow or underflow in 16 bits.
    Type wide = type.getElementTypeBitWidth() < 32 ? Type(builder.getF32Type()) : type.getElementType();
    Value gradient = convert(loc, one.gradient, wide);
    Value square = MultiplyOp::create(builder, loc, gradient.getType(), gradient, gradient);
    auto all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    squaredNorms.push_back(type.getRank() == 0 ? square
                                               : ReduceOp::create(builder, loc, RankedTensorType::get({}, wide), square,
                                                                  ReduceKindIR::sum, builder.getDenseI64ArrayAttr(all))
                                                     .getResult());
  }
}

/// Multiplies all gradients by min(1, clipNorm / (norm + epsilon)).
void StepBuilder::clip() {
  Location loc = clipLocation();
  Type widest = builder.getF32Type();
  for (Value squared : squaredNorms)
    if (tensorType(squared).getElementType().isF64())
      widest = builder.getF64Type();
  Value sum;
  for (Value squared : squaredNorms) {
    Value wide = convert(loc, squared, widest);
    sum = sum ? AddOp::create(builder, loc, wide.getType(), sum, wide).getResult() : wide;
  }
  Type type = sum.getType();
  Value norm = SqrtOp::create(builder, loc, type, sum);
  norm = AddOp::create(builder, loc, type, norm, scalar(loc, type, kClipEpsilon));
  Value ratio = DivideOp::create(builder, loc, type, scalar(loc, type, options.clipNorm), norm);
  ratio = MinimumOp::create(builder, loc, type, ratio, scalar(loc, type, 1.0));
  for (Trained &one : trained)
    one.gradient = scaled(loc, one, ratio);
}

void StepBuilder::update(Trained &one) {
  Emitter emit{builder, location(one)};
  Value rate = main.getArgument(rateOf(one));
  Value isSkipped = skip;
  if (one.isLocal) {
    rate = emit.add(main.getArgument(rateSums[rateOf(one)]), rate);
    isSkipped = NotOp::create(builder, location(one), isSumming.getType(), isSumming);
    for (Value waits : {rate, isSkipped})
      waits.getDefiningOp()->setAttr(kLocalStepsAttr, builder.getStringAttr(one.name));
  }
  if (one.group && one.group->learningRate)
    rate = emit.multiply(rate, scalar(location(one), rate.getType(), *one.group->learningRate));
  UpdateRequest request{location(one), one.name, one.parameter, one.gradient,          {},
                        rate,          {},       isSkipped,     *one.optimizer.record, one.optimizer.settings,
                        one.shape};
  if (one.optimizer.record->readsUpdateNumber)
    request.number = updates ? Value(main.getArgument(*updates)) : number;
  for (unsigned state : one.states)
    request.states.push_back(main.getArgument(state));
  one.updated = emitUpdate(builder, request);
}

/// Sets the results: the loss, new parameters, new states, updated buffers, metrics and squared norms, in this order.
void StepBuilder::setResults() {
  Operation *terminator = main.getBody().front().getTerminator();
  SmallVector<Value> results = {terminator->getOperand(0)};
  SmallVector<DictionaryAttr> attributes = {main.getResultAttrDict(0)};
  auto append = [&](Value value, StringRef name) {
    results.push_back(value);
    NamedAttribute named(builder.getStringAttr(KerfDialect::kNameAttr), builder.getStringAttr(name));
    attributes.push_back(builder.getDictionaryAttr(named));
  };
  auto nameOf = [&](unsigned argument) {
    return cast<StringAttr>(argumentAttributes[argument].get(KerfDialect::kNameAttr)).getValue();
  };
  auto update = [&](unsigned argument, Value value, StringRef name) {
    NamedAttrList described(argumentAttributes[argument]);
    described.set(KerfDialect::kUpdatedByAttr, builder.getI64IntegerAttr(static_cast<int64_t>(results.size())));
    argumentAttributes[argument] = described.getDictionary(main.getContext());
    append(value, name);
  };
  for (Trained &one : trained)
    update(one.argument, one.updated[0], one.name);
  for (Trained &one : trained)
    for (auto [i, state] : llvm::enumerate(one.states))
      update(state, one.updated[i + 1], nameOf(state));
  for (auto [argument, value] : buffers)
    update(argument, value, main.getArgAttrOfType<StringAttr>(argument, KerfDialect::kNameAttr).getValue());
  for (auto [argument, value] : scalars)
    update(argument, value, nameOf(argument));
  for (unsigned metric : metricResults(main))
    append(terminator->getOperand(metric),
           main.getResultAttrOfType<StringAttr>(metric, KerfDialect::kNameAttr).getValue());
  if (options.gradientNorms)
    for (auto [one, squared] : llvm::zip(trained, squaredNorms))
      append(squared, "gradient_norm_squared/" + one.name);
  terminator->setOperands(results);
  main.setFunctionType(
      builder.getFunctionType(main.getBody().front().getArgumentTypes(), ValueRange(results).getTypes()));
  main.setAllArgAttrs(argumentAttributes);
  main.setAllResultAttrs(attributes);
}

LogicalResult StepBuilder::run() {
  if (failed(findGradients()) || failed(chooseCompressions()))
    return failure();
  addArguments();
  for (Trained &one : trained)
    sync(one);
  builder.setInsertionPoint(main.getBody().front().getTerminator());
  number = updateNumber();
  if (options.accumulate > 1)
    accumulate();
  if (lossScale)
    unscale();
  if (goodSteps)
    adaptScale();
  if (updates)
    countUpdate();
  if (!rateSums.empty())
    sumRates();
  if (options.gradientNorms || options.clipNorm > 0)
    sumSquares();
  if (options.clipNorm > 0)
    clip();
  for (Trained &one : trained)
    update(one);
  setResults();
  return success();
}

/// Reports options that are out of range.
LogicalResult checkOptions(ModuleOp module, const OptimizerOptions &options) {
  if (Status status = checkSettings(options); !status)
    return module.emitError() << status.error().message;
  if (!options.reduceType.empty() && options.reduceType != "bf16" && options.reduceType != "f16")
    return module.emitError() << "optimizer option reduce-type is '" << options.reduceType
                              << "'; it must be bf16 or f16";
  if (!(options.clipNorm >= 0 && std::isfinite(options.clipNorm)))
    return module.emitError() << "optimizer option <clip-norm> is " << fmt::format("{}", options.clipNorm)
                              << "; it must be 0 or more and finite";
  if (options.accumulate < 1)
    return module.emitError() << "optimizer option accumulate is " << options.accumulate << "; it must be 1 or more";
  for (const OptimizerGroup &group : options.groups)
    for (std::optional<double> number : {group.learningRate, group.weightDecay})
      if (number && !(*number >= 0 && std::isfinite(*number)))
        return module.emitError() << "parameter group '" << group.glob << "' has the value " << *number
                                  << "; learning rates and decays must be 0 or more and finite";
  if (options.lossScaleWindow < 1)
    return module.emitError() << "optimizer option <loss-scale-window> is " << options.lossScaleWindow
                              << "; it must be 1 or more";
  return success();
}

struct AddOptimizerPass : kerf::impl::AddOptimizerBase<AddOptimizerPass> {
  using AddOptimizerBase::AddOptimizerBase;
  AddOptimizerPass() = default;
  /// Takes all settings, including those for which kerf-opt has no option.
  explicit AddOptimizerPass(const OptimizerOptions &all) : all(all) {
    optimizer = all.optimizer;
    SmallVector<std::string> texts;
    for (const auto &[name, value] : all.settings)
      texts.push_back(fmt::format("{}={}", name, value));
    settings = ArrayRef<std::string>(texts);
    noDecay = ArrayRef<std::string>(all.noDecayGlobs);
    clipNorm = all.clipNorm;
    gradientNorms = all.gradientNorms;
    reduceType = all.reduceType;
    lossScaleWindow = all.lossScaleWindow;
  }
  AddOptimizerPass(const AddOptimizerPass &other) : AddOptimizerBase(other), all(other.all) {}
  void runOnOperation() override {
    std::optional<OptimizerOptions> options = all ? all : fromTextOptions();
    if (!options || failed(addOptimizer(getOperation(), *options)))
      signalPassFailure();
  }

private:
  std::optional<OptimizerOptions> fromTextOptions() {
    OptimizerOptions options;
    options.optimizer = optimizer;
    for (const std::string &text : settings) {
      auto setting = settingFrom(text);
      if (!setting) {
        getOperation().emitError() << setting.error().message;
        return std::nullopt;
      }
      options.settings[setting->first] = setting->second;
    }
    options.noDecayGlobs.assign(noDecay.begin(), noDecay.end());
    options.clipNorm = clipNorm;
    options.gradientNorms = gradientNorms;
    options.reduceType = reduceType;
    options.lossScaleWindow = lossScaleWindow;
    return options;
  }
  std::optional<OptimizerOptions> all;
};
} // namespace

LogicalResult kerf::addOptimizer(ModuleOp module, const OptimizerOptions &options) {
  if (failed(checkOptions(module, options)))
    return failure();
  auto main = module.lookupSymbol<func::FuncOp>(KerfDialect::kEntryName);
  if (!main || !main.getBody().hasOneBlock())
    return module.emitError() << "no function @" << KerfDialect::kEntryName << " with one block; import a model first";
  if (main.getNumResults() == 0)
    return main.emitOpError() << "returns nothing; its first result must be the loss";
  if (failed(StepBuilder(main, options).run()))
    return failure();
  if (options.accumulate > 1)
    module->setAttr(kAccumulateAttr, Builder(module.getContext()).getI64IntegerAttr(options.accumulate));
  return success();
}

std::unique_ptr<Pass> kerf::createAddOptimizer(const OptimizerOptions &options) {
  return std::make_unique<AddOptimizerPass>(options);
}
