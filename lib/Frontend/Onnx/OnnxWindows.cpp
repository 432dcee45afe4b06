// SPDX-License-Identifier: Apache-2.0
// Imports convolutions and pooling.
#include "Common/Formula.h"

#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

namespace {

/// The movement of a window over the dimensions after the second, with one entry for each dimension.
struct Steps {
  Shape size, window, strides, dilations, low, high;

  size_t count() const { return size.size(); }
  int64_t reach(size_t d) const { return (window[d] - 1) * dilations[d] + 1; }
  int64_t places(size_t d) const { return (low[d] + size[d] + high[d] - reach(d)) / strides[d] + 1; }
};

/// Returns the attribute with one entry for each dimension, or `fallback` for each if the attribute is absent.
Result<Shape> entriesOf(OnnxNode &node, const char *name, size_t count, int64_t fallback, int64_t least) {
  if (!node.has(name))
    return Shape(count, fallback);
  Shape entries = node.integers(name);
  if (entries.size() != count)
    return Error{fmt::format("{} has {} entries, but {} are needed", name, entries.size(), count)};
  constexpr int64_t kMost = int64_t(1) << 31; // limit of sizes, so that sums and products of two fit into 64 bits
  for (int64_t entry : entries)
    if (entry < least || entry > kMost)
      return Error{fmt::format("{} has the entry {}, but only {} to {} are allowed", name, entry, least, kMost)};
  return entries;
}

/// Reads strides, dilations and explicit pads.
Result<Steps> stepsOf(OnnxNode &node, const Shape &size, const Shape &window) {
  Steps steps;
  steps.size = size;
  steps.window = window;
  size_t count = size.size();
  if (count == 0 || window.size() != count)
    return Error{fmt::format("a window of shape {} does not fit dimensions {}", shapeText(window), shapeText(size))};
  for (int64_t w : window)
    if (w < 1)
      return Error{fmt::format("the window shape {} is not valid", shapeText(window))};
  KERF_TRY(strides, entriesOf(node, "strides", count, 1, 1));
  KERF_TRY(dilations, entriesOf(node, "dilations", count, 1, 1));
  KERF_TRY(pads, entriesOf(node, "pads", 2 * count, 0, 0));
  steps.strides = strides;
  steps.dilations = dilations;
  steps.low.assign(pads.begin(), pads.begin() + count);
  steps.high.assign(pads.begin() + count, pads.end());
  return steps;
}

/// Computes the pads of auto_pad, and checks that the window fits.
Status padAndCheck(OnnxNode &node, Steps &steps) {
  std::string automatic = node.text("auto_pad", "NOTSET");
  bool upper = automatic == "SAME_UPPER", lower = automatic == "SAME_LOWER";
  if (!upper && !lower && automatic != "NOTSET" && automatic != "VALID")
    return Error{fmt::format("auto_pad '{}'", automatic)};
  for (size_t d = 0; d < steps.count(); ++d) {
    if (automatic == "VALID")
      steps.low[d] = steps.high[d] = 0;
    if (upper || lower) {
      int64_t places = (steps.size[d] + steps.strides[d] - 1) / steps.strides[d];
      int64_t all = std::max<int64_t>((places - 1) * steps.strides[d] + steps.reach(d) - steps.size[d], 0);
      steps.low[d] = upper ? all / 2 : all - all / 2;
      steps.high[d] = all - steps.low[d];
    }
    if (steps.low[d] + steps.size[d] + steps.high[d] < steps.reach(d))
      return Error{
          fmt::format("a window that spans {} elements does not fit dimension {} of {} elements, with its padding {}",
                      steps.reach(d), d + 2, steps.size[d], steps.low[d] + steps.size[d] + steps.high[d])};
  }
  return ok();
}

/// Adds a bias for each channel.
Result<Term> withBias(OnnxNode &node, const Term &y) {
  if (!node.hasInput(2))
    return y;
  const Term &bias = node.input(2);
  if (bias.shape != Shape{y.shape[1]})
    return Error{fmt::format("a bias of shape {} does not fit {} channels", shapeText(bias.shape), y.shape[1])};
  Shape spread(y.rank() - 1, 1);
  spread[0] = y.shape[1];
  KERF_TRY(column, node.b.reshape(bias, spread));
  return node.b.binary(Binary::Add, y, column);
}

Status checkProduct(OnnxNode &node) {
  const Term &x = node.input(0), &w = node.input(1);
  if (x.rank() < 3 || w.rank() != x.rank() || x.dtype != w.dtype || !isFloat(x.dtype))
    return Error{fmt::format("operands of types and shapes {} {} and {} {} are given, but floating-point tensors of "
                             "one rank of 3 or more are needed",
                             toString(x.dtype), shapeText(x.shape), toString(w.dtype), shapeText(w.shape))};
  if (std::vector<int64_t> shape = node.integers("kernel_shape");
      node.has("kernel_shape") && shape != Shape(w.shape.begin() + 2, w.shape.end()))
    return Error{fmt::format("kernel_shape {} does not fit weights of shape {}", shapeText(shape), shapeText(w.shape))};
  return ok();
}

Shape behindChannels(const Term &x) { return Shape(x.shape.begin() + 2, x.shape.end()); }

} // namespace

Status importConv(OnnxNode &node) {
  const Term &x = node.input(0), &w = node.input(1);
  KERF_CHECK(checkProduct(node));
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || w.shape[1] < 1 || x.shape[1] % groups != 0 || w.shape[1] != x.shape[1] / groups ||
      w.shape[0] % groups != 0)
    return Error{fmt::format("{} groups do not fit operands of shapes {} and {}", groups, shapeText(x.shape),
                             shapeText(w.shape))};
  KERF_TRY(steps, stepsOf(node, behindChannels(x), behindChannels(w)));
  KERF_CHECK(padAndCheck(node, steps));
  Shape shape{x.shape[0], w.shape[0]};
  for (size_t d = 0; d < steps.count(); ++d)
    shape.push_back(steps.places(d));
  TermBuilder &b = node.b;
  mlir::Value operand = b.emit(x), kernel = b.emit(w);
  Term y = b.fromValue(ir::ConvolutionOp::create(b.builder, b.loc, b.type(x.dtype, shape), operand, kernel,
                                                 steps.strides, steps.dilations, steps.low, steps.high));
  return node.set(0, withBias(node, y));
}

Status importConvTranspose(OnnxNode &node) {
  const Term &y = node.input(0), &w = node.input(1);
  KERF_CHECK(checkProduct(node));
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || w.shape[1] < 1 || y.shape[1] != w.shape[0] || y.shape[1] % groups != 0)
    return Error{fmt::format("{} groups do not fit operands of shapes {} and {}", groups, shapeText(y.shape),
                             shapeText(w.shape))};
  KERF_TRY(steps, stepsOf(node, behindChannels(y), behindChannels(w)));
  KERF_TRY(more, entriesOf(node, "output_padding", steps.count(), 0, 0));
  KERF_TRY(wanted, entriesOf(node, "output_shape", steps.count(), 0, 1));
  std::string automatic = node.text("auto_pad", "NOTSET");
  Shape shape{y.shape[0], groups * w.shape[1]};
  for (size_t d = 0; d < steps.count(); ++d) {
    if (more[d] >= std::max(steps.strides[d], steps.dilations[d]))
      return Error{fmt::format("output_padding {} does not fit a stride of {}", more[d], steps.strides[d])};
    int64_t whole = (steps.size[d] - 1) * steps.strides[d] + steps.reach(d) + more[d];
    bool isSame = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    if (node.has("output_shape") || isSame) {
      int64_t size = node.has("output_shape") ? wanted[d] : steps.size[d] * steps.strides[d];
      int64_t all = std::max<int64_t>(whole - size, 0);
      steps.low[d] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      steps.high[d] = all - steps.low[d];
      shape.push_back(size);
    } else {
      if (automatic == "VALID")
        steps.low[d] = steps.high[d] = 0;
      shape.push_back(whole - steps.low[d] - steps.high[d]);
    }
    // A convolution of the result must have the size of the operand; elements of the result beyond that are never
    // reached.
    int64_t size = shape.back(), reached = steps.low[d] + size + steps.high[d] - steps.reach(d);
    if (size < 1 || reached < 0 || reached / steps.strides[d] + 1 < steps.size[d])
      return Error{
          fmt::format("pads {} and {} leave {} elements of dimension {}", steps.low[d], steps.high[d], size, d + 2)};
  }
  // Rows that no element of the operand reaches are zero and are appended by padding.
  Shape made = shape, none(shape.size(), 0), behind(shape.size(), 0);
  for (size_t d = 0; d < steps.count(); ++d) {
    int64_t most =
        (steps.size[d] - 1) * steps.strides[d] + steps.reach(d) + steps.strides[d] - 1 - steps.low[d] - steps.high[d];
    made[d + 2] = std::min(shape[d + 2], most);
    behind[d + 2] = shape[d + 2] - made[d + 2];
  }
  TermBuilder &b = node.b;
  mlir::Value operand = b.emit(y), kernel = b.emit(w);
  Term x = b.fromValue(ir::ConvolutionTransposeOp::create(b.builder, b.loc, b.type(y.dtype, made), operand, kernel,
                                                          steps.strides, steps.dilations, steps.low, steps.high));
  KERF_TRY(padded, b.pad(x, b.scalar(x.dtype, 0), none, behind));
  return node.set(0, withBias(node, padded));
}

namespace {

/// The window movement of a pooling operator. With ceil_mode, `extra[d]` elements of padding are added to those of the
/// model.
struct PoolSteps {
  Steps steps;
  Shape extra;
};

Result<PoolSteps> poolSteps(OnnxNode &node) {
  const Term &x = node.input(0);
  if (x.rank() < 3)
    return Error{fmt::format("an operand has the shape {}, but dimensions after samples and channels are needed",
                             shapeText(x.shape))};
  KERF_TRY(steps, stepsOf(node, behindChannels(x), node.integers("kernel_shape")));
  KERF_CHECK(padAndCheck(node, steps));
  PoolSteps result{steps, Shape(steps.count(), 0)};
  if (!node.integer("ceil_mode", 0))
    return result;
  for (size_t d = 0; d < steps.count(); ++d) {
    int64_t room = steps.low[d] + steps.size[d] + steps.high[d] - steps.reach(d), stride = steps.strides[d];
    int64_t places = (room + stride - 1) / stride + 1;
    if ((places - 1) * stride >= steps.low[d] + steps.size[d]) // such a window would start in the padding at the end
      --places;
    result.extra[d] = std::max<int64_t>((places - 1) * stride - room, 0);
    result.steps.high[d] += result.extra[d];
  }
  return result;
}

Term reduceWindow(TermBuilder &b, const Term &x, const Steps &steps, ir::ReduceKindIR kind) {
  auto whole = [](const Shape &entries, int64_t passing) {
    Shape all(2, passing);
    all.insert(all.end(), entries.begin(), entries.end());
    return all;
  };
  Shape shape(x.shape.begin(), x.shape.begin() + 2);
  for (size_t d = 0; d < steps.count(); ++d)
    shape.push_back(steps.places(d));
  mlir::Value operand = b.emit(x);
  return b.fromValue(ir::ReduceWindowOp::create(b.builder, b.loc, b.type(x.dtype, shape), operand, kind,
                                                whole(steps.window, 1), whole(steps.strides, 1),
                                                whole(steps.dilations, 1), whole(steps.low, 0), whole(steps.high, 0)));
}

/// Returns the number of elements that each window averages: one number if it is equal for all windows, or one for each
/// window.
Result<Term> countsOf(OnnxNode &node, const PoolSteps &pool, DType dtype) {
  const Steps &steps = pool.steps;
  bool countsPadding = node.integer("count_include_pad", 0) != 0;
  Formula f(node.b, dtype);
  Term all = f.number(1);
  for (size_t d = 0; d < steps.count(); ++d) {
    int64_t first = countsPadding ? -steps.low[d] : 0;
    int64_t behind = steps.size[d] + (countsPadding ? steps.high[d] - pool.extra[d] : 0);
    std::vector<int64_t> counts;
    for (int64_t t = 0; t < steps.places(d); ++t) {
      int64_t count = 0;
      for (int64_t w = 0; w < steps.window[d]; ++w) {
        int64_t at = t * steps.strides[d] + w * steps.dilations[d] - steps.low[d];
        count += at >= first && at < behind;
      }
      counts.push_back(
          std::max<int64_t>(count, 1)); // avoids a division by 0 for a window over padding only, whose sum is 0
    }
    bool isEqual = std::equal(counts.begin() + 1, counts.end(), counts.begin());
    Shape shape(steps.count(), 1);
    shape[d] = isEqual ? 1 : int64_t(counts.size());
    if (isEqual)
      counts.resize(1);
    all = f.multiply(all, f.reshape(f.convert(node.b.fromLiteral(indexLiteral(counts)), dtype), shape));
  }
  if (f.fault)
    return *f.fault;
  return all;
}

/// The index of each element of each window [places, window], in the padded image and in the original image.
struct WindowPlaces {
  std::vector<int64_t> padded, inside;
};

WindowPlaces windowPlaces(const Steps &steps, bool isColumnMajor) {
  size_t count = steps.count();
  Shape whole, padded, own(count, 1), place(count, 0), at(count, 0);
  for (size_t d = 0; d < count; ++d) {
    whole.push_back(steps.places(d));
    padded.push_back(steps.low[d] + steps.size[d] + steps.high[d]);
  }
  for (size_t d = 1; d < count; ++d) { // strides of the image
    if (isColumnMajor)
      own[d] = own[d - 1] * steps.size[d - 1];
    else
      own[count - 1 - d] = own[count - d] * steps.size[count - d];
  }
  auto next = [count](Shape &index, const Shape &sizes) {
    for (size_t d = count; d-- > 0; index[d] = 0)
      if (++index[d] < sizes[d])
        return;
  };
  WindowPlaces result;
  for (int64_t p = 0, places = elementsOf(whole); p < places; ++p, next(place, whole))
    for (int64_t w = 0, window = elementsOf(steps.window); w < window; ++w, next(at, steps.window)) {
      int64_t outer = 0, inner = 0;
      for (size_t d = 0; d < count; ++d) {
        int64_t from = place[d] * steps.strides[d] + at[d] * steps.dilations[d];
        outer = outer * padded[d] + from;
        inner += (from - steps.low[d]) * own[d];
      }
      result.padded.push_back(outer);
      result.inside.push_back(inner);
    }
  return result;
}

/// Returns the index, in the whole operand, of the largest element of each window; of equal elements the first.
Term placesOfLargest(Formula &f, const Term &x, const Steps &steps, bool isColumnMajor) {
  WindowPlaces at = windowPlaces(steps, isColumnMajor);
  int64_t images = x.shape[0] * x.shape[1], image = elementsOf(steps.size), window = elementsOf(steps.window);
  int64_t places = int64_t(at.padded.size()) / window;
  Shape low{0, 0}, high{0, 0}, shape{x.shape[0], x.shape[1]};
  low.insert(low.end(), steps.low.begin(), steps.low.end());
  high.insert(high.end(), steps.high.begin(), steps.high.end());
  for (size_t d = 0; d < steps.count(); ++d)
    shape.push_back(steps.places(d));
  Term padded = f.pad(x, f.number(-std::numeric_limits<double>::infinity()), low, high);
  Term flat = f.reshape(padded, {images, elementsOf(padded.shape) / std::max<int64_t>(images, 1)});
  Term each = f.unwrap(f.b.gather(flat, f.b.fromLiteral(indexLiteral(at.padded)), 1));
  mlir::Value scores = f.b.emit(f.reshape(each, {images, places, window}));
  Shape single{images, places, 1};
  auto top = ir::TopKOp::create(f.b.builder, f.b.loc, f.b.type(x.dtype, single), f.b.type(DType::I64, single), scores);
  Term isIt = f.compare(Order::Equal, f.b.fromValue(top.getIndices()), f.iota(window, 2, 3));
  Term inside = f.reshape(f.b.fromLiteral(indexLiteral(at.inside)), {1, places, window});
  Term place = f.reduce(Reduction::Sum, f.select(isIt, inside, f.b.integer(DType::I64, 0)), {2});
  Term before = f.multiply(f.iota(images, 0, 2), f.b.integer(DType::I64, image));
  return f.reshape(f.add(place, before), shape);
}

} // namespace

Status importMaxPool(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(pool, poolSteps(node));
  KERF_CHECK(node.set(0, reduceWindow(node.b, x, pool.steps, ir::ReduceKindIR::max)));
  if (!node.isOutputUsed(1))
    return ok();
  KERF_CHECK(checkFloat(x));
  Formula f(node.b, x.dtype);
  return f.set(node, 1, placesOfLargest(f, x, pool.steps, node.integer("storage_order", 0) != 0));
}

Status importAveragePool(OnnxNode &node) {
  const Term &x = node.input(0);
  if (!isFloat(x.dtype))
    return Error{fmt::format("an operand has the type {}, but a floating-point type is needed", toString(x.dtype))};
  KERF_TRY(pool, poolSteps(node));
  KERF_TRY(counts, countsOf(node, pool, x.dtype));
  return node.set(0, node.b.binary(Binary::Divide, reduceWindow(node.b, x, pool.steps, ir::ReduceKindIR::sum), counts));
}

Status importLpPool(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  int64_t p = node.integer("p", 2);
  if (p < 1)
    return Error{fmt::format("p is {}, but at least 1 is needed", p)};
  KERF_TRY(pool, poolSteps(node));
  Formula f(node.b, x.dtype);
  Term size = p == 2 ? f.multiply(x, x) : f.unary(Unary::Abs, x);
  Term sum = reduceWindow(node.b, p > 2 ? f.power(size, f.number(double(p))) : size, pool.steps, ir::ReduceKindIR::sum);
  Term root = p == 1 ? sum : p == 2 ? f.unary(Unary::Sqrt, sum) : f.power(sum, f.number(1 / double(p)));
  return f.set(node, 0, root);
}

Status importGlobalPool(OnnxNode &node) {
  const Term &x = node.input(0);
  if (x.rank() < 3)
    return Error{fmt::format("an operand has the shape {}, but dimensions after samples and channels are needed",
                             shapeText(x.shape))};
  std::vector<int64_t> dims(x.rank() - 2);
  std::iota(dims.begin(), dims.end(), 2);
  Formula f(node.b, x.dtype);
  if (node.opType() == "GlobalAveragePool")
    return f.set(node, 0, f.mean(x, dims));
  Shape kept(x.rank(), 1);
  std::copy(x.shape.begin(), x.shape.begin() + 2, kept.begin());
  return f.set(node, 0, f.reshape(f.reduce(Reduction::Maximum, x, dims), kept));
}

} // namespace kerf::frontend
