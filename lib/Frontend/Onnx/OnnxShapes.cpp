// SPDX-License-Identifier: Apache-2.0
// Imports operators that move elements. Their shapes, axes and indices must be constants, so that the shape of every
// result is known.
#include "Common/Lookups.h"
#include "Onnx/OnnxNode.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace kerf::frontend {

Status importReshape(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(wanted, node.constantInput(1));
  bool zeroCopies = !node.integer("allowzero", 0);
  Shape shape = wanted;
  int64_t open = -1, known = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0 && zeroCopies) {
      if (int64_t(d) >= x.rank())
        return Error{fmt::format("shape {} copies dimension {}, which shape {} does not have", shapeText(wanted), d,
                                 shapeText(x.shape))};
      shape[d] = x.shape[d];
    }
    if (shape[d] < -1 || (shape[d] == -1 && open >= 0))
      return Error{fmt::format("the shape {} is not valid", shapeText(wanted))};
    if (shape[d] == -1)
      open = int64_t(d);
    else if (__builtin_mul_overflow(known, shape[d], &known))
      return Error{fmt::format("the shape {} is not valid", shapeText(wanted))};
  }
  if (open >= 0) {
    int64_t elements = elementsOf(x.shape);
    if (known == 0 || elements % known != 0)
      return Error{
          fmt::format("shape {} of {} elements cannot become {}", shapeText(x.shape), elements, shapeText(wanted))};
    shape[open] = elements / known;
  }
  return node.set(0, node.b.reshape(x, shape));
}

Status importFlatten(OnnxNode &node) {
  const Term &x = node.input(0);
  int64_t axis = node.integer("axis", 1);
  if (axis != x.rank()) {
    KERF_TRY(inside, normalizeAxis(axis, x.rank()));
    axis = inside;
  }
  return node.set(0, node.b.reshape(x, {elementsOf(Shape(x.shape.begin(), x.shape.begin() + axis)),
                                        elementsOf(Shape(x.shape.begin() + axis, x.shape.end()))}));
}

/// Returns the axes in ascending order. Fails when an axis is out of range or occurs twice.
static Result<std::vector<int64_t>> sortedAxes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t &axis : axes) {
    KERF_TRY(inside, normalizeAxis(axis, rank));
    axis = inside;
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return Error{fmt::format("an axis occurs twice in {}", shapeText(axes))};
  return axes;
}

Status importSqueeze(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(given, node.integersFrom(1, "axes"));
  Shape shape;
  if (!given) {
    std::copy_if(x.shape.begin(), x.shape.end(), std::back_inserter(shape), [](int64_t size) { return size != 1; });
    return node.set(0, node.b.reshape(x, shape));
  }
  KERF_TRY(axes, sortedAxes(*given, x.rank()));
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!std::binary_search(axes.begin(), axes.end(), d))
      shape.push_back(x.shape[d]);
    else if (x.shape[d] != 1)
      return Error{fmt::format("dimension {} of {} has {} elements, not 1", d, shapeText(x.shape), x.shape[d])};
  return node.set(0, node.b.reshape(x, shape));
}

Status importUnsqueeze(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(given, node.integersFrom(1, "axes"));
  if (!given)
    return Error{"it has no axes"};
  KERF_TRY(axes, sortedAxes(*given, x.rank() + int64_t(given->size())));
  Shape shape = x.shape;
  for (int64_t axis : axes)
    shape.insert(shape.begin() + axis, 1);
  return node.set(0, node.b.reshape(x, shape));
}

Status importTranspose(OnnxNode &node) {
  const Term &x = node.input(0);
  std::vector<int64_t> permutation = node.integers("perm");
  if (!node.has("perm")) {
    permutation.resize(x.rank());
    std::iota(permutation.rbegin(), permutation.rend(), 0);
  }
  return node.set(0, node.b.transpose(x, permutation));
}

Status importExpand(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(wanted, node.constantInput(1));
  KERF_TRY(shape, broadcastShapes(x.shape, wanted));
  for (int64_t size : shape)
    if (size < 0)
      return Error{fmt::format("the shape {} is not valid", shapeText(wanted))};
  return node.set(0, node.b.broadcast(x, shape));
}

Status importTile(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(repeats, node.constantInput(1));
  if (int64_t(repeats.size()) != x.rank() ||
      std::any_of(repeats.begin(), repeats.end(), [](int64_t r) { return r < 1; }))
    return Error{fmt::format("repeats {} do not fit a tensor of shape {}", shapeText(repeats), shapeText(x.shape))};
  // Tile copies along a new dimension before each dimension, then merges the two.
  Shape apart, copied, result;
  for (int64_t d = 0; d < x.rank(); ++d) {
    apart.insert(apart.end(), {1, x.shape[d]});
    copied.insert(copied.end(), {repeats[d], x.shape[d]});
  }
  KERF_TRY(spread, node.b.reshape(x, apart));
  KERF_TRY(copies, node.b.broadcast(spread, copied)); // fails for results that are too large
  for (int64_t d = 0; d < x.rank(); ++d)
    result.push_back(repeats[d] * x.shape[d]);
  return node.set(0, node.b.reshape(copies, result));
}

Status importConcat(OnnxNode &node) {
  std::vector<Term> inputs;
  for (int i = 0; i < node.inputCount(); ++i)
    inputs.push_back(node.input(i));
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), inputs[0].rank()));
  return node.set(0, node.b.concatenate(inputs, axis));
}

/// Returns the elements at constant indices of one dimension: a slice if the indices are consecutive, and a lookup
/// otherwise.
static Result<Term> takeAlong(OnnxNode &node, const Term &x, const std::vector<int64_t> &at, int64_t dim) {
  bool countsUp = true;
  for (size_t i = 1; i < at.size(); ++i)
    countsUp &= at[i] == at[i - 1] + 1;
  if (countsUp)
    return node.b.slice(x, dim, at.empty() ? 0 : at.front(), at.empty() ? 0 : at.back() + 1);
  Term indices = node.b.fromLiteral(indexLiteral(at));
  return node.b.gather(x, indices, dim);
}

Status importSlice(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(starts, node.constantInput(1));
  KERF_TRY(ends, node.constantInput(2));
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.hasInput(3)) {
    KERF_TRY(given, node.constantInput(3));
    axes = given;
  }
  if (node.hasInput(4)) {
    KERF_TRY(given, node.constantInput(4));
    steps = given;
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return Error{fmt::format("{} starts, {} ends, {} axes and {} steps are given, but their numbers must be equal",
                             starts.size(), ends.size(), axes.size(), steps.size())};
  KERF_CHECK(sortedAxes(axes, x.rank()));
  Shape start(x.rank(), 0), limit = x.shape, strides(x.rank(), 1), count = x.shape;
  bool backward = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t d = axes[i] < 0 ? axes[i] + x.rank() : axes[i], size = x.shape[d], step = steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return Error{fmt::format("the step {} along dimension {} is not valid", step, d)};
    // NumPy's rule: negative positions count from the end, then positions are clamped (when stepping backward, to one
    // before the first element).
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    auto inside = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
    start[d] = inside(starts[i]);
    limit[d] = inside(ends[i]);
    strides[d] = step;
    int64_t length = step > 0 ? limit[d] - start[d] : start[d] - limit[d], stride = step > 0 ? step : -step;
    count[d] = length <= 0 ? 0 : (length - 1) / stride + 1;
    limit[d] = std::max(limit[d], start[d]);
    backward |= step < 0;
  }
  if (!backward)
    return node.set(0, node.b.slice(x, start, limit, strides));
  if (x.isConstant()) {
    KERF_TRY(reversed, foldSlice(*x.literal, start, count, strides));
    return node.set(0, node.b.fromLiteral(reversed));
  }
  Term result = x; // dimensions with steps are looked up one by one
  for (int64_t d = 0; d < x.rank(); ++d) {
    std::vector<int64_t> at;
    for (int64_t i = 0; i < count[d]; ++i)
      at.push_back(start[d] + i * strides[d]);
    KERF_TRY(taken, takeAlong(node, result, at, d));
    result = taken;
  }
  return node.set(0, result);
}

/// Splits `x` along `axis` into pieces of the given sizes.
static Result<std::vector<Term>> pieces(OnnxNode &node, const Term &x, int64_t axis,
                                        const std::vector<int64_t> &sizes) {
  std::vector<Term> result;
  int64_t from = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > x.shape[axis] - from)
      return Error{fmt::format("pieces {} do not fit dimension {} of size {}", shapeText(sizes), axis, x.shape[axis])};
    KERF_TRY(piece, node.b.slice(x, axis, from, from + size));
    result.push_back(piece);
    from += size;
  }
  if (from != x.shape[axis])
    return Error{fmt::format("pieces {} add up to {}, but dimension {} has {} elements", shapeText(sizes), from, axis,
                             x.shape[axis])};
  return result;
}

/// Returns sizes of pieces of `chunk` elements; the last piece may be smaller.
static Result<std::vector<int64_t>> chunks(int64_t size, int64_t chunk) {
  constexpr int64_t kMost = 1 << 16; // limit of pieces, each of which is a slice in the IR
  if (size / chunk > kMost)
    return Error{
        fmt::format("{} pieces of {} elements are not supported; at most {} pieces are", size / chunk, chunk, kMost)};
  std::vector<int64_t> sizes(size / chunk, chunk);
  if (size % chunk)
    sizes.push_back(size % chunk);
  return sizes;
}

Status importSplit(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  KERF_TRY(given, node.integersFrom(1, "split"));
  int64_t size = x.shape[axis], count = node.integer("num_outputs", node.outputCount());
  if (!given && (count < 1 || count > std::max<int64_t>(size, 1)))
    return Error{fmt::format("{} pieces do not fit dimension {} of size {}", count, axis, size)};
  KERF_TRY(sizes, given ? Result(*given) : chunks(size, std::max<int64_t>((size + count - 1) / count, 1)));
  if (int(sizes.size()) != node.outputCount())
    return Error{fmt::format("there are {} pieces, but {} outputs", sizes.size(), node.outputCount())};
  KERF_TRY(parts, pieces(node, x, axis, sizes));
  for (size_t i = 0; i < parts.size(); ++i)
    KERF_CHECK(node.set(int(i), parts[i]));
  return ok();
}

Status importSplitToSequence(OnnxNode &node) {
  const Term &x = node.input(0);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  int64_t size = x.shape[axis];
  bool hasSplit = node.hasInput(1), isEach = !hasSplit || node.input(1).rank() == 0;
  bool removed = !hasSplit && !node.integer("keepdims", 1);
  std::vector<int64_t> given{1};
  if (hasSplit) {
    KERF_TRY(split, node.constantInput(1));
    given = split;
  }
  if (isEach && given[0] < 1)
    return Error{fmt::format("pieces of {} elements are not valid", given[0])};
  KERF_TRY(sizes, isEach ? chunks(size, given[0]) : Result(given));
  KERF_TRY(parts, pieces(node, x, axis, sizes));
  if (removed)
    for (Term &part : parts) {
      Shape shape = part.shape;
      shape.erase(shape.begin() + axis);
      KERF_TRY(flat, node.b.reshape(part, shape));
      part = flat;
    }
  return node.setSequence(0, parts);
}

Status importSequenceAt(OnnxNode &node) {
  const GraphValue &sequence = node.value(0);
  KERF_TRY(at, node.constantInput(1));
  int64_t count = sequence.terms.size();
  if (at.size() != 1)
    return Error{fmt::format("its position is {}, but one number is needed", shapeText(at))};
  KERF_TRY(index, normalizeAxis(at[0], count));
  return node.set(0, sequence.terms[index]);
}

Status importSequenceConstruct(OnnxNode &node) {
  std::vector<Term> terms;
  for (int i = 0; i < node.inputCount(); ++i)
    terms.push_back(node.input(i));
  return node.setSequence(0, terms);
}

Status importSequenceInsert(OnnxNode &node) {
  std::vector<Term> terms = node.value(0).terms;
  int64_t count = int64_t(terms.size()), at = count;
  if (node.hasInput(2)) {
    KERF_TRY(given, node.constantInput(2));
    if (given.size() != 1 || given[0] < -count || given[0] > count)
      return Error{fmt::format("position {} is outside of a sequence of {} tensors", shapeText(given), count)};
    at = given[0] < 0 ? given[0] + count : given[0];
  }
  terms.insert(terms.begin() + at, node.input(1));
  return node.setSequence(0, terms);
}

Status importSequenceErase(OnnxNode &node) {
  std::vector<Term> terms = node.value(0).terms;
  int64_t count = int64_t(terms.size());
  std::vector<int64_t> at{-1};
  if (node.hasInput(1)) {
    KERF_TRY(given, node.constantInput(1));
    at = given;
  }
  if (at.size() != 1 || at[0] < -count || at[0] >= count)
    return Error{fmt::format("position {} is outside of a sequence of {} tensors", shapeText(at), count)};
  terms.erase(terms.begin() + (at[0] < 0 ? at[0] + count : at[0]));
  return node.setSequence(0, terms);
}

Status importSequenceLength(OnnxNode &node) {
  return node.set(0, node.b.integer(DType::I64, int64_t(node.value(0).terms.size())));
}

Status importConcatFromSequence(OnnxNode &node) {
  std::vector<Term> terms = node.value(0).terms;
  bool isNew = node.integer("new_axis", 0) != 0; // whether the tensors are stacked along a new dimension
  if (terms.empty())
    return Error{"an empty sequence cannot be concatenated"};
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), terms[0].rank() + (isNew ? 1 : 0)));
  for (Term &term : terms) {
    if (!isNew)
      continue;
    Shape shape = term.shape;
    shape.insert(shape.begin() + std::min<int64_t>(axis, term.rank()), 1);
    KERF_TRY(apart, node.b.reshape(term, shape));
    term = apart;
  }
  return node.set(0, node.b.concatenate(terms, axis));
}

/// Returns, for each element of a padded dimension, the index of its source inside: the edge, the mirror image, or the
/// other end, by padding mode.
static Result<Term> extend(OnnxNode &node, const Term &x, int64_t dim, int64_t before, int64_t behind,
                           const std::string &mode) {
  constexpr int64_t kMost = 1 << 26; // limit of padded elements, each of which is looked up
  int64_t size = x.shape[dim];
  if (before == 0 && behind == size)
    return x;
  if (size == 0 && behind + before > 0)
    return Error{fmt::format("dimension {} has no element to extend", dim)};
  if (behind + before > kMost)
    return Error{fmt::format("mode '{}' adds {} elements to dimension {} of {} elements, but at most {} are possible",
                             mode, behind + before, dim, size, kMost)};
  std::vector<int64_t> at;
  for (int64_t i = -before; i < behind; ++i) {
    int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * (size - 1), 1),
            place = (i % period + period) % period;
    at.push_back(mode == "edge" ? std::clamp<int64_t>(i, 0, size - 1) : place < size ? place : period - place);
  }
  return takeAlong(node, x, at, dim);
}

Status importPad(OnnxNode &node) {
  Term x = node.input(0);
  std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return Error{fmt::format("mode '{}' is not supported", mode)};
  KERF_TRY(pads, node.constantInput(1));
  std::vector<int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.hasInput(3)) {
    KERF_TRY(given, node.constantInput(3));
    KERF_CHECK(sortedAxes(given, x.rank()));
    axes = given;
  }
  if (pads.size() != 2 * axes.size())
    return Error{
        fmt::format("{} pads are given for {} axes, but two for each axis are needed", pads.size(), axes.size())};
  Shape low(x.rank(), 0), high(x.rank(), 0), start(x.rank(), 0), limit = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t d = axes[i] < 0 ? axes[i] + x.rank() : axes[i], before = pads[i], after = pads[axes.size() + i],
            size = x.shape[d];
    constexpr int64_t kMost = int64_t(1) << 40; // limit of padding; real models have far less
    if (before < -size || after < -size || before > kMost || after > kMost ||
        std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) < -size)
      return Error{fmt::format("pads {} and {} do not fit dimension {} of size {}", before, after, d, size)};
    low[d] = std::max<int64_t>(before, 0);
    high[d] = std::max<int64_t>(after, 0);
    start[d] = std::max<int64_t>(-before, 0);
    limit[d] = size - std::max<int64_t>(-after, 0);
  }
  if (mode != "constant") {
    for (int64_t d = 0; d < x.rank(); ++d) {
      KERF_TRY(extended, extend(node, x, d, low[d] - start[d], limit[d] + high[d], mode));
      x = extended;
    }
    return node.set(0, x);
  }
  KERF_TRY(kept, node.b.slice(x, start, limit, Shape(x.rank(), 1)));
  Term value = node.hasInput(2) ? node.input(2) : node.b.integer(x.dtype, 0);
  return node.set(0, node.b.pad(kept, value, low, high));
}

Status importCenterCropPad(OnnxNode &node) {
  Term x = node.input(0);
  KERF_TRY(wanted, node.constantInput(1));
  std::vector<int64_t> axes = node.integers("axes");
  if (!node.has("axes")) {
    axes.resize(size_t(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  KERF_CHECK(sortedAxes(axes, x.rank()));
  if (wanted.size() != axes.size())
    return Error{fmt::format("{} sizes are given for {} axes", wanted.size(), axes.size())};
  Shape shape = x.shape, start(x.rank(), 0), limit = x.shape, low(x.rank(), 0), high(x.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i)
    shape[size_t(axes[i] < 0 ? axes[i] + x.rank() : axes[i])] = wanted[i];
  KERF_CHECK(checkShape(shape));
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t less = std::max<int64_t>(x.shape[d] - shape[d], 0), more = std::max<int64_t>(shape[d] - x.shape[d], 0);
    start[d] = less / 2;
    limit[d] = x.shape[d] - (less - less / 2);
    low[d] = more / 2;
    high[d] = more - more / 2;
  }
  KERF_TRY(cropped, node.b.slice(x, start, limit, Shape(x.rank(), 1)));
  return node.set(0, node.b.pad(cropped, node.b.integer(x.dtype, 0), low, high));
}

/// Imports Compress: keeps the slices or elements for which the constant condition is true.
Status importCompress(OnnxNode &node) {
  Term x = node.input(0);
  KERF_TRY(holds, node.constantInput(1));
  int64_t axis = 0;
  if (node.has("axis")) {
    KERF_TRY(given, normalizeAxis(node.integer("axis", 0), x.rank()));
    axis = given;
  } else {
    KERF_TRY(flat, node.b.reshape(x, {elementsOf(x.shape)}));
    x = flat;
  }
  std::vector<int64_t> at;
  for (int64_t i = 0; i < int64_t(holds.size()); ++i)
    if (holds[size_t(i)])
      at.push_back(i);
  if (int64_t size = x.shape[size_t(axis)]; !at.empty() && at.back() >= size)
    return Error{
        fmt::format("its condition selects element {} of dimension {}, which has the size {}", at.back(), axis, size)};
  return node.set(0, takeAlong(node, x, at, axis));
}

/// Recognizes consecutive constant indices, for which a slice replaces the lookup.
static Result<std::optional<Term>> gatherAsSlice(OnnxNode &node, const Term &x, Literal indices, int64_t axis) {
  Literal one = compress(indices);
  Literal kept{one.stored, one.stored.shape};
  KERF_TRY(at, integersOf(kept));
  int64_t size = x.shape[axis];
  for (int64_t &index : at) {
    if (index < -size || index >= size)
      return Error{fmt::format("index {} is outside of dimension {} of size {}", index, axis, size)};
    index += index < 0 ? size : 0;
  }
  for (size_t i = 1; i < at.size(); ++i)
    if (at[i] != at[i - 1] + 1)
      return std::optional<Term>();
  if (at.empty())
    return std::optional<Term>();
  KERF_TRY(box, node.b.slice(x, axis, at.front(), at.back() + 1));
  auto around = [&](const Shape &middle) {
    Shape shape(x.shape.begin(), x.shape.begin() + axis);
    shape.insert(shape.end(), middle.begin(), middle.end());
    shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
    return shape;
  };
  KERF_TRY(shaped, node.b.reshape(box, around(kept.shape)));
  KERF_TRY(result, node.b.broadcast(shaped, around(indices.shape)));
  return std::optional(result);
}

Status importGather(OnnxNode &node) {
  const Term &x = node.input(0), &indices = node.input(1);
  KERF_TRY(axis, normalizeAxis(node.integer("axis", 0), x.rank()));
  if (indices.isConstant() && !x.isConstant()) {
    KERF_TRY(slice, gatherAsSlice(node, x, *indices.literal, axis));
    if (slice)
      return node.set(0, *slice);
    // A lookup of whole rows becomes an embedding, whose indices must not be negative.
    KERF_TRY(isNegative, node.b.compare(Order::Less, indices, node.b.integer(indices.dtype, 0)));
    KERF_TRY(fromEnd, node.b.binary(Binary::Add, indices, node.b.integer(indices.dtype, x.shape[axis])));
    KERF_TRY(fromFront, node.b.select(isNegative, fromEnd, indices));
    return node.set(0, node.b.gather(x, fromFront, axis));
  }
  if (axis == 0) {
    KERF_TRY(picked, takeMergedRows(node.b, x, indices));
    if (picked)
      return node.set(0, *picked);
  }
  return node.set(0, node.b.gather(x, indices, axis));
}

} // namespace kerf::frontend
