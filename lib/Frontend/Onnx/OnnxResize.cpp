// SPDX-License-Identifier: Apache-2.0
// Imports Resize. Every mode is a linear function along each dimension, which becomes a product with a constant matrix.
#include "Common/Formula.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kerf::frontend {

namespace {

/// The resizing of one dimension.
struct Axis {
  int64_t size, resized;
  double scale;              // resized / size, or the scale that the model gives
  double start = 0, end = 1; // region of interest, as fractions of the size
};

struct Mode {
  std::string interpolation, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool antialias = false, excludeOutside = false;
};

/// Returns the coordinate in the operand of element `i` of the result (the operator's table of
/// coordinate_transformation_mode).
Result<double> coordinate(const Axis &axis, const Mode &mode, int64_t i) {
  double at = double(i), size = double(axis.size), resized = double(axis.resized);
  const std::string &how = mode.coordinates;
  if (how == "half_pixel")
    return (at + 0.5) / axis.scale - 0.5;
  if (how == "half_pixel_symmetric") {
    double adjusted = resized / (axis.scale * size), offset = size / 2 * (1 - adjusted);
    return offset + (at + 0.5) / axis.scale - 0.5;
  }
  if (how == "pytorch_half_pixel")
    return resized > 1 ? (at + 0.5) / axis.scale - 0.5 : 0;
  if (how == "align_corners")
    return resized > 1 ? at * (size - 1) / (axis.scale * size - 1) : 0; // uses the resized length before rounding
  if (how == "asymmetric")
    return at / axis.scale;
  if (how == "tf_crop_and_resize")
    return resized > 1 ? axis.start * (size - 1) + at * (axis.end - axis.start) * (size - 1) / (resized - 1)
                       : 0.5 * (axis.start + axis.end) * (size - 1);
  return Error{fmt::format("coordinate_transformation_mode '{}' is not supported", how)};
}

Result<int64_t> nearestTo(double x, const std::string &mode) {
  if (mode == "round_prefer_floor")
    return int64_t(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil")
    return int64_t(std::floor(x + 0.5));
  if (mode == "floor")
    return int64_t(std::floor(x));
  if (mode == "ceil")
    return int64_t(std::ceil(x));
  return Error{fmt::format("nearest_mode '{}' is not supported", mode)};
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
/// Returns the weight of cubic convolution (Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981).
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The row-major matrix [resized, size] with the weight of each element of the operand in each element of the result.
struct Weights {
  std::vector<double> matrix;
  std::vector<bool> isOutside; // result elements outside of the operand, for tf_crop_and_resize
};

Result<Weights> weightsOf(const Axis &axis, const Mode &mode) {
  Weights weights;
  weights.matrix.assign(size_t(axis.resized * axis.size), 0);
  weights.isOutside.assign(size_t(axis.resized), false);
  for (int64_t i = 0; i < axis.resized; ++i) {
    KERF_TRY(x, coordinate(axis, mode, i));
    double *row = weights.matrix.data() + i * axis.size;
    auto add = [&](int64_t at, double weight) { row[std::clamp<int64_t>(at, 0, axis.size - 1)] += weight; };
    if (mode.coordinates == "tf_crop_and_resize" && (x < 0 || x > double(axis.size - 1))) {
      weights.isOutside[size_t(i)] = true;
      continue;
    }
    if (mode.interpolation == "nearest") {
      KERF_TRY(at, nearestTo(x, mode.nearest));
      add(at, 1);
      continue;
    }
    // With antialias, a smaller image is averaged by a filter as wide as the input of one element.
    double width = mode.antialias ? std::max(1.0, 1 / axis.scale) : 1;
    double reach = (mode.interpolation == "cubic" ? 2 : 1) * width, sum = 0;
    int64_t first = int64_t(std::floor(x - reach)), last = int64_t(std::ceil(x + reach));
    std::vector<double> taps;
    for (int64_t at = first; at <= last; ++at) {
      double away = (double(at) - x) / width;
      double weight = mode.interpolation == "cubic" ? cubic(away, mode.cubic) : triangle(away);
      if (mode.excludeOutside && (at < 0 || at >= axis.size))
        weight = 0;
      taps.push_back(weight);
      sum += weight;
    }
    for (int64_t at = first; at <= last; ++at)
      add(at, taps[size_t(at - first)] / sum);
  }
  return weights;
}

/// Resizes dimension `d` of `x`.
Term resizeAxis(Formula &f, const Term &x, int64_t d, const Axis &axis, const Weights &weights, const Mode &mode) {
  Result<FreshLiteral> fresh = allocateLiteral(x.dtype, {axis.resized, axis.size});
  if (!fresh)
    return f.unwrap(fresh.error());
  dispatch(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(weights.matrix.begin(), weights.matrix.end(), fresh->template as<T>(),
                   [](double w) { return T(w); });
  });
  Term matrix = f.b.fromLiteral(fresh->literal);
  // The product has the resized dimension at the end, so it is transposed back.
  Term product = f.unwrap(f.b.dot(x, {{}, {d}}, matrix, {{}, {1}}));
  std::vector<int64_t> order(x.rank() - 1);
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.begin() + d, x.rank() - 1);
  Term result = f.transpose(product, order);
  if (std::find(weights.isOutside.begin(), weights.isOutside.end(), true) == weights.isOutside.end())
    return result;
  std::vector<int64_t> outside(weights.isOutside.begin(), weights.isOutside.end());
  Shape shape(x.rank(), 1);
  shape[d] = axis.resized;
  Term mask = f.convert(f.reshape(f.b.fromLiteral(indexLiteral(outside)), shape), DType::Bool);
  return f.select(mask, f.number(mode.extrapolation), result);
}

/// Returns the elements of a constant floating-point operand, or nothing if the operand is absent or empty.
Result<std::vector<double>> numbersFrom(OnnxNode &node, int i) {
  std::vector<double> numbers;
  if (!node.hasInput(i))
    return numbers;
  const Term &term = node.input(i);
  if (!term.isConstant())
    return Error{fmt::format("operand {} must be a constant, because shapes are static in Kerf", i)};
  KERF_TRY(whole, materialize(*term.literal));
  dispatch(whole.dtype(), [&](auto zero) {
    const auto *values = whole.template as<decltype(zero)>();
    numbers.assign(values, values + whole.storedElements());
  });
  return numbers;
}

} // namespace

Status importResize(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  bool isUpsample = node.opType() == "Upsample", isOld = isUpsample || node.opset() < 11;
  Mode mode{node.text("mode", "nearest"),
            node.text("coordinate_transformation_mode", isOld ? "asymmetric" : "half_pixel"),
            node.text("nearest_mode", isOld ? "floor" : "round_prefer_floor"),
            node.number("cubic_coeff_a", -0.75),
            node.number("extrapolation_value", 0),
            node.integer("antialias", 0) != 0,
            node.integer("exclude_outside", 0) != 0};
  if (mode.interpolation != "nearest" && mode.interpolation != "linear" && mode.interpolation != "cubic")
    return Error{fmt::format("mode '{}' is not supported", mode.interpolation)};
  std::vector<int64_t> axes = node.integers("axes");
  if (!node.has("axes")) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t &axis : axes) {
    KERF_TRY(inside, normalizeAxis(axis, x.rank()));
    axis = inside;
  }
  KERF_TRY(region, numbersFrom(node, isOld ? 9 : 1));
  KERF_TRY(scales, numbersFrom(node, isOld ? 1 : 2));
  KERF_TRY(sizes, numbersFrom(node, 3));
  size_t count = axes.size();
  if ((scales.size() == count) == (sizes.size() == count) ||
      (mode.coordinates == "tf_crop_and_resize" && region.size() != 2 * count))
    return Error{fmt::format("{} scales, {} sizes and {} bounds of a region do not fit {} axes", scales.size(),
                             sizes.size(), region.size(), count)};
  std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  std::optional<double> common; // common scale of all axes, if the aspect ratio is kept
  for (size_t i = 0; i < count && !sizes.empty() && policy != "stretch"; ++i) {
    double scale = sizes[i] / double(x.shape[axes[i]]);
    common = !common ? scale : policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
  }
  Formula f(node.b, x.dtype);
  Term result = x;
  for (size_t i = 0; i < count; ++i) {
    Axis axis{x.shape[axes[i]], 0, 1};
    if (common) {
      axis.scale = *common;
      axis.resized = int64_t(std::floor(*common * double(axis.size) + 0.5));
    } else if (!sizes.empty()) {
      axis.resized = int64_t(sizes[i]);
      axis.scale = sizes[i] / double(axis.size);
    } else {
      axis.scale = scales[i];
      axis.resized = int64_t(std::floor(scales[i] * double(axis.size)));
    }
    if (mode.coordinates == "tf_crop_and_resize") {
      axis.start = region[i];
      axis.end = region[count + i];
    }
    constexpr int64_t kMost = int64_t(1) << 26; // limit of the elements of the matrix: 8192 by 8192
    if (axis.size < 1 || axis.resized < 1 || axis.resized > kMost / axis.size || !(axis.scale > 0))
      return Error{fmt::format("dimension {} of size {} cannot be resized to {}", axes[i], axis.size, axis.resized)};
    KERF_TRY(weights, weightsOf(axis, mode));
    bool isSame = axis.size == axis.resized;
    for (int64_t at = 0; at < axis.size && isSame; ++at)
      isSame = weights.matrix[size_t(at * axis.size + at)] == 1 && !weights.isOutside[size_t(at)];
    if (!isSame)
      result = resizeAxis(f, result, axes[i], axis, weights, mode);
  }
  return f.set(node, 0, result);
}

Status importDepthToSpace(OnnxNode &node) {
  const Term &x = node.input(0);
  int64_t block = node.integer("blocksize", 0);
  bool toSpace = node.opType() == "DepthToSpace", isCrd = node.text("mode", "DCR") == "CRD";
  if (x.rank() != 4 || block < 1 || block > (1 << 15) ||
      (toSpace ? x.shape[1] % (block * block) : x.shape[2] % block + x.shape[3] % block) != 0)
    return Error{fmt::format("blocks of {} do not fit an operand of shape {}", block, shapeText(x.shape))};
  int64_t n = x.shape[0], c = x.shape[1], h = x.shape[2], w = x.shape[3];
  Formula f(node.b, x.dtype);
  if (!toSpace) {
    Term apart = f.reshape(x, {n, c, h / block, block, w / block, block});
    Term moved = isCrd ? f.transpose(apart, {0, 1, 3, 5, 2, 4}) : f.transpose(apart, {0, 3, 5, 1, 2, 4});
    return f.set(node, 0, f.reshape(moved, {n, c * block * block, h / block, w / block}));
  }
  int64_t depth = c / (block * block);
  Term apart = isCrd ? f.transpose(f.reshape(x, {n, depth, block, block, h, w}), {0, 1, 4, 2, 5, 3})
                     : f.transpose(f.reshape(x, {n, block, block, depth, h, w}), {0, 3, 4, 1, 5, 2});
  return f.set(node, 0, f.reshape(apart, {n, depth, h * block, w * block}));
}

} // namespace kerf::frontend
