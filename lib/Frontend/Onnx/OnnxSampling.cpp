// SPDX-License-Identifier: Apache-2.0
// Imports AffineGrid, which computes sampling positions, and GridSample, which samples an image there. A position reads
// a few pixels around it ("taps"). Their weights are polynomials of the fractional part of the position, so that image
// and positions have gradients.
#include "Common/Formula.h"

#include <cmath>

namespace kerf::frontend {

namespace {

enum class Outside { Zeros, Border, Reflection };

/// The taps of one dimension. The first tap is `first` pixels after the floor of the position. weights[p][k] is the
/// coefficient of the p-th power of the fraction in the weight of tap k. For nearest sampling there is one tap.
struct Taps {
  int64_t first = 0;
  std::vector<std::vector<double>> weights;
  int64_t count() const { return int64_t(weights[0].size()); }
};

Result<Taps> tapsOf(const std::string &mode, int64_t dims) {
  if (mode == "nearest")
    return Taps{0, {{1}}};
  if (mode == "linear" || mode == "bilinear")
    return Taps{0, {{1, 0}, {-1, 1}}};
  // Cubic convolution (Keys 1981) with the parameter that the operator prescribes.
  constexpr double a = -0.75;
  if ((mode == "cubic" || mode == "bicubic") && dims == 2)
    return Taps{-1, {{0, 1, 0, 0}, {a, 0, -a, 0}, {-2 * a, -a - 3, 2 * a + 3, a}, {a, a + 2, -a - 2, -a}}};
  return Error{fmt::format("mode '{}' is not supported over {} dimensions", mode, dims)};
}

/// Returns constants along a new last dimension.
Term row(Formula &f, const std::vector<double> &values) {
  auto [tensor, memory] = allocateTensor(DType::F64, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), reinterpret_cast<double *>(memory));
  return f.convert(f.b.fromLiteral({tensor, tensor.shape}), f.dtype);
}

/// Repeats the values of the taps of dimension `dim` for every combination of taps in all `dims` dimensions.
std::vector<double> combined(const std::vector<double> &taps, int64_t dim, int64_t dims) {
  int64_t count = int64_t(taps.size()), all = 1, step = 1;
  for (int64_t d = 0; d < dims; ++d) {
    all *= count;
    step *= d > dim ? count : 1;
  }
  std::vector<double> values;
  for (int64_t k = 0; k < all; ++k)
    values.push_back(taps[size_t(k / step % count)]);
  return values;
}

/// Maps positions outside of [0, size - 1] inside, by clamping or reflection. The caller handles zeros for positions
/// outside.
Term kept(Formula &f, Term x, int64_t size, Outside outside, bool alignsCorners) {
  if (outside == Outside::Zeros)
    return x;
  double low = alignsCorners ? 0 : -0.5, span = alignsCorners ? double(size - 1) : double(size);
  if (outside == Outside::Reflection && span > 0) { // reflection is a triangle wave of period 2 * span
    Term up = f.subtract(x, f.number(low)), period = f.number(2 * span);
    Term in = f.subtract(up, f.multiply(f.unary(Unary::Floor, f.divide(up, period)), period));
    x = f.subtract(f.number(low + span), f.unary(Unary::Abs, f.subtract(in, f.number(span))));
  }
  return f.minimum(f.maximum(x, f.number(0)), f.number(double(size - 1)));
}

} // namespace

Status importGridSample(OnnxNode &node) {
  const Term &x = node.input(0), &grid = node.input(1);
  int64_t dims = x.rank() - 2;
  if (!isFloat(x.dtype) || grid.dtype != x.dtype || dims < 1 || grid.rank() != x.rank() || grid.shape.back() != dims ||
      grid.shape[0] != x.shape[0] || elementsOf(x.shape) == 0)
    return Error{fmt::format("an image {} {} and a grid {} {}: [samples, channels, sizes] and [samples, places, {}] of "
                             "one floating type are needed",
                             toString(x.dtype), shapeText(x.shape), toString(grid.dtype), shapeText(grid.shape), dims)};
  std::string mode = node.text("mode", "linear"), padding = node.text("padding_mode", "zeros");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return Error{fmt::format("padding_mode '{}'", padding)};
  Outside outside = padding == "zeros" ? Outside::Zeros : padding == "border" ? Outside::Border : Outside::Reflection;
  bool alignsCorners = node.integer("align_corners", 0) != 0;
  KERF_TRY(taps, tapsOf(mode, dims));
  bool isNearest = taps.weights.size() == 1, isCubic = taps.count() > 2;

  // For each position and combination of taps: the weight, and the row of the pixel in a table of all pixels.
  Formula f(node.b, x.dtype), whole(node.b, DType::I64);
  auto integer = [&](int64_t value) { return node.b.integer(DType::I64, value); };
  Shape sizes(x.shape.begin() + 2, x.shape.end());
  int64_t pixels = elementsOf(sizes), step = pixels;
  Term weight, at = whole.multiply(whole.iota(x.shape[0], 0, grid.rank()), integer(pixels));
  for (int64_t d = 0; d < dims; ++d) {
    int64_t size = sizes[size_t(d)];
    step /= size;
    Term place = f.slice(grid, grid.rank() - 1, dims - 1 - d,
                         dims - d); // positions from -1 to 1; the last dimension comes first
    Term unit = f.add(place, f.number(1));
    place = alignsCorners
                ? f.multiply(unit, f.number(double(size - 1) / 2))
                : f.multiply(f.subtract(f.multiply(unit, f.number(double(size))), f.number(1)), f.number(0.5));
    if (!isCubic)
      place = kept(f, place, size, outside, alignsCorners);
    Term floor = f.unary(isNearest ? Unary::Round : Unary::Floor, place), fraction = f.subtract(place, floor);
    Term own = row(f, combined(taps.weights.back(), d, dims));
    for (size_t power = taps.weights.size() - 1; power-- > 0;)
      own = f.add(f.multiply(own, fraction), row(f, combined(taps.weights[power], d, dims)));
    std::vector<double> offsets(static_cast<size_t>(taps.count()));
    std::iota(offsets.begin(), offsets.end(), double(taps.first));
    Term tap = f.add(floor, row(f, combined(offsets, d, dims)));
    if (isCubic)
      tap = kept(f, tap, size, outside, alignsCorners);
    Term inside = f.minimum(f.maximum(tap, f.number(0)), f.number(double(size - 1)));
    if (outside == Outside::Zeros)
      own = f.select(f.compare(Order::Equal, tap, inside), own, f.number(0));
    weight = d == 0 ? own : f.multiply(weight, own);
    Term index = whole.convert(isCubic ? f.unary(Unary::Round, inside) : inside, DType::I64);
    at = whole.add(at, step == 1 ? index : whole.multiply(index, integer(step)));
  }
  std::vector<int64_t> channelsLast{0}, channelsSecond{0, dims + 1};
  for (int64_t d = 0; d < dims; ++d) {
    channelsLast.push_back(d + 2);
    channelsSecond.push_back(d + 1);
  }
  channelsLast.push_back(1);
  if (whole.fault)
    return *whole.fault;
  Term table = f.reshape(f.transpose(x, channelsLast), {x.shape[0] * pixels, x.shape[1]});
  Term read = f.unwrap(node.b.gather(table, at, 0)); // [samples, places, taps, channels]
  Shape spread = weight.shape;
  spread.push_back(1);
  Term sum = f.reduce(Reduction::Sum, f.multiply(read, f.reshape(weight, spread)), {grid.rank() - 1});
  return f.set(node, 0, f.transpose(sum, channelsSecond));
}

Status importAffineGrid(OnnxNode &node) {
  const Term &theta = node.input(0);
  KERF_TRY(size, node.constantInput(1));
  int64_t dims = int64_t(size.size()) - 2;
  if (!isFloat(theta.dtype) || dims < 1 || theta.shape != Shape{size[0], dims, dims + 1})
    return Error{fmt::format("matrices of type {} and shape {} do not fit images of shape {}", toString(theta.dtype),
                             shapeText(theta.shape), shapeText(size))};
  KERF_CHECK(checkShape(size));
  bool alignsCorners = node.integer("align_corners", 0) != 0;
  Formula f(node.b, theta.dtype);
  Shape whole(size.begin() + 2, size.end()), one(whole.size(), 1);
  whole.push_back(1);
  std::vector<Term> columns; // homogeneous coordinates of each position: from -1 to 1, the last dimension first, then 1
  for (int64_t d = dims - 1; d >= 0; --d) {
    int64_t count = size[size_t(d + 2)];
    std::vector<double> along;
    for (int64_t i = 0; i < count; ++i)
      along.push_back(!alignsCorners ? double(2 * i + 1) / double(count) - 1
                      : count > 1    ? 2 * double(i) / double(count - 1) - 1
                                     : 0);
    Shape shape(whole.size(), 1);
    shape[size_t(d)] = count;
    columns.push_back(f.broadcast(f.reshape(row(f, along), shape), whole));
  }
  columns.push_back(f.broadcast(f.number(1), whole));
  Term places = f.concatenate(columns, dims);
  if (f.fault)
    return *f.fault;
  Term grid = f.unwrap(node.b.dot(theta, {{}, {2}}, places, {{}, {dims}})); // [samples, coordinates, places]
  std::vector<int64_t> order{0};
  for (int64_t d = 0; d < dims; ++d)
    order.push_back(d + 2);
  order.push_back(1);
  return f.set(node, 0, f.transpose(grid, order));
}

} // namespace kerf::frontend
