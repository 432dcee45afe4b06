// SPDX-License-Identifier: Apache-2.0
// Imports operators that sum over dimensions: products, reductions, Einsum and Fourier transforms.
#include "Common/Formula.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <numeric>

namespace kerf::frontend {

static std::vector<int64_t> upTo(int64_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

/// Multiplies two tensors with at least two dimensions each.
static Result<Term> matrixProduct(TermBuilder &b, const Term &x, const Term &y) {
  Shape yBatch(y.shape.begin(), y.shape.end() - 2);
  // If one matrix multiplies all of x, the leading dimensions of x stay free dimensions instead of batch dimensions.
  if (elementsOf(yBatch) == 1 && y.rank() <= x.rank()) {
    KERF_TRY(matrix, b.reshape(y, {y.shape[y.rank() - 2], y.shape[y.rank() - 1]}));
    return b.dot(x, {{}, {x.rank() - 1}}, matrix, {{}, {0}});
  }
  KERF_TRY(batch, broadcastShapes(Shape(x.shape.begin(), x.shape.end() - 2), yBatch));
  auto whole = [&](const Term &term) {
    Shape shape = batch;
    shape.insert(shape.end(), term.shape.end() - 2, term.shape.end());
    return b.broadcast(term, shape);
  };
  KERF_TRY(left, whole(x));
  KERF_TRY(right, whole(y));
  int64_t rank = left.rank();
  return b.dot(left, {upTo(rank - 2), {rank - 1}}, right, {upTo(rank - 2), {rank - 2}});
}

Status importMatMul(OnnxNode &node) {
  const Term &x = node.input(0), &y = node.input(1);
  if (x.rank() == 0 || y.rank() == 0)
    return Error{
        fmt::format("operands of shapes {} and {} cannot be multiplied", shapeText(x.shape), shapeText(y.shape))};
  // NumPy's rule: a vector is a row on the left and a column on the right, and the result lacks this dimension.
  Shape row = x.shape, column = y.shape;
  if (x.rank() == 1)
    row.insert(row.begin(), 1);
  if (y.rank() == 1)
    column.push_back(1);
  KERF_TRY(left, node.b.reshape(x, row));
  KERF_TRY(right, node.b.reshape(y, column));
  KERF_TRY(product, matrixProduct(node.b, left, right));
  Shape shape = product.shape;
  if (y.rank() == 1)
    shape.pop_back();
  if (x.rank() == 1)
    shape.erase(shape.end() - (y.rank() == 1 ? 1 : 2));
  return node.set(0, node.b.reshape(product, shape));
}

Status importGemm(OnnxNode &node) {
  const Term &x = node.input(0), &y = node.input(1);
  if (x.rank() != 2 || y.rank() != 2)
    return Error{fmt::format("the operands have the shapes {} and {}, but matrices are needed", shapeText(x.shape),
                             shapeText(y.shape))};
  TermBuilder &b = node.b;
  int64_t inner = node.integer("transA", 0) ? 0 : 1, outer = node.integer("transB", 0) ? 1 : 0;
  KERF_TRY(product, b.dot(x, {{}, {inner}}, y, {{}, {outer}}));
  auto scaled = [&](const Term &term, double factor) -> Result<Term> {
    return factor == 1 ? Result<Term>(term) : b.binary(Binary::Multiply, term, b.scalar(term.dtype, factor));
  };
  KERF_TRY(result, scaled(product, node.number("alpha", 1)));
  double beta = node.number("beta", 1);
  if (!node.hasInput(2) || beta == 0)
    return node.set(0, result);
  KERF_TRY(bias, scaled(node.input(2), beta));
  KERF_TRY(shape, broadcastShapes(bias.shape, result.shape));
  if (shape != result.shape)
    return Error{fmt::format("a bias of shape {} does not broadcast to a product of shape {}", shapeText(bias.shape),
                             shapeText(result.shape))};
  return node.set(0, b.binary(Binary::Add, result, bias));
}

/// Returns the product over `dims`, which the result lacks, by multiplying halves until one element is left.
static Term productOver(Formula &f, Term x, const std::vector<int64_t> &dims) {
  for (size_t i = dims.size(); i-- > 0 && !f.fault;) {
    int64_t dim = dims[i];
    Shape shape = x.shape;
    shape.erase(shape.begin() + dim);
    if (x.shape[dim] == 0) {
      x = f.broadcast(f.b.integer(x.dtype, 1), shape);
      continue;
    }
    for (int64_t size = x.shape[dim]; size > 1 && !f.fault; size = x.shape[dim]) {
      int64_t half = size / 2;
      Term folded = f.multiply(f.slice(x, dim, 0, half), f.slice(x, dim, half, 2 * half));
      x = size % 2 ? f.concatenate({folded, f.slice(x, dim, size - 1, size)}, dim) : folded;
    }
    x = f.reshape(x, shape);
  }
  return x;
}

Status importReduce(OnnxNode &node) {
  const Term &x = node.input(0);
  const std::string &op = node.opType();
  Formula f(node.b, x.dtype);
  bool squares = op == "ReduceL2" || op == "ReduceSumSquare";
  KERF_TRY(given, node.integersFrom(1, "axes"));
  std::vector<int64_t> dims = given ? *given : std::vector<int64_t>();
  if (dims.empty() && !node.integer("noop_with_empty_axes", 0))
    dims = upTo(x.rank());
  double count = 1;
  Shape kept = x.shape;
  for (int64_t &dim : dims) {
    KERF_TRY(inside, normalizeAxis(dim, x.rank()));
    dim = inside;
    count *= double(x.shape[dim]);
    kept[dim] = 1;
  }
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    return Error{fmt::format("an axis occurs twice in {}", shapeText(dims))};
  // Each reduction sums a function of the elements and applies a function to the sum.
  Term each = squares ? f.multiply(x, x) : op == "ReduceL1" ? f.unary(Unary::Abs, x) : x;
  Term largest; // subtracted before the exponential, which then cannot overflow
  if (op == "ReduceLogSumExp") {
    KERF_CHECK(checkFloat(x));
    Term most = f.reshape(f.reduce(Reduction::Maximum, x, dims), kept);
    // An infinite maximum is not subtracted, as the result would be NaN.
    Term size = f.unary(Unary::Abs, most);
    largest =
        f.select(f.compare(Order::Less, size, f.number(std::numeric_limits<double>::infinity())), most, f.number(0));
    each = f.unary(Unary::Exponential, f.subtract(x, largest));
  }
  Reduction kind = op == "ReduceMax" ? Reduction::Maximum : op == "ReduceMin" ? Reduction::Minimum : Reduction::Sum;
  Term result = op == "ReduceProd" ? productOver(f, each, dims) : f.reduce(kind, each, dims);
  if (op == "ReduceMean")
    result = f.divide(result, isFloat(x.dtype) ? f.number(count) : node.b.integer(x.dtype, int64_t(count)));
  if (op == "ReduceL2")
    result = f.unary(Unary::Sqrt, result);
  if (op == "ReduceLogSum")
    result = f.unary(Unary::Log, result);
  if (op == "ReduceLogSumExp")
    result = f.add(f.unary(Unary::Log, result), f.reshape(largest, result.shape));
  return f.set(node, 0, node.integer("keepdims", 1) ? f.reshape(result, kept) : result);
}

namespace {

/// Returns the letters of one operand of an equation. The dimensions of "...", which broadcast, become digits.
Result<std::string> lettersOf(std::string_view text, int64_t rank, int64_t ellipsis) {
  std::string letters;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      for (int64_t d = 0; d < ellipsis; ++d)
        letters += char('0' + d);
      i += 2;
    } else {
      letters += text[i];
    }
  }
  if (rank >= 0 && int64_t(letters.size()) != rank)
    return Error{fmt::format("'{}' names {} dimensions, but the operand has the rank {}", text, letters.size(), rank)};
  return letters;
}

/// Returns the operand with each letter once; a repeated letter takes the diagonal.
Result<Term> diagonals(TermBuilder &b, Term x, std::string &letters) {
  for (size_t d = 0; d < letters.size(); ++d)
    for (size_t e = d + 1; e < letters.size(); ++e) {
      if (letters[e] != letters[d])
        continue;
      int64_t size = x.shape[d];
      if (x.shape[e] != size)
        return Error{
            fmt::format("the letter '{}' has the sizes {} and {}, which must be equal", letters[d], size, x.shape[e])};
      // Elements off the diagonal become zero, and one of the two dimensions is summed.
      Formula f(b, x.dtype);
      Shape rows(x.rank(), 1), columns(x.rank(), 1);
      rows[d] = columns[e] = size;
      std::vector<int64_t> counted = upTo(size);
      Term at = b.fromLiteral(indexLiteral(counted));
      Term isDiagonal = f.compare(Order::Equal, f.reshape(at, rows), f.reshape(at, columns));
      x = f.reduce(Reduction::Sum, f.select(isDiagonal, x, f.number(0)), {int64_t(e)});
      if (f.fault)
        return *f.fault;
      letters.erase(e--, 1);
    }
  return x;
}

struct Lettered {
  Term term;
  std::string letters;
};

/// Sums the dimensions whose letters neither the result nor another operand has.
Result<Lettered> withoutOwn(TermBuilder &b, Lettered x, const std::string &others) {
  std::vector<int64_t> dims;
  std::string kept;
  for (size_t d = 0; d < x.letters.size(); ++d)
    if (others.find(x.letters[d]) == std::string::npos)
      dims.push_back(int64_t(d));
    else
      kept += x.letters[d];
  KERF_TRY(term, b.reduce(Reduction::Sum, x.term, dims));
  return Lettered{term, kept};
}

/// Multiplies two operands and keeps the letters in `kept`.
Result<Lettered> product(TermBuilder &b, const Lettered &x, const Lettered &y, const std::string &kept) {
  TermBuilder::Dims left, right;
  std::string letters, leftFree, rightFree;
  Lettered wide[] = {x, y};
  // A dimension of size 1 broadcasts.
  for (size_t i : {0, 1})
    for (size_t d = 0; d < wide[i].letters.size(); ++d) {
      const Lettered &other = wide[1 - i];
      size_t at = other.letters.find(wide[i].letters[d]);
      if (at == std::string::npos || wide[i].term.shape[d] != 1 || other.term.shape[at] == 1)
        continue;
      Shape shape = wide[i].term.shape;
      shape[d] = other.term.shape[at];
      KERF_TRY(copied, b.broadcast(wide[i].term, shape));
      wide[i].term = copied;
    }
  for (size_t d = 0; d < x.letters.size(); ++d) {
    char letter = x.letters[d];
    size_t at = y.letters.find(letter);
    bool isKept = kept.find(letter) != std::string::npos;
    if (at == std::string::npos) {
      leftFree += letter;
      continue;
    }
    (isKept ? left.batching : left.contracting).push_back(int64_t(d));
    (isKept ? right.batching : right.contracting).push_back(int64_t(at));
    if (isKept)
      letters += letter;
  }
  for (char letter : y.letters)
    if (x.letters.find(letter) == std::string::npos)
      rightFree += letter;
  KERF_TRY(term, b.dot(wide[0].term, left, wide[1].term, right));
  return Lettered{term, letters + leftFree + rightFree};
}

} // namespace

Status importEinsum(OnnxNode &node) {
  std::string equation;
  for (char c : node.text("equation", ""))
    if (c != ' ')
      equation += c;
  size_t arrow = equation.find("->");
  std::string inputs = equation.substr(0, arrow);
  std::vector<std::string> parts(1);
  for (char c : inputs)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  if (int(parts.size()) != node.inputCount())
    return Error{
        fmt::format("equation '{}' has {} operands, but the node has {}", equation, parts.size(), node.inputCount())};
  int64_t ellipsis = 0;
  std::map<char, int> uses;
  std::vector<Lettered> operands;
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t dots = parts[i].find("...");
    for (size_t c = 0; c < parts[i].size(); ++c)
      if (!std::isalpha(static_cast<unsigned char>(parts[i][c])) && (c < dots || c >= dots + 3))
        return Error{fmt::format("equation '{}' has the invalid character '{}'", equation, parts[i][c])};
    int64_t own = dots == std::string::npos ? 0 : node.input(int(i)).rank() - (int64_t(parts[i].size()) - 3);
    if (own < 0 || (i > 0 && dots != std::string::npos && ellipsis != 0 && own != ellipsis))
      return Error{fmt::format("'...' of equation '{}' stands for {} dimensions of operand {}", equation, own, i)};
    ellipsis = std::max(ellipsis, own);
    KERF_TRY(letters, lettersOf(parts[i], node.input(int(i)).rank(), own));
    KERF_TRY(term, diagonals(node.b, node.input(int(i)), letters));
    for (char letter : letters)
      ++uses[letter];
    operands.push_back({term, letters});
  }
  std::string wanted;
  if (arrow != std::string::npos) {
    KERF_TRY(letters, lettersOf(std::string_view(equation).substr(arrow + 2), -1, ellipsis));
    wanted = letters;
  } else { // NumPy's rule for a missing result: broadcast dimensions, then letters that occur once, in alphabetical
           // order
    for (auto [letter, count] : uses)
      if (count == 1 || std::isdigit(static_cast<unsigned char>(letter)))
        wanted += letter;
  }
  for (char letter : wanted)
    if (!uses.count(letter) || std::count(wanted.begin(), wanted.end(), letter) > 1)
      return Error{
          fmt::format("equation '{}': the letter '{}' of the result occurs in no operand or twice in the result",
                      equation, letter)};
  Lettered result = operands[0];
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string others = wanted;
    for (size_t j = i + 1; j < operands.size(); ++j)
      others += operands[j].letters;
    if (i > 0) {
      KERF_TRY(own, withoutOwn(node.b, operands[i], others + result.letters));
      KERF_TRY(both, product(node.b, result, own, others));
      result = both;
    }
    KERF_TRY(summed, withoutOwn(node.b, result, others));
    result = summed;
  }
  std::vector<int64_t> order;
  for (char letter : wanted)
    order.push_back(int64_t(result.letters.find(letter)));
  return node.set(0, node.b.transpose(result.term, order));
}

namespace {

/// Returns the matrix of a discrete Fourier transform with the shape [rows, parts, length, parts of the result], where
/// parts are real and imaginary. With `isHalf` the signal is real, and the second half of its transform mirrors the
/// first.
Result<Term> fourierMatrix(TermBuilder &b, int64_t rows, int64_t parts, int64_t length, bool isInverse, bool isHalf) {
  constexpr int64_t kMost = int64_t(1) << 24; // 4096 by 4096
  bool isReal = isInverse && isHalf;
  int64_t places = isHalf && !isInverse ? length / 2 + 1 : length, made = isReal ? 1 : 2;
  if (rows > kMost / length)
    return Error{
        fmt::format("a transform of {} elements to {} needs a matrix of more than {} elements, which is too large",
                    rows, length, kMost)};
  KERF_TRY(fresh, allocateLiteral(DType::F64, {rows, parts, places, made}));
  double *to = fresh.as<double>(), turn = (isInverse ? 2 : -2) * std::acos(-1.0) / double(length);
  for (int64_t j = 0; j < rows; ++j) {
    bool isMirrored = isReal && j != 0 && 2 * j != length;
    double scale = isInverse ? (isMirrored ? 2.0 : 1.0) / double(length) : 1;
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t k = 0; k < places; ++k) {
        double angle = turn * double(j * k % length);
        double real = scale * std::cos(angle), imaginary = scale * std::sin(angle);
        *to++ = part == 0 ? real : -imaginary;
        if (made == 2)
          *to++ = part == 0 ? imaginary : real;
      }
  }
  return b.fromLiteral(fresh.literal);
}

} // namespace

Status importDft(OnnxNode &node) {
  constexpr int kLength = 1, kAxis = 2;
  const Term &x = node.input(0);
  KERF_CHECK(checkFloat(x));
  int64_t parts = x.rank() ? x.shape.back() : 0;
  if (x.rank() < 2 || (parts != 1 && parts != 2))
    return Error{fmt::format(
        "an operand has the shape {}, but its last dimension must have size 1 or 2: the real and the imaginary part",
        shapeText(x.shape))};
  int64_t axis = node.integer("axis", node.opset() < 20 ? 1 : -2);
  if (node.hasInput(kAxis)) {
    KERF_TRY(given, node.constantInput(kAxis));
    axis = given.size() == 1 ? given[0] : x.rank();
  }
  KERF_TRY(along, normalizeAxis(axis, x.rank()));
  if (along == x.rank() - 1)
    return Error{
        fmt::format("axis {} is the dimension of the real and imaginary parts and cannot be transformed", axis)};
  bool isInverse = node.integer("inverse", 0) != 0, isHalf = node.integer("onesided", 0) != 0;
  if (isHalf && !isInverse && parts == 2)
    return Error{"onesided is set for complex numbers, whose transform has no mirrored half"};
  int64_t size = x.shape[size_t(along)], length = isInverse && isHalf ? 2 * (size - 1) : size;
  if (node.hasInput(kLength)) {
    KERF_TRY(given, node.constantInput(kLength));
    length = given.size() == 1 ? given[0] : 0;
  }
  if (length < 1)
    return Error{fmt::format("a transform of {} elements to {} is not supported", size, length)};
  int64_t rows = std::min(size, isInverse && isHalf ? length / 2 + 1 : length); // missing rows are zeros
  KERF_TRY(matrix, fourierMatrix(node.b, rows, parts, length, isInverse, isHalf));
  Formula f(node.b, x.dtype);
  Term signal = f.slice(x, along, 0, rows), weights = f.convert(matrix, x.dtype);
  if (f.fault)
    return *f.fault;
  Term product = f.unwrap(node.b.dot(signal, {{}, {along, x.rank() - 1}}, weights, {{}, {0, 1}}));
  std::vector<int64_t> order = upTo(x.rank());
  order.erase(order.end() - 2);
  order.insert(order.begin() + along, x.rank() - 2);
  return f.set(node, 0, f.transpose(product, order));
}

} // namespace kerf::frontend
