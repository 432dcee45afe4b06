// SPDX-License-Identifier: Apache-2.0
// StableHLO operations that slide a window: convolutions in any order of dimensions, pooling, and the gradient of max
// pooling.
#include "StableHlo/HloOps.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kerf::frontend::hlo {

namespace {

/// The movement of a window, with one entry for each dimension along which it moves. `spread` is the distance between
/// neighbouring elements of the operand after base dilation; `low` and `high`, the padding, may be negative.
struct Window {
  Shape size, strides, spread, dilations, low, high;
};

constexpr int64_t kMost = int64_t(1) << 31; // limit of sizes, so that sums and products of two fit into 64 bits

Status checkEntry(int64_t entry, int64_t least, std::string_view name) {
  if (entry < least || entry > kMost)
    return Error{fmt::format("{} has the entry {}, but only {} to {} are allowed", name, entry, least, kMost)};
  return ok();
}

/// Returns the integers of an attribute, each at least 1; all are 1 if the attribute is missing.
Result<Shape> entriesOf(const Node &node, const char *name, size_t count) {
  if (!node.op.find(name))
    return Shape(count, 1);
  KERF_TRY(entries, node.integers(name));
  if (entries.size() != count)
    return Error{fmt::format("{} has {} entries, but {} are needed", name, entries.size(), count)};
  for (int64_t entry : entries)
    KERF_CHECK(checkEntry(entry, 1, name));
  return entries;
}

/// Reads padding, [[low, high], ...], from lists or a constant.
Status readPadding(const Node &node, Window &window) {
  size_t count = window.size.size();
  window.low.assign(count, 0);
  window.high.assign(count, 0);
  const Attribute *padding = node.op.find("padding");
  if (!padding)
    return ok();
  std::vector<int64_t> flat;
  if (padding->kind == Attribute::Kind::List) {
    for (const Attribute &pair : padding->list) {
      KERF_TRY(both, integersOf(pair, "padding"));
      flat.insert(flat.end(), both.begin(), both.end());
    }
  } else {
    KERF_TRY(values, integersOf(*padding, "padding"));
    flat = values;
  }
  if (flat.size() != 2 * count)
    return Error{fmt::format("padding has {} entries, but {} are needed", flat.size(), 2 * count)};
  for (size_t d = 0; d < count; ++d) {
    KERF_CHECK(checkEntry(flat[2 * d], -kMost, "padding"));
    KERF_CHECK(checkEntry(flat[2 * d + 1], -kMost, "padding"));
    window.low[d] = flat[2 * d];
    window.high[d] = flat[2 * d + 1];
  }
  return ok();
}

Result<Window> windowOf(const Node &node, Shape size, const char *spread, const char *dilations) {
  Window window;
  window.size = std::move(size);
  for (int64_t entry : window.size)
    KERF_CHECK(checkEntry(entry, 1, "the window"));
  KERF_TRY(strides, entriesOf(node, "window_strides", window.size.size()));
  KERF_TRY(distances, entriesOf(node, spread, window.size.size()));
  KERF_TRY(reach, entriesOf(node, dilations, window.size.size()));
  window.strides = strides;
  window.spread = distances;
  window.dilations = reach;
  KERF_CHECK(readPadding(node, window));
  return window;
}

/// Returns `x` with base dilation and negative padding applied, so that the window has only non-negative padding. The
/// window moves along the dimensions from `first` on.
Result<Term> settled(TermBuilder &b, const Term &x, const Term &between, size_t first, Window &window) {
  Shape low(first, 0), high(first, 0), interior(first, 0);
  for (size_t d = 0; d < window.size.size(); ++d) {
    low.push_back(std::min<int64_t>(window.low[d], 0));
    high.push_back(std::min<int64_t>(window.high[d], 0));
    interior.push_back(window.spread[d] - 1);
    window.low[d] = std::max<int64_t>(window.low[d], 0);
    window.high[d] = std::max<int64_t>(window.high[d], 0);
    window.spread[d] = 1;
  }
  return padded(b, x, between, low, high, interior);
}

/// Returns the number of window positions along the dimensions of `shape` from `first` on. Fails when the window does
/// not fit.
Result<Shape> placesOf(const Shape &shape, size_t first, const Window &window) {
  Shape places;
  for (size_t d = 0; d < window.size.size(); ++d) {
    int64_t reach = (window.size[d] - 1) * window.dilations[d] + 1;
    int64_t room = window.low[d] + shape[first + d] + window.high[d] - reach;
    if (room < 0)
      return Error{fmt::format("a window that spans {} elements does not fit dimension {} of size {}, with its padding "
                               "{}; make the window smaller or the padding larger",
                               reach, first + d, shape[first + d], room + reach)};
    places.push_back(room / window.strides[d] + 1);
  }
  return places;
}

//===-- convolution ------------------------------------------------------===//

/// The labels of the dimensions of operand, kernel and result: "b", "f", "o", "i", "0", "1".
struct Labels {
  std::vector<std::string> of[3];
};

/// Parses [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], which is lists in the pretty form and a text in the generic form.
Result<Labels> labelsOf(const Node &node) {
  Labels labels;
  if (const Attribute *numbers = node.op.find("dimension_numbers")) {
    std::string_view text = numbers->text;
    for (auto &names : labels.of) {
      size_t begin = text.find('['), end = text.find(']');
      if (begin == std::string_view::npos || end == std::string_view::npos || end < begin)
        return Error{"its attribute 'dimension_numbers' does not have the form [...]x[...]->[...]"};
      names.emplace_back();
      for (char c : text.substr(begin + 1, end - begin - 1))
        if (c == ',')
          names.emplace_back();
        else if (c != ' ')
          names.back() += c;
      text.remove_prefix(end + 1);
    }
    return labels;
  }
  constexpr const char *kNames[] = {"input_dimensions", "kernel_dimensions", "output_dimensions"};
  for (int i = 0; i < 3; ++i) {
    const Attribute *list = node.op.find(kNames[i]);
    if (!list)
      return Error{"its dimension numbers are missing"};
    for (const Attribute &one : list->list)
      labels.of[i].push_back(one.kind == Attribute::Kind::Integer ? std::to_string(one.integer) : one.text);
  }
  return labels;
}

/// Returns the positions of `first`, `second`, "0", "1", ... among the labels.
Result<std::vector<int64_t>> orderOf(const std::vector<std::string> &names, const char *first, const char *second,
                                     int64_t rank) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d) {
    std::string wanted = d == 0 ? first : d == 1 ? second : std::to_string(d - 2);
    auto it = std::find(names.begin(), names.end(), wanted);
    if (it == names.end() || int64_t(names.size()) != rank)
      return Error{
          fmt::format("dimensions [{}] do not fit a tensor of rank {}; '{}', '{}' and numbers from 0 are needed",
                      fmt::join(names, ", "), rank, first, second)};
    order.push_back(it - names.begin());
  }
  return order;
}

/// Turns groups of samples into groups of channels: [g * n, c, s] -> [n, g * c, s].
Result<Term> samplesToChannels(TermBuilder &b, const Term &x, int64_t groups) {
  Shape apart = x.shape, together = x.shape;
  apart[0] = together[0] = x.shape[0] / groups;
  apart.insert(apart.begin(), groups);
  together[1] = groups * x.shape[1];
  std::vector<int64_t> order(apart.size());
  for (size_t d = 0; d < order.size(); ++d)
    order[d] = d == 0 ? 1 : d == 1 ? 0 : int64_t(d);
  KERF_TRY(split, b.reshape(x, apart));
  KERF_TRY(turned, b.transpose(split, order));
  return b.reshape(turned, together);
}

Result<int64_t> groupsOf(const Node &node, const char *name) {
  if (!node.op.find(name))
    return 1;
  KERF_TRY(groups, node.integer(name));
  KERF_CHECK(checkEntry(groups, 1, name));
  return groups;
}

//===-- pools ------------------------------------------------------------===//

/// Returns the comparison by which a region selects one of its two arguments: "GE" or "LE".
Result<std::string> selectorOf(const Region &region) {
  const std::vector<Operation> &ops = region.operations;
  Error other{"it selects by an operation other than a comparison GE or LE of its two arguments"};
  if (region.arguments.size() != 2 || ops.size() != 2 || ops[0].name != "stablehlo.compare" ||
      ops[0].operands != std::vector{region.arguments[0].first, region.arguments[1].first} ||
      ops[0].results.size() != 1 || ops[1].operands != std::vector{ops[0].results[0].first})
    return other;
  const Attribute *direction = ops[0].find("comparison_direction");
  if (!direction || (direction->text != "GE" && direction->text != "LE"))
    return other;
  return direction->text;
}

Status checkFirstValue(const Term &init, const Term &x, double neutral) {
  if (init.dtype != x.dtype || init.rank() != 0 || !init.isConstant() || !allElementsEqual(*init.literal, neutral))
    return Error{fmt::format("its initial value is not the constant {} of type {}", neutral, toString(x.dtype))};
  return ok();
}

/// Returns, for each position, the product of `count` elements at distances of `dilation`, composed of products of 1,
/// 2, 4, ...
Result<Term> runningProduct(TermBuilder &b, const Term &x, int64_t dim, int64_t count, int64_t dilation) {
  int64_t places = x.shape[size_t(dim)] - (count - 1) * dilation, done = 0;
  std::optional<Term> product;
  Term power = x; // product of `bit` elements from each position on
  for (int64_t bit = 1; bit <= count; bit *= 2) {
    if (count & bit) {
      KERF_TRY(piece, b.slice(power, dim, done * dilation, done * dilation + places));
      KERF_TRY(longer, product ? b.binary(Binary::Multiply, *product, piece) : Result<Term>(piece));
      product = longer;
      done += bit;
    }
    if (2 * bit > count)
      break;
    int64_t left = power.shape[size_t(dim)] - bit * dilation;
    KERF_TRY(first, b.slice(power, dim, 0, left));
    KERF_TRY(second, b.slice(power, dim, bit * dilation, bit * dilation + left));
    KERF_TRY(both, b.binary(Binary::Multiply, first, second));
    power = both;
  }
  return *product;
}

/// Returns the product over each window, one dimension after the other; `x` is already padded with ones.
Result<Term> windowProducts(TermBuilder &b, Term x, const Window &window) {
  for (size_t d = 0; d < window.size.size(); ++d) {
    KERF_TRY(products, runningProduct(b, x, int64_t(d), window.size[d], window.dilations[d]));
    x = products;
  }
  return b.slice(x, Shape(window.size.size(), 0), x.shape, window.strides);
}

} // namespace

Result<Terms> evaluateConvolution(Node &node) {
  TermBuilder &b = node.b;
  int64_t rank = node.input(0).rank();
  if (rank < 3 || node.input(1).rank() != rank || node.input(0).dtype != node.input(1).dtype ||
      !isFloat(node.input(0).dtype))
    return Error{fmt::format("operands of types and shapes {} {} and {} {} are given, but floating-point tensors of "
                             "one rank of 3 or more are needed",
                             toString(node.input(0).dtype), shapeText(node.input(0).shape),
                             toString(node.input(1).dtype), shapeText(node.input(1).shape))};
  KERF_TRY(labels, labelsOf(node));
  KERF_TRY(order, orderOf(labels.of[0], "b", "f", rank));
  KERF_TRY(kernelOrder, orderOf(labels.of[1], "o", "i", rank));
  KERF_TRY(resultOrder, orderOf(labels.of[2], "b", "f", rank));
  KERF_TRY(x, b.transpose(node.input(0), order));
  KERF_TRY(kernel, b.transpose(node.input(1), kernelOrder));
  KERF_TRY(channelGroups, groupsOf(node, "feature_group_count"));
  KERF_TRY(sampleGroups, groupsOf(node, "batch_group_count"));
  int64_t groups = channelGroups * sampleGroups;
  bool fits = (channelGroups == 1 || sampleGroups == 1) && x.shape[0] % sampleGroups == 0 && kernel.shape[1] >= 1 &&
              x.shape[1] == channelGroups * kernel.shape[1] && kernel.shape[0] >= 1 && kernel.shape[0] % groups == 0;
  if (!fits)
    return Error{fmt::format("{} groups of channels and {} groups of samples do not fit an operand with {} samples and "
                             "{} channels and a kernel with {} and {}",
                             channelGroups, sampleGroups, x.shape[0], x.shape[1], kernel.shape[0], kernel.shape[1])};
  if (sampleGroups > 1) {
    KERF_TRY(turned, samplesToChannels(b, x, sampleGroups));
    x = turned;
  }
  Shape size(kernel.shape.begin() + 2, kernel.shape.end());
  KERF_TRY(window, windowOf(node, size, "lhs_dilation", "rhs_dilation"));
  if (const Attribute *reversal = node.op.find("window_reversal")) {
    KERF_TRY(flags, integersOf(*reversal, "window_reversal"));
    std::vector<int64_t> dims;
    for (size_t d = 0; d < flags.size() && d < size.size(); ++d)
      if (flags[d])
        dims.push_back(int64_t(d) + 2);
    KERF_TRY(turned, reversed(b, kernel, dims));
    kernel = turned;
  }
  KERF_TRY(spread, settled(b, x, b.scalar(x.dtype, 0), 2, window));
  KERF_TRY(places, placesOf(spread.shape, 2, window));
  Shape shape{spread.shape[0], kernel.shape[0]};
  shape.insert(shape.end(), places.begin(), places.end());
  KERF_CHECK(checkShape(shape));
  mlir::Value operand = b.emit(spread), weights = b.emit(kernel);
  Term y = b.fromValue(ir::ConvolutionOp::create(b.builder, b.loc, b.type(x.dtype, shape), operand, weights,
                                                 window.strides, window.dilations, window.low, window.high));
  std::vector<int64_t> back(order.size());
  for (size_t d = 0; d < back.size(); ++d)
    back[size_t(resultOrder[d])] = int64_t(d);
  return one(b.transpose(y, back));
}

Result<Terms> evaluateReduceWindow(Node &node) {
  TermBuilder &b = node.b;
  if (node.operands.size() != 2)
    return Error{fmt::format("windows over {} tensors are not supported; windows over one tensor are",
                             node.operands.size() / 2)};
  const Term &x = node.input(0);
  if (node.op.regions.size() != 1)
    return Error{"it has no region that says how elements are combined"};
  KERF_TRY(name, combinerOf(node.op.regions[0]));
  constexpr std::pair<const char *, ir::ReduceKindIR> kKinds[] = {{"stablehlo.add", ir::ReduceKindIR::sum},
                                                                  {"stablehlo.maximum", ir::ReduceKindIR::max},
                                                                  {"stablehlo.minimum", ir::ReduceKindIR::min}};
  auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto &row) { return name == row.first; });
  bool isProduct = name == "stablehlo.multiply";
  if ((kind == std::end(kKinds) && !isProduct) || x.dtype == DType::Bool)
    return Error{fmt::format(
        "windows of {} combined by {} are not supported; supported are add, multiply, maximum and minimum of numbers",
        toString(x.dtype), name.empty() ? "their last element" : name)};
  KERF_CHECK(checkFirstValue(node.input(1), x, *neutralOf(name, x.dtype)));
  KERF_TRY(size, node.integers("window_dimensions"));
  if (int64_t(size.size()) != x.rank())
    return Error{fmt::format("a window has {} dimensions, but the tensor has {}", size.size(), x.rank())};
  if (size.empty())
    return Terms{x};
  KERF_TRY(window, windowOf(node, size, "base_dilations", "window_dilations"));
  KERF_TRY(spread, settled(b, x, node.input(1), 0, window));
  KERF_TRY(places, placesOf(spread.shape, 0, window));
  KERF_CHECK(checkShape(places));
  if (isProduct) {
    KERF_TRY(padded, b.pad(spread, node.input(1), window.low, window.high));
    return one(windowProducts(b, padded, window));
  }
  mlir::Value operand = b.emit(spread);
  return Terms{
      b.fromValue(ir::ReduceWindowOp::create(b.builder, b.loc, b.type(x.dtype, places), operand, kind->second,
                                             window.size, window.strides, window.dilations, window.low, window.high))};
}

/// Evaluates select_and_scatter as the gradient of max pooling: the gradient of each window goes to the first of its
/// largest elements.
Result<Terms> evaluateSelectAndScatter(Node &node) {
  TermBuilder &b = node.b;
  const Term &x = node.input(0), &gradient = node.input(1);
  if (node.op.regions.size() != 2)
    return Error{"it has no regions that say how elements are selected and combined"};
  KERF_TRY(selector, selectorOf(node.op.regions[0]));
  KERF_TRY(combiner, combinerOf(node.op.regions[1]));
  if (combiner != "stablehlo.add" || !isFloat(x.dtype) || gradient.dtype != x.dtype)
    return Error{fmt::format("{} scattered over {} and combined by {} is not supported; supported are floating-point "
                             "numbers combined by add",
                             toString(gradient.dtype), toString(x.dtype), combiner)};
  KERF_CHECK(checkFirstValue(node.input(2), x, 0));
  KERF_TRY(size, node.integers("window_dimensions"));
  if (int64_t(size.size()) != x.rank() || size.empty())
    return Error{fmt::format("a window has {} dimensions, but the tensor has {}", size.size(), x.rank())};
  KERF_TRY(window, windowOf(node, size, "base_dilations", "window_dilations"));
  for (size_t d = 0; d < size.size(); ++d)
    if (window.low[d] < 0 || window.high[d] < 0)
      return Error{fmt::format("paddings {} and {} of dimension {} are not valid", window.low[d], window.high[d], d)};
  KERF_TRY(places, placesOf(x.shape, 0, window));
  if (places != gradient.shape)
    return Error{
        fmt::format("a gradient of shape {} does not fit windows at {}", shapeText(gradient.shape), shapeText(places))};
  mlir::Value operand = b.emit(x), source = b.emit(gradient);
  ir::ReduceKindIR kind = selector == "GE" ? ir::ReduceKindIR::max : ir::ReduceKindIR::min;
  return Terms{b.fromValue(ir::SelectAndScatterOp::create(b.builder, b.loc, b.type(x.dtype, x.shape), operand, source,
                                                          kind, window.size, window.strides, window.dilations,
                                                          window.low, window.high))};
}

} // namespace kerf::frontend::hlo
