// SPDX-License-Identifier: Apache-2.0
// Ops that slide a window over a tensor: verifiers, sharding rules, work and gradients. The three convolution ops
// compute one sum of products for its three tensors in turn, so that each is a gradient of the others.
#include "CompositeRules.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

static double windowElements(ArrayRef<int64_t> window) {
  double count = 1;
  for (int64_t size : window)
    count *= static_cast<double>(size);
  return count;
}

namespace {

/// The movement of a window, with an entry for each dimension that it slides along.
struct Steps {
  ArrayRef<int64_t> strides, dilations, low, high;
};

template <typename Op> Steps stepsOf(Op op) { return {op.getStrides(), op.getDilations(), op.getLow(), op.getHigh()}; }

/// Checks that window and steps have an entry for each dimension, and that no entry is too small.
LogicalResult checkSteps(Operation *op, ArrayRef<int64_t> window, const Steps &steps) {
  const std::tuple<StringRef, ArrayRef<int64_t>, int64_t> lists[] = {{"window", window, 1},
                                                                     {"strides", steps.strides, 1},
                                                                     {"dilations", steps.dilations, 1},
                                                                     {"low", steps.low, 0},
                                                                     {"high", steps.high, 0}};
  for (const auto &[name, entries, least] : lists) {
    if (entries.size() != window.size())
      return op->emitOpError() << name << " has " << entries.size() << " entries for " << window.size()
                               << " dimensions that the window slides along; it needs one for each";
    for (auto [dim, entry] : llvm::enumerate(entries))
      if (entry < least)
        return op->emitOpError() << name << " has entry " << entry << " for dimension " << dim << "; it is at least "
                                 << least;
  }
  return success();
}

/// Returns the number of positions of the window along a dimension, or nothing where the padded operand is smaller than
/// the window.
std::optional<int64_t> placesOf(int64_t size, int64_t window, const Steps &steps, size_t dim) {
  int64_t room = steps.low[dim] + size + steps.high[dim] - (window - 1) * steps.dilations[dim] - 1;
  if (room < 0)
    return std::nullopt;
  return room / steps.strides[dim] + 1;
}

/// Checks that the dimensions of the shape `to`, from `first` on, count the positions of the window over those of
/// `from`. Messages call the first of these dimensions `number`.
LogicalResult checkPlaces(Operation *op, StringRef operandName, ArrayRef<int64_t> from, StringRef movedName,
                          ArrayRef<int64_t> to, ArrayRef<int64_t> window, const Steps &steps, size_t first,
                          size_t number) {
  for (size_t dim = 0; dim < window.size(); ++dim) {
    std::optional<int64_t> places = placesOf(from[first + dim], window[dim], steps, dim);
    if (!places)
      return op->emitOpError() << "dimension " << number + dim << " of the " << operandName << " has size "
                               << from[first + dim] << ", with its padding "
                               << from[first + dim] + steps.low[dim] + steps.high[dim]
                               << "; with padding it must be at least " << (window[dim] - 1) * steps.dilations[dim] + 1
                               << ", the span of the window";
    if (to[first + dim] != *places)
      return op->emitOpError() << "dimension " << number + dim << " of the " << movedName << " has size "
                               << to[first + dim] << ", but should be " << *places
                               << ", the number of positions of the window";
  }
  return success();
}

LogicalResult checkSameElements(Operation *op) {
  Type first = tensorType(op->getResult(0)).getElementType();
  for (Value operand : op->getOperands())
    if (Type element = tensorType(operand).getElementType(); element != first)
      return op->emitOpError() << "has elements of " << element << " in an operand and of " << first
                               << " in the result; they must agree";
  return success();
}

//===-- convolution -----------------------------------------------------------------------------------------------===//

/// Returns the shape of one of a convolution's tensors with its channels as second dimension.
Shape channelsSecond(Shape shape, bool channelsLast) {
  if (channelsLast && shape.size() > 2)
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// The three tensors of a convolution, whichever of them is the result, and their shapes in the order [n, gc, s..],
/// [go, c, w..], [n, go, t..].
struct Convolution {
  Value operand, kernel, result;
  StringRef operandName, kernelName, resultName;
  bool channelsLast;
  Shape x = channelsSecond(shapeOf(operand), channelsLast), k = channelsSecond(shapeOf(kernel), channelsLast),
        y = channelsSecond(shapeOf(result), channelsLast);

  int64_t groups() const { return x[1] / k[1]; }
  ArrayRef<int64_t> window() const { return ArrayRef<int64_t>(k).drop_front(2); }
  /// Returns the FLOP: a multiplication and an addition for each weight and each element of the result.
  double flops() const { return 2 * elements(result) * static_cast<double>(k[1]) * windowElements(window()); }
};

Convolution convolutionOf(ConvolutionOp op) {
  return {op.getOperand(), op.getKernel(), op.getResult(), "operand", "kernel", "result", op.getChannelsLast()};
}
Convolution convolutionOf(ConvolutionTransposeOp op) {
  return {op.getResult(), op.getKernel(), op.getOperand(), "result", "kernel", "operand", op.getChannelsLast()};
}
Convolution convolutionOf(ConvolutionKernelOp op) {
  return {op.getOperand(), op.getResult(), op.getGradient(), "operand", "result", "gradient", op.getChannelsLast()};
}

LogicalResult check(Operation *op, const Convolution &c, const Steps &steps) {
  const Shape &x = c.x, &k = c.k, &y = c.y;
  if (x.size() < 3 || k.size() != x.size() || y.size() != x.size())
    return op->emitOpError() << "has ranks " << x.size() << ", " << k.size() << " and " << y.size() << " of "
                             << c.operandName << ", " << c.kernelName << " and " << c.resultName
                             << "; they must be equal, and at least 3";
  if (failed(checkSameElements(op)) || failed(checkSteps(op, c.window(), steps)))
    return failure();
  if (k[1] < 1 || x[1] % k[1] != 0)
    return op->emitOpError() << "the " << c.kernelName << " has " << k[1] << " channels and the " << c.operandName
                             << " " << x[1] << "; the second must be a multiple of the first";
  if (c.groups() < 1 || y[1] % c.groups() != 0)
    return op->emitOpError() << "the " << c.resultName << " has " << y[1] << " channels in " << c.groups()
                             << " groups; the channels must be a multiple of the groups";
  if (k[0] != y[1])
    return op->emitOpError() << "the " << c.kernelName << " produces " << k[0] << " channels, the " << c.resultName
                             << " has " << y[1] << "; they must be equal";
  if (x[0] != y[0])
    return op->emitOpError() << "the " << c.operandName << " has " << x[0] << " samples, the " << c.resultName
                             << " has " << y[0] << "; they must be equal";
  return checkPlaces(op, c.operandName, x, c.resultName, y, c.window(), steps, 2, c.channelsLast ? 1 : 2);
}

/// A writer of the sharding rules of convolutions. The channels of operand and result are the groups and the channels
/// of a group.
struct ConvolutionRule : RuleWriter {
  FactorMap operand, kernel, result;

  explicit ConvolutionRule(const Convolution &c) {
    ArrayRef<int64_t> x = c.x, k = c.k, y = c.y;
    int n = factor("n", x[0]);
    std::vector<int> groups;
    if (c.groups() > 1)
      groups = {factor("g", c.groups())};
    auto channels = [&](const char *name, int64_t size) {
      std::vector<int> all = groups;
      all.push_back(factor(name, size));
      return all;
    };
    std::vector<int> out = channels("o", y[1] / c.groups()), in = channels("c", k[1]);
    operand = FactorMap{{n}, in} + dims("s", x.drop_front(2), FactorKind::Replicated);
    kernel = FactorMap{out, {in.back()}} + dims("w", k.drop_front(2), FactorKind::Replicated);
    result = FactorMap{{n}, out} + dims("t", y.drop_front(2), FactorKind::Replicated);
    if (c.channelsLast)
      for (FactorMap *map : {&operand, &kernel, &result})
        std::rotate(map->begin() + 1, map->begin() + 2, map->end());
  }

  Rule of(const FactorMap &left, const FactorMap &right, const FactorMap &made) {
    rule.operands = {left, right};
    rule.results = {made};
    linear({0}, {0});
    linear({1}, {0});
    return rule;
  }
};

} // namespace

LogicalResult ConvolutionOp::verify() { return check(*this, convolutionOf(*this), stepsOf(*this)); }
LogicalResult ConvolutionTransposeOp::verify() { return check(*this, convolutionOf(*this), stepsOf(*this)); }
LogicalResult ConvolutionKernelOp::verify() { return check(*this, convolutionOf(*this), stepsOf(*this)); }

// ([n, gc, s], [go, c, w]) -> ([n, go, t])  c: reduction(sum)      s, w and t may not be sharded
Rule ConvolutionOp::getShardingRule() {
  ConvolutionRule writer(convolutionOf(*this));
  return writer.of(writer.operand, writer.kernel, writer.result);
}
// ([n, go, t], [go, c, w]) -> ([n, gc, s])  o: reduction(sum)
Rule ConvolutionTransposeOp::getShardingRule() {
  ConvolutionRule writer(convolutionOf(*this));
  return writer.of(writer.result, writer.kernel, writer.operand);
}
// ([n, gc, s], [n, go, t]) -> ([go, c, w])  n: reduction(sum)
Rule ConvolutionKernelOp::getShardingRule() {
  ConvolutionRule writer(convolutionOf(*this));
  return writer.of(writer.operand, writer.result, writer.kernel);
}

double ConvolutionOp::getFlops() { return convolutionOf(*this).flops(); }
double ConvolutionTransposeOp::getFlops() { return convolutionOf(*this).flops(); }
double ConvolutionKernelOp::getFlops() { return convolutionOf(*this).flops(); }
KernelClass ConvolutionOp::getKernelClass() { return KernelClass::Product; }
KernelClass ConvolutionTransposeOp::getKernelClass() { return KernelClass::Product; }
KernelClass ConvolutionKernelOp::getKernelClass() { return KernelClass::Product; }

/// A convolution is one product for each group of channels: of a matrix of weights and a matrix with the window's
/// elements at each position.
static double weightsOf(const Shape &kernel) { return elementsIn(kernel) / static_cast<double>(kernel[0]); }
template <typename Op> static double channelsIn(Op op, const Shape &shape) {
  return static_cast<double>(op.getChannelsLast() ? shape.back() : shape[1]);
}
template <typename Op> static double placesOf(Op op, const Shape &result) {
  return elementsIn(result) / channelsIn(op, result);
}

void ConvolutionOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  work.batch = channelsIn(*this, operands[0]) / channelsIn(*this, operands[1]);
  work.m = channelsIn(*this, results[0]) / work.batch;
  work.n = placesOf(*this, results[0]);
  work.k = weightsOf(operands[1]);
}
void ConvolutionTransposeOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  work.batch = channelsIn(*this, results[0]) / channelsIn(*this, operands[1]);
  work.m = weightsOf(operands[1]);
  work.n = placesOf(*this, operands[0]);
  work.k = channelsIn(*this, operands[0]) / work.batch;
}
void ConvolutionKernelOp::describe(ArrayRef<Shape> operands, ArrayRef<Shape> results, Work &work) {
  work.batch = channelsIn(*this, operands[0]) / channelsIn(*this, results[0]);
  work.m = channelsIn(*this, operands[1]) / work.batch;
  work.n = weightsOf(results[0]);
  work.k = placesOf(*this, operands[1]);
}

LogicalResult ConvolutionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                           SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (wanted[0])
    operandGradients[0] =
        ConvolutionTransposeOp::create(builder, getLoc(), getOperand().getType(), resultGradients[0], getKernel(),
                                       getStrides(), getDilations(), getLow(), getHigh(), getChannelsLast());
  if (wanted[1])
    operandGradients[1] =
        ConvolutionKernelOp::create(builder, getLoc(), getKernel().getType(), getOperand(), resultGradients[0],
                                    getStrides(), getDilations(), getLow(), getHigh(), getChannelsLast());
  return success();
}

LogicalResult ConvolutionTransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients,
                                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  if (wanted[0])
    operandGradients[0] =
        ConvolutionOp::create(builder, getLoc(), getOperand().getType(), resultGradients[0], getKernel(), getStrides(),
                              getDilations(), getLow(), getHigh(), getChannelsLast());
  if (wanted[1])
    operandGradients[1] =
        ConvolutionKernelOp::create(builder, getLoc(), getKernel().getType(), resultGradients[0], getOperand(),
                                    getStrides(), getDilations(), getLow(), getHigh(), getChannelsLast());
  return success();
}

//===-- reduce_window and select_and_scatter ----------------------------------------------------------------------===//

/// Returns a rule in which a dimension with a window of one element, stride 1 and no padding may be sharded, and no
/// other one. Also gives the factors of the dimensions that the window slides along and of its positions.
template <typename Op>
static std::pair<FactorMap, FactorMap> windowMaps(Op op, RuleWriter &writer, Value operand, Value moved) {
  FactorMap from, to;
  for (int64_t dim = 0, rank = tensorType(operand).getRank(); dim < rank; ++dim) {
    int64_t size = tensorType(operand).getDimSize(dim), places = tensorType(moved).getDimSize(dim);
    bool passes =
        op.getWindow()[dim] == 1 && op.getStrides()[dim] == 1 && op.getLow()[dim] == 0 && op.getHigh()[dim] == 0;
    auto name = [&](const char *prefix) { return std::string(prefix).append(std::to_string(dim)); };
    if (passes) {
      int factor = writer.factor(name("i"), size);
      from.push_back({factor});
      to.push_back({factor});
      continue;
    }
    from.push_back({writer.factor(name("s"), size, FactorKind::Replicated)});
    to.push_back({writer.factor(name("t"), places, FactorKind::Replicated)});
  }
  return {from, to};
}

template <typename Op> static LogicalResult checkWindow(Op op, Value operand, StringRef movedName, Value moved) {
  int64_t rank = tensorType(operand).getRank();
  if (tensorType(moved).getRank() != rank)
    return op.emitOpError() << "the operand has rank " << rank << ", the " << movedName << " rank "
                            << tensorType(moved).getRank() << "; they must be equal";
  if (static_cast<int64_t>(op.getWindow().size()) != rank)
    return op.emitOpError() << "window has " << op.getWindow().size() << " entries for an operand of rank " << rank
                            << "; it needs one for each dimension";
  if (failed(checkSameElements(op)) || failed(checkSteps(op, op.getWindow(), stepsOf(op))))
    return failure();
  return checkPlaces(op, "operand", tensorType(operand).getShape(), movedName, tensorType(moved).getShape(),
                     op.getWindow(), stepsOf(op), 0, 0);
}

LogicalResult ReduceWindowOp::verify() { return checkWindow(*this, getOperand(), "result", getResult()); }

// ([i, s]) -> ([i, t])      s and t, along which the window slides, may not be sharded
Rule ReduceWindowOp::getShardingRule() {
  RuleWriter writer;
  auto [operand, result] = windowMaps(*this, writer, getOperand(), getResult());
  writer.rule.operands = {operand};
  writer.rule.results = {result};
  if (getKind() == ReduceKindIR::sum)
    writer.linear({0}, {0});
  return writer.rule;
}

double ReduceWindowOp::getFlops() { return elements(getResult()) * windowElements(getWindow()); }
KernelClass ReduceWindowOp::getKernelClass() { return KernelClass::Reduction; }

LogicalResult ReduceWindowOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGradients, ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  if (!wanted[0] || !isa<FloatType>(getType().getElementType()))
    return success();
  if (getKind() != ReduceKindIR::sum) {
    operandGradients[0] =
        SelectAndScatterOp::create(builder, getLoc(), getOperand().getType(), getOperand(), resultGradients[0],
                                   getKind(), getWindow(), getStrides(), getDilations(), getLow(), getHigh());
    return success();
  }
  // Element s gets the gradients of the positions t with t * stride + w * dilation - low = s. This is the sum over a
  // window of the same dilation and stride 1 that slides over the gradients, which are `stride` apart with zeros
  // between and around them.
  Shape from = shapeOf(getOperand()), places = shapeOf(getResult());
  SmallVector<int64_t> low, high, interior, start, limit, spread, ones(from.size(), 1), none(from.size(), 0);
  for (size_t dim = 0; dim < from.size(); ++dim) {
    int64_t reach = (getWindow()[dim] - 1) * getDilations()[dim];
    int64_t width = places[dim] ? (places[dim] - 1) * getStrides()[dim] + 1 : 0;
    int64_t before = reach - getLow()[dim], behind = from[dim] + getLow()[dim] - width;
    low.push_back(std::max<int64_t>(before, 0));
    high.push_back(std::max<int64_t>(behind, 0));
    interior.push_back(getStrides()[dim] - 1);
    spread.push_back(low.back() + width + high.back());
    start.push_back(std::max<int64_t>(-before, 0)); // positions at which the window covers only padding
    limit.push_back(spread.back() - std::max<int64_t>(-behind, 0));
  }
  Type element = getType().getElementType();
  Value gradient = resultGradients[0];
  if (llvm::ArrayRef<int64_t>(places) != llvm::ArrayRef<int64_t>(spread)) {
    auto scalar = RankedTensorType::get({}, element);
    Value zero = ConstantOp::create(builder, getLoc(), scalar, cast<ElementsAttr>(builder.getZeroAttr(scalar)));
    gradient =
        PadOp::create(builder, getLoc(), RankedTensorType::get(spread, element), gradient, zero, low, high, interior);
  }
  SmallVector<int64_t> kept;
  for (size_t dim = 0; dim < from.size(); ++dim)
    kept.push_back(limit[dim] - start[dim]);
  if (kept != spread)
    gradient = SliceOp::create(builder, getLoc(), RankedTensorType::get(kept, element), gradient, start, limit, ones);
  operandGradients[0] = ReduceWindowOp::create(builder, getLoc(), getOperand().getType(), gradient, ReduceKindIR::sum,
                                               getWindow(), ones, getDilations(), none, none);
  return success();
}

LogicalResult SelectAndScatterOp::verify() {
  if (getKind() == ReduceKindIR::sum)
    return emitOpError() << "kind is sum, but should be max or min";
  if (failed(checkWindow(*this, getOperand(), "gradient", getGradient())))
    return failure();
  return checkShape(*this, "result", getResult(), tensorType(getOperand()).getShape());
}

// ([i, s], [i, t]) -> ([i, s])      s and t, along which the window slides, may not be sharded
Rule SelectAndScatterOp::getShardingRule() {
  RuleWriter writer;
  auto [operand, gradient] = windowMaps(*this, writer, getOperand(), getGradient());
  writer.rule.operands = {operand, gradient};
  writer.rule.results = {operand};
  writer.linear({1}, {0});
  return writer.rule;
}

double SelectAndScatterOp::getFlops() { return elements(getGradient()) * windowElements(getWindow()); }
KernelClass SelectAndScatterOp::getKernelClass() { return KernelClass::Reduction; }
