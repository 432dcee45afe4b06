// SPDX-License-Identifier: Apache-2.0
// Calls of convolutions and poolings.
#include "Calls.h"
#include "Prices.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
/// A convolution, whose spatial dimensions are the last ones of each view.
struct Convolution {
  View x, kernel, y; // [n, c, s..], [o, c / groups, w..], [n, o, t..]
  std::vector<int64_t> strides, dilations, low, high;
  int64_t groups = 1;
  /// The padding that the operator adds on both sides; `isPadded` where x is a copy with its padding instead.
  std::vector<int64_t> padding;
  bool isPadded = false;
};

View channelsFirst(const View &view, bool isLast) {
  if (!isLast)
    return view;
  std::vector<int64_t> order = {0, int64_t(view.sizes.size()) - 1};
  for (size_t d = 1; d + 1 < view.sizes.size(); ++d)
    order.push_back(int64_t(d));
  return permuted(view, order);
}

View formatted(View view) {
  constexpr int kFormats[] = {kFormatNcl, kFormatNchw, kFormatNcdhw}; // by spatial dimensions, from 1 on
  view.format = kFormats[view.sizes.size() - 3];
  return view;
}

/// Reads a convolution of these tensors, one of which is the result of the instruction.
std::optional<Convolution> convolutionOf(Builder &b, const View &x, const View &kernel, const View &y) {
  constexpr size_t kMostSpatial = 3;
  const size_t spatial = x.sizes.size() - 2;
  if (spatial > kMostSpatial) {
    b.fail(
        {fmt::format("'{}' has {} spatial dimensions, and CANN's aclnnConvolution takes up to {}; train on the device "
                     "cpu",
                     b.name(), spatial, kMostSpatial)});
    return std::nullopt;
  }
  bool isLast = b.flag("channels_last");
  Convolution c{channelsFirst(x, isLast),
                channelsFirst(kernel, isLast),
                channelsFirst(y, isLast),
                b.integers("strides"),
                b.integers("dilations"),
                b.integers("low"),
                b.integers("high"),
                1,
                {},
                false};
  c.groups = c.x.sizes[1] / c.kernel.sizes[1];
  // The operator pads both sides alike, and no more than the window needs.
  for (size_t d = 0; d < spatial; ++d) {
    int64_t size = c.x.sizes[d + 2], window = (c.kernel.sizes[d + 2] - 1) * c.dilations[d] + 1;
    bool isAlike = c.low[d] == c.high[d] && 2 * c.low[d] + size >= window;
    c.isPadded = c.isPadded || !isAlike;
  }
  c.padding = c.isPadded ? std::vector<int64_t>(spatial, 0) : c.low;
  return c;
}

/// Returns the sizes of x with its padding.
Shape paddedSizes(const Convolution &c) {
  Shape sizes = c.x.sizes;
  for (size_t d = 0; d < c.low.size(); ++d)
    sizes[d + 2] += c.low[d] + c.high[d];
  return sizes;
}
/// Returns the part of a padded tensor that lies within the padding.
View inner(const Convolution &c, View padded) {
  for (size_t d = 0; d < c.low.size(); ++d)
    padded = sliced(padded, d + 2, c.low[d], c.x.sizes[d + 2]);
  return padded;
}
/// Returns x as the operator reads it: itself, or a copy with its padding.
View readable(Builder &b, const Convolution &c) {
  if (!c.isPadded)
    return formatted(c.x);
  View padded = b.temporary(c.x.dtype, paddedSizes(c));
  b.fill(padded, 0);
  b.copy(c.x, inner(c, padded));
  return formatted(padded);
}

constexpr int8_t kKeepsType = 0;
} // namespace

void callConvolution(Builder &b) {
  auto c = convolutionOf(b, b.operand(0), b.operand(1), b.result());
  if (!c || c->y.elements() == 0)
    return;
  b.call(op::Convolution, readable(b, *c), formatted(c->kernel), {}, c->strides, c->padding, c->dilations, false,
         std::vector<int64_t>(c->strides.size(), 0), c->groups, formatted(c->y), kKeepsType);
}

void callConvolutionTranspose(Builder &b) {
  auto c = convolutionOf(b, b.result(), b.operand(1), b.operand(0));
  if (!c || c->x.elements() == 0)
    return;
  // The gradient of a convolution with respect to x. The operator also asks for x, of which it reads the sizes only.
  View dx = c->isPadded ? b.temporary(c->x.dtype, paddedSizes(*c)) : c->x;
  View sizes = b.temporary(c->x.dtype, dx.sizes);
  b.fill(sizes, 0);
  b.call(op::ConvolutionBackward, formatted(c->y), formatted(sizes), formatted(c->kernel), {}, c->strides, c->padding,
         c->dilations, false, std::vector<int64_t>(c->strides.size(), 0), int(c->groups),
         std::vector<bool>{true, false, false}, kKeepsType, formatted(dx), {}, {});
  if (c->isPadded)
    b.copy(inner(*c, dx), c->x);
}

void callConvolutionKernel(Builder &b) {
  auto c = convolutionOf(b, b.operand(0), b.result(), b.operand(1));
  if (!c || c->kernel.elements() == 0)
    return;
  if (c->y.elements() == 0)
    return b.fill(b.result(), 0);
  View sizes = b.temporary(c->kernel.dtype, c->kernel.sizes); // of the kernel, whose values the operator does not use
  b.fill(sizes, 0);
  b.call(op::ConvolutionBackward, formatted(c->y), readable(b, *c), formatted(sizes), {}, c->strides, c->padding,
         c->dilations, false, std::vector<int64_t>(c->strides.size(), 0), int(c->groups),
         std::vector<bool>{false, true, false}, kKeepsType, {}, formatted(c->kernel), {});
}

namespace {
/// A pooling: the padded operand, and a view of it for each place of the window, in row-major order.
struct Pool {
  View padded;
  std::vector<View> places;
};

constexpr int64_t kMostPlaces = 512; // of a window: there are several calls for each

/// Returns a tensor itself, or a copy in scratch memory with its padding.
View paddedCopy(Builder &b, const View &x, const Shape &sizes, const std::vector<int64_t> &low,
                const ScalarValue &padding) {
  if (sizes == x.sizes)
    return x;
  View padded = b.temporary(x.dtype, sizes), middle = padded;
  b.call(op::InplaceFillScalar, padded, padding);
  for (size_t d = 0; d < sizes.size(); ++d)
    middle = sliced(middle, d, low[d], x.sizes[d]);
  b.copy(x, middle);
  return padded;
}

/// Reads a pooling.
std::optional<Pool> poolOf(Builder &b, const View &x, const Shape &results, const ScalarValue &padding) {
  std::vector<int64_t> window = b.integers("window"), strides = b.integers("strides"),
                       dilations = b.integers("dilations"), low = b.integers("low"), high = b.integers("high");
  int64_t count = product(window);
  if (count > kMostPlaces) {
    b.fail({fmt::format(
        "the window of '{}' has {} elements, and Kerf composes windows of up to {} on Ascend; train on the "
        "device cpu, or reduce whole dimensions in the model",
        b.name(), count, kMostPlaces)});
    return std::nullopt;
  }
  Pool pool{x, {}};
  Shape sizes = x.sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    sizes[d] += low[d] + high[d];
  pool.padded = paddedCopy(b, x, sizes, low, padding);
  for (int64_t place = 0; place < count; ++place) {
    View view = pool.padded;
    int64_t rest = place;
    for (size_t d = sizes.size(); d-- > 0; rest /= window[d])
      view = sliced(view, d, rest % window[d] * dilations[d], results[d], strides[d]);
    pool.places.push_back(view);
  }
  return pool;
}

ScalarValue paddingOf(const std::string &kind, DType dtype) {
  return kind == "sum" ? Builder::scalar(dtype, 0) : neutralOf(dtype, kind == "max");
}

void combineTwo(Builder &b, const std::string &kind, const View &x, const View &y, const View &to) {
  if (kind == "sum")
    return b.add(x, y, to);
  b.call(kind == "max" ? op::Maximum : op::Minimum, x, y, to);
}

/// Adds the sum or the extremum of each window.
void combine(Builder &b, const Pool &pool, const std::string &kind, const View &to) {
  b.copy(pool.places[0], to);
  for (size_t i = 1; i < pool.places.size(); ++i)
    combineTwo(b, kind, to, pool.places[i], to);
}
} // namespace

namespace {
/// The window of a pooling along each dimension, and the padded sizes.
struct Window {
  std::vector<int64_t> sizes, strides, dilations, low, high;
  Shape padded;
};
Window windowOf(const Builder &b, const View &x) {
  Window w{b.integers("window"), b.integers("strides"), b.integers("dilations"),
           b.integers("low"),    b.integers("high"),    x.sizes};
  for (size_t d = 0; d < w.padded.size(); ++d)
    w.padded[d] += w.low[d] + w.high[d];
  return w;
}

/// Combines the places of the window along one dimension after the other, of the result of the one before.
void addByDimension(Builder &b) {
  View x = b.operand(0), y = b.result();
  std::string kind = b.text("kind");
  Window w = windowOf(b, x);
  int64_t calls = 0;
  for (int64_t size : w.sizes)
    calls += size;
  if (calls > kMostPlaces)
    return b.fail(
        {fmt::format("the sides of the window of '{}' have {} elements together, and Kerf composes windows of "
                     "up to {} on Ascend; train on the device cpu, or reduce whole dimensions in the model",
                     b.name(), calls, kMostPlaces)});
  View from = paddedCopy(b, x, w.padded, w.low, paddingOf(kind, x.dtype));
  auto place = [&](size_t d, int64_t i) { return sliced(from, d, i * w.dilations[d], y.sizes[d], w.strides[d]); };
  std::vector<size_t> wide;
  for (size_t d = 0; d < w.sizes.size(); ++d)
    if (w.sizes[d] > 1)
      wide.push_back(d);
    else
      from = place(d, 0);
  if (wide.empty())
    return b.copy(from, y);
  for (size_t d : wide) {
    Shape sizes = from.sizes;
    sizes[d] = y.sizes[d];
    View to = d == wide.back() ? y : b.temporary(x.dtype, sizes);
    combineTwo(b, kind, place(d, 0), place(d, 1), to);
    for (int64_t i = 2; i < w.sizes[d]; ++i)
      combineTwo(b, kind, to, place(d, i), to);
    from = to;
  }
}

/// Reduces whole dimensions, where the window is as large as the padded tensor or has one element in each of them.
void addWhole(Builder &b) {
  View x = b.operand(0), y = b.result();
  std::string kind = b.text("kind");
  Window w = windowOf(b, x);
  std::vector<int64_t> dims;
  for (size_t d = 0; d < w.sizes.size(); ++d)
    if (w.sizes[d] == w.padded[d] && y.sizes[d] == 1 && w.dilations[d] == 1)
      dims.push_back(int64_t(d));
    else if (w.sizes[d] != 1 || y.sizes[d] != w.padded[d])
      return b.decline();
  View from = paddedCopy(b, x, w.padded, w.low, paddingOf(kind, x.dtype));
  if (dims.empty())
    b.copy(from, y);
  else if (kind == "sum")
    b.call(op::ReduceSum, from, dims, true, y.dtype, y);
  else
    b.call(kind == "max" ? op::Amax : op::Amin, from, dims, true, y);
}

void addByPlace(Builder &b) {
  View x = b.operand(0), y = b.result();
  std::string kind = b.text("kind");
  if (auto pool = poolOf(b, x, y.sizes, paddingOf(kind, x.dtype)))
    combine(b, *pool, kind, y);
}
} // namespace

void callReduceWindow(Builder &b) {
  if (b.result().elements() > 0)
    choose(b, {{addByDimension}, {addByPlace}, {addWhole}});
}

void callSelectAndScatter(Builder &b) {
  View x = b.operand(0), dy = b.operand(1), dx = b.result();
  std::string kind = b.text("kind");
  auto pool = poolOf(b, x, dy.sizes, paddingOf(kind, x.dtype));
  if (!pool)
    return;
  if (dy.elements() == 0)
    return b.fill(dx, 0);
  View extremum = b.temporary(x.dtype, dy.sizes), isHere = b.temporary(DType::Bool, dy.sizes),
       isOpen = b.temporary(DType::Bool, dy.sizes), part = b.temporary(x.dtype, dy.sizes),
       zero = b.temporary(x.dtype, {});
  combine(b, *pool, kind, extremum);
  b.fill(isOpen, 1); // windows whose first extremum is still to be found
  b.fill(zero, 0);
  View sums = b.temporary(x.dtype, pool->padded.sizes);
  b.fill(sums, 0);
  for (View place : pool->places) {
    b.call(op::EqTensor, place, extremum, isHere);
    b.call(op::LogicalAnd, isHere, isOpen, isHere);
    b.call(op::SWhere, isHere, dy, broadcast(zero, dy.sizes, {}), part);
    place.data = sums.data; // the same place of the gradient
    b.add(place, part, place);
    b.call(op::LogicalNot, isHere, isHere);
    b.call(op::LogicalAnd, isOpen, isHere, isOpen);
  }
  View middle = sums;
  std::vector<int64_t> low = b.integers("low");
  for (size_t d = 0; d < low.size(); ++d)
    middle = sliced(middle, d, low[d], x.sizes[d]);
  b.copy(middle, dx);
}

} // namespace kerf::runtime::ascend
