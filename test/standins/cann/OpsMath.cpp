// SPDX-License-Identifier: Apache-2.0
// The stand-in of libopapi_math.so: single elements, reductions, layout and sorting. The rules are those of the
// operators' pages.
#include "Tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kerf::standin::cann {

namespace {
/// Checks and makes an operator on single elements with one operand.
template <typename F>
int unary(const char *name, const aclTensor *x, const aclTensor *y, uint32_t types, uint64_t *workspace,
          aclOpExecutor **executor, F f) {
  Check check(name);
  check.tensor(x, types);
  check.result(y, types);
  if (check.code)
    return check.code;
  check.same(x, y);
  check.sizes(y, x->sizes);
  return check.executor(workspace, executor, [x = *x, y = *y, f] {
    std::vector<double> values = load(x);
    for (double &value : values)
      value = f(value);
    store(y, values);
  });
}

enum class Result { Same, Bool };
/// Checks and makes an operator on single elements with two operands, which are repeated to the same sizes.
template <typename F>
int binary(const char *name, const aclTensor *x, const aclTensor *y, const aclTensor *z, uint32_t types, Result result,
           uint64_t *workspace, aclOpExecutor **executor, F f) {
  Check check(name);
  check.tensor(x, types);
  check.tensor(y, types);
  check.result(z, result == Result::Bool ? bitOf(Bool) : types);
  if (check.code)
    return check.code;
  check.same(x, y);
  if (result == Result::Same)
    check.same(x, z);
  check.sizes(z, check.broadcast(x->sizes, y->sizes));
  return check.executor(workspace, executor, [x = *x, y = *y, z = *z, f] {
    std::vector<double> a = load(x, z.sizes), b = load(y, z.sizes);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = f(a[i], b[i]);
    store(z, a);
  });
}
/// Integers of 64 bits that do not fit into a double are not computed exactly: tests keep to smaller ones.
double wrapped(int type, double value) {
  if (type == I32)
    return double(int32_t(uint64_t(int64_t(value))));
  return value;
}
double sum(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : a + b; }

/// Reduces dimensions: f(accumulator, value), from `start` on.
template <typename F> void reduceTo(const aclTensor &x, const aclTensor &y, const Sizes &dims, double start, F f) {
  std::vector<double> values = load(x);
  Sizes strides(x.sizes.size(), 0);
  int64_t stride = 1;
  for (size_t d = x.sizes.size(); d-- > 0;)
    if (std::find(dims.begin(), dims.end(), int64_t(d)) == dims.end())
      strides[d] = stride, stride *= x.sizes[d];
  std::vector<double> results(static_cast<size_t>(stride), start);
  Sizes index(x.sizes.size(), 0);
  size_t at = 0;
  for (double value : values) {
    results[at] = f(results[at], value);
    for (size_t d = x.sizes.size(); d-- > 0;) {
      at += size_t(strides[d]);
      if (++index[d] < x.sizes[d])
        break;
      at -= size_t(strides[d] * x.sizes[d]);
      index[d] = 0;
    }
  }
  store(y, results);
}

template <typename F>
int reduction(const char *name, const aclTensor *x, const aclIntArray *dims, bool keeps, const aclTensor *y,
              uint32_t from, uint32_t to, uint64_t *workspace, aclOpExecutor **executor, double start, F f) {
  Check check(name);
  check.tensor(x, from);
  check.result(y, to);
  if (check.code || !dims)
    return check.code ? check.code : kNullPointer;
  Sizes sizes, all;
  for (int64_t dim : dims->values)
    all.push_back(int64_t(dimOf(dim, x->sizes)));
  for (size_t d = 0; d < x->sizes.size(); ++d)
    if (bool isReduced = std::count(all.begin(), all.end(), int64_t(d)) > 0; !isReduced || keeps)
      sizes.push_back(isReduced ? 1 : x->sizes[d]);
  check.sizes(y, sizes);
  return check.executor(workspace, executor, [x = *x, y = *y, all, start, f] { reduceTo(x, y, all, start, f); });
}
} // namespace

#define KERF_UNARY(name, types, ...)                                                                                   \
  KERF_OPERATOR(name, const aclTensor *self, aclTensor *out) {                                                         \
    return unary(#name, self, out, types, workspace, executor, [](double x) -> double { return __VA_ARGS__; });        \
  }
constexpr uint32_t kReals = kFloats | bitOf(F64), kSigned = kReals | (kIntegers & ~bitOf(U8));
KERF_UNARY(aclnnNeg, kSigned, -x)
KERF_UNARY(aclnnAbs, kNumbers, std::fabs(x))
KERF_UNARY(aclnnSign, kNumbers, std::isnan(x) ? NAN : double((x > 0) - (x < 0)))
KERF_UNARY(aclnnExp, kReals, std::exp(x))
KERF_UNARY(aclnnLog, kReals, std::log(x))
KERF_UNARY(aclnnSqrt, kReals, std::sqrt(x))
KERF_UNARY(aclnnRsqrt, kReals, 1 / std::sqrt(x))
KERF_UNARY(aclnnTanh, kReals, std::tanh(x))
KERF_UNARY(aclnnSigmoid, kReals, 1 / (1 + std::exp(-x)))
KERF_UNARY(aclnnErf, kReals, std::erf(x))
KERF_UNARY(aclnnSin, kReals, std::sin(x))
KERF_UNARY(aclnnCos, kReals, std::cos(x))
KERF_UNARY(aclnnAtan, kReals, std::atan(x))
KERF_UNARY(aclnnFloor, kReals | kIntegers, std::floor(x))
KERF_UNARY(aclnnCeil, kReals | kIntegers, std::ceil(x))
KERF_UNARY(aclnnRound, kReals | kIntegers, std::nearbyint(x))
KERF_UNARY(aclnnBitwiseNot, kIntegers & ~bitOf(U8), -x - 1)
KERF_UNARY(aclnnLogicalNot, bitOf(Bool), double(x == 0))

#define KERF_BINARY(name, types, result, ...)                                                                          \
  KERF_OPERATOR(name, const aclTensor *self, const aclTensor *other, aclTensor *out) {                                 \
    const int type = self ? self->type : 0;                                                                            \
    return binary(#name, self, other, out, types, Result::result, workspace, executor,                                 \
                  [type](double x, double y) -> double { return wrapped(type, __VA_ARGS__); });                        \
  }
KERF_BINARY(aclnnMul, kNumbers, Same, x *y)
KERF_BINARY(aclnnDiv, kReals, Same, x / y)
KERF_BINARY(aclnnMaximum, kNumbers, Same, std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y))
KERF_BINARY(aclnnMinimum, kNumbers, Same, std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y))
KERF_BINARY(aclnnPowTensorTensor, kReals | kIntegers, Same, std::pow(x, y))
KERF_BINARY(aclnnBitwiseAndTensor, kIntegers | bitOf(Bool), Same, double(int64_t(x) & int64_t(y)))
KERF_BINARY(aclnnBitwiseOrTensor, kIntegers | bitOf(Bool), Same, double(int64_t(x) | int64_t(y)))
KERF_BINARY(aclnnLogicalAnd, bitOf(Bool), Same, double(x != 0 && y != 0))
KERF_BINARY(aclnnLogicalOr, bitOf(Bool), Same, double(x != 0 || y != 0))
KERF_BINARY(aclnnEqTensor, kNumbers, Bool, double(x == y))
KERF_BINARY(aclnnNeTensor, kNumbers, Bool, double(x != y))
KERF_BINARY(aclnnLtTensor, kNumbers, Bool, double(x < y))
KERF_BINARY(aclnnLeTensor, kNumbers, Bool, double(x <= y))
KERF_BINARY(aclnnGtTensor, kNumbers, Bool, double(x > y))
KERF_BINARY(aclnnGeTensor, kNumbers, Bool, double(x >= y))

KERF_OPERATOR(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out) {
  const double factor = alpha ? alpha->number : 1;
  const int type = self ? self->type : 0;
  return binary("aclnnAdd", self, other, out, kNumbers, Result::Same, workspace, executor,
                [factor, type](double x, double y) { return wrapped(type, sum(x, factor * y)); });
}
KERF_OPERATOR(aclnnSub, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out) {
  const double factor = alpha ? alpha->number : 1;
  const int type = self ? self->type : 0;
  return binary("aclnnSub", self, other, out, kNumbers & ~bitOf(Bool), Result::Same, workspace, executor,
                [factor, type](double x, double y) { return wrapped(type, x - factor * y); });
}
KERF_OPERATOR(aclnnAdds, const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out) {
  const double added = other && alpha ? other->number * alpha->number : 0;
  return unary("aclnnAdds", self, out, kNumbers, workspace, executor, [added](double x) { return x + added; });
}
KERF_OPERATOR(aclnnMuls, const aclTensor *self, const aclScalar *other, aclTensor *out) {
  const double factor = other ? other->number : 0;
  return unary("aclnnMuls", self, out, kNumbers, workspace, executor, [factor](double x) { return x * factor; });
}
KERF_OPERATOR(aclnnDivMod, const aclTensor *self, const aclTensor *other, int rounding, aclTensor *out) {
  return binary("aclnnDivMod", self, other, out, kReals | kIntegers, Result::Same, workspace, executor,
                [rounding](double x, double y) {
                  return rounding == 1 ? std::trunc(x / y) : rounding == 2 ? std::floor(x / y) : x / y;
                });
}
KERF_OPERATOR(aclnnClamp, const aclTensor *self, const aclScalar *low, const aclScalar *high, aclTensor *out) {
  const double least = low ? low->number : -INFINITY, most = high ? high->number : INFINITY;
  return unary("aclnnClamp", self, out, kNumbers & ~bitOf(Bool), workspace, executor,
               [least, most](double x) { return std::min(std::max(x, least), most); });
}

KERF_OPERATOR(aclnnGtScalar, const aclTensor *self, const aclScalar *other, aclTensor *out) {
  Check check("aclnnGtScalar");
  check.tensor(self, kNumbers);
  check.scalar(other);
  check.result(out, bitOf(Bool));
  if (check.code)
    return check.code;
  check.sizes(out, self->sizes);
  return check.executor(workspace, executor, [x = *self, limit = other->number, y = *out] {
    std::vector<double> values = load(x);
    for (double &value : values)
      value = value > limit;
    store(y, values);
  });
}
KERF_OPERATOR(aclnnIsFinite, const aclTensor *self, aclTensor *out) {
  Check check("aclnnIsFinite");
  check.tensor(self, kNumbers);
  check.result(out, bitOf(Bool));
  if (check.code)
    return check.code;
  check.sizes(out, self->sizes);
  return check.executor(workspace, executor, [x = *self, y = *out] {
    std::vector<double> values = load(x);
    for (double &value : values)
      value = std::isfinite(value);
    store(y, values);
  });
}
KERF_OPERATOR(aclnnSWhere, const aclTensor *condition, const aclTensor *self, const aclTensor *other, aclTensor *out) {
  Check check("aclnnSWhere");
  check.tensor(condition, bitOf(Bool));
  check.tensor(self, kNumbers);
  check.tensor(other, kNumbers);
  check.result(out, kNumbers);
  if (check.code)
    return check.code;
  check.same(self, other);
  check.same(self, out);
  check.sizes(out, check.broadcast(condition->sizes, check.broadcast(self->sizes, other->sizes)));
  return check.executor(workspace, executor, [c = *condition, x = *self, y = *other, z = *out] {
    std::vector<double> chosen = load(c, z.sizes), a = load(x, z.sizes), b = load(y, z.sizes);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = chosen[i] != 0 ? a[i] : b[i];
    store(z, a);
  });
}
KERF_OPERATOR(aclnnInplaceMaskedFillScalar, aclTensor *self, const aclTensor *mask, const aclScalar *value) {
  Check check("aclnnInplaceMaskedFillScalar");
  check.result(self, kNumbers);
  check.tensor(mask, bitOf(Bool));
  check.scalar(value);
  if (check.code)
    return check.code;
  check.sizes(self, check.broadcast(self->sizes, mask->sizes));
  return check.executor(workspace, executor, [x = *self, m = *mask, number = value->number] {
    std::vector<double> values = load(x), chosen = load(m, x.sizes);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = chosen[i] != 0 ? number : values[i];
    store(x, values);
  });
}
KERF_OPERATOR(aclnnInplaceFillScalar, aclTensor *self, const aclScalar *value) {
  Check check("aclnnInplaceFillScalar");
  check.result(self, kNumbers);
  check.scalar(value);
  if (check.code)
    return check.code;
  return check.executor(workspace, executor, [x = *self, number = value->number] {
    store(x, std::vector<double>(size_t(x.elements()), number));
  });
}
KERF_OPERATOR(aclnnInplaceZero, aclTensor *self) {
  Check check("aclnnInplaceZero");
  check.result(self, kNumbers);
  if (check.code)
    return check.code;
  return check.executor(workspace, executor, [x = *self] { store(x, std::vector<double>(size_t(x.elements()), 0)); });
}
KERF_OPERATOR(aclnnArange, const aclScalar *start, const aclScalar *end, const aclScalar *step, aclTensor *out) {
  Check check("aclnnArange");
  check.result(out, kReals | kIndices | bitOf(I16));
  for (const aclScalar *one : {start, end, step})
    check.scalar(one);
  if (check.code)
    return check.code;
  check.sizes(out, {int64_t(std::ceil((end->number - start->number) / step->number))});
  return check.executor(workspace, executor, [first = start->number, by = step->number, y = *out] {
    std::vector<double> values(static_cast<size_t>(y.elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = first + double(i) * by;
    store(y, values);
  });
}
KERF_OPERATOR(aclnnInplaceCopy, aclTensor *self, const aclTensor *source) {
  Check check("aclnnInplaceCopy");
  check.result(self, kNumbers);
  check.tensor(source, kNumbers);
  if (check.code)
    return check.code;
  check.same(self, source);
  check.sizes(self, check.broadcast(self->sizes, source->sizes));
  check.rule(self->data != source->data || self->strides != source->strides, "copy", "source and target are the same");
  return check.executor(workspace, executor, [to = *self, from = *source] { copyBits(from, to); });
}
KERF_OPERATOR(aclnnCast, const aclTensor *self, int type, aclTensor *out) {
  Check check("aclnnCast");
  check.tensor(self, kNumbers);
  check.result(out, kNumbers);
  if (check.code)
    return check.code;
  check.rule(out->type == type, "dtype", "the result has not the type that is asked for");
  check.sizes(out, self->sizes);
  return check.executor(workspace, executor, [x = *self, y = *out] {
    std::vector<double> values = load(x);
    const bool toInteger = bitOf(y.type) & kIntegers;
    for (double &value : values)
      value = toInteger ? std::trunc(value) : value;
    store(y, values);
  });
}

KERF_OPERATOR(aclnnReduceSum, const aclTensor *self, const aclIntArray *dims, bool keeps, int type, aclTensor *out) {
  if (out && out->type != type)
    return fail(kBadParameter, "dtype", "aclnnReduceSum: the result has not the type that is asked for");
  return reduction("aclnnReduceSum", self, dims, keeps, out, kReals | kIndices, kReals | kIndices, workspace, executor,
                   0, [](double a, double b) { return a + b; });
}
KERF_OPERATOR(aclnnAmax, const aclTensor *self, const aclIntArray *dims, bool keeps, aclTensor *out) {
  return reduction("aclnnAmax", self, dims, keeps, out, kNumbers, kNumbers, workspace, executor, -INFINITY,
                   [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); });
}
KERF_OPERATOR(aclnnAmin, const aclTensor *self, const aclIntArray *dims, bool keeps, aclTensor *out) {
  return reduction("aclnnAmin", self, dims, keeps, out, kNumbers, kNumbers, workspace, executor, INFINITY,
                   [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); });
}
KERF_OPERATOR(aclnnAny, const aclTensor *self, const aclIntArray *dims, bool keeps, aclTensor *out) {
  return reduction("aclnnAny", self, dims, keeps, out, bitOf(Bool), bitOf(Bool), workspace, executor, 0,
                   [](double a, double b) { return double(a != 0 || b != 0); });
}
KERF_OPERATOR(aclnnAll, const aclTensor *self, const aclIntArray *dims, bool keeps, aclTensor *out) {
  return reduction("aclnnAll", self, dims, keeps, out, bitOf(Bool), bitOf(Bool), workspace, executor, 1,
                   [](double a, double b) { return double(a != 0 && b != 0); });
}
KERF_OPERATOR(aclnnLogSumExp, const aclTensor *self, const aclIntArray *dims, bool keeps, aclTensor *out) {
  // Pairs of (maximum, sum) would need two accumulators: rows are few, so that adding logarithms is good enough.
  return reduction("aclnnLogSumExp", self, dims, keeps, out, kFloats, kFloats, workspace, executor, -INFINITY,
                   [](double a, double b) {
                     double most = std::max(a, b);
                     return std::isinf(most) && most < 0 ? most : most + std::log1p(std::exp(std::min(a, b) - most));
                   });
}
KERF_OPERATOR(aclnnCumsum, const aclTensor *self, int64_t dim, int type, aclTensor *out) {
  Check check("aclnnCumsum");
  check.tensor(self, kReals | kIndices);
  check.result(out, kReals | kIndices);
  if (check.code)
    return check.code;
  check.rule(out->type == type, "dtype", "the result has not the type that is asked for");
  check.sizes(out, self->sizes);
  return check.executor(workspace, executor, [x = *self, y = *out, d = dimOf(dim, self->sizes)] {
    std::vector<double> values = load(x);
    const auto inner = size_t(product(x.sizes, d + 1)), size = size_t(x.sizes[d]);
    for (size_t i = inner; i < values.size(); ++i)
      if (i / inner % size != 0)
        values[i] += values[i - inner];
    store(y, values);
  });
}
KERF_OPERATOR(aclnnSort, const aclTensor *self, bool stable, int64_t dim, bool descending, aclTensor *valuesOut,
              aclTensor *indicesOut) {
  Check check("aclnnSort");
  check.tensor(self, kNumbers & ~bitOf(Bool));
  check.result(valuesOut, kNumbers);
  check.result(indicesOut, bitOf(I64));
  if (check.code)
    return check.code;
  check.same(self, valuesOut);
  check.sizes(valuesOut, self->sizes);
  check.sizes(indicesOut, self->sizes);
  check.rule(dimOf(dim, self->sizes) + 1 == self->sizes.size(), "dimension", "this stand-in sorts the last dimension");
  return check.executor(workspace, executor, [x = *self, v = *valuesOut, o = *indicesOut, stable, descending] {
    std::vector<double> values = load(x), sorted(values.size()), order(values.size());
    const auto size = size_t(x.sizes.back());
    std::vector<size_t> places(size);
    for (size_t row = 0; row < values.size(); row += size) {
      std::iota(places.begin(), places.end(), 0);
      if (!stable) // some other order of equal numbers
        std::reverse(places.begin(), places.end());
      std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
        return descending ? values[row + a] > values[row + b] : values[row + a] < values[row + b];
      });
      for (size_t i = 0; i < size; ++i)
        sorted[row + i] = values[row + places[i]], order[row + i] = double(places[i]);
    }
    store(v, sorted);
    store(o, order);
  });
}

} // namespace kerf::standin::cann
