// SPDX-License-Identifier: Apache-2.0
// The stand-in of libopapi_nn.so: softmax, normalizations, GELU and lookups.
#include "Tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kerf::standin::cann {

namespace {
const aclTensor *constant(aclTensor *tensor) { return tensor; }
} // namespace

namespace {
double gelu(double x, bool byTanh) {
  constexpr double kFactor = 0.79788456080286535588, kCubic = 0.044715;
  return byTanh ? 0.5 * x * (1 + std::tanh(kFactor * (x + kCubic * x * x * x)))
                : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
double geluSlope(double x, bool byTanh) {
  constexpr double kFactor = 0.79788456080286535588, kCubic = 0.044715;
  if (!byTanh)
    return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) * kFactor / 2;
  double t = std::tanh(kFactor * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kFactor * (1 + 3 * kCubic * x * x);
}
} // namespace

namespace {
int geluOf(const char *name, const aclTensor *x, int64_t approximate, aclTensor *y, uint64_t *workspace,
           aclOpExecutor **executor) {
  Check check(name);
  check.tensor(x, kFloats);
  check.result(y, kFloats);
  if (check.code)
    return check.code;
  check.same(x, y);
  check.sizes(y, x->sizes);
  check.rule(approximate == 0 || approximate == 1, "option", "approximate is 0 or 1");
  return check.executor(workspace, executor, [x = *x, y = *y, approximate] {
    std::vector<double> values = load(x);
    for (double &value : values)
      value = gelu(value, approximate == 1);
    store(y, values);
  });
}
int geluGradientOf(const char *name, const aclTensor *gradOutput, const aclTensor *self, const char *approximate,
                   aclTensor *gradInput, uint64_t *workspace, aclOpExecutor **executor) {
  Check check(name);
  for (const aclTensor *one : {gradOutput, self})
    check.tensor(one, kFloats);
  check.result(gradInput, kFloats);
  if (check.code)
    return check.code;
  check.same(self, gradOutput);
  check.same(self, gradInput);
  check.sizes(gradOutput, self->sizes);
  check.sizes(gradInput, self->sizes);
  const bool byTanh = std::strcmp(approximate, "tanh") == 0;
  check.rule(byTanh || std::strcmp(approximate, "none") == 0, "option", "approximate is none or tanh");
  return check.executor(workspace, executor, [dy = *gradOutput, x = *self, dx = *gradInput, byTanh] {
    std::vector<double> values = load(x), given = load(dy);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = given[i] * geluSlope(values[i], byTanh);
    store(dx, values);
  });
}
} // namespace

KERF_OPERATOR(aclnnGelu, const aclTensor *self, aclTensor *out) {
  return geluOf("aclnnGelu", self, 0, out, workspace, executor);
}
KERF_OPERATOR(aclnnGeluV2, const aclTensor *x, int64_t approximate, aclTensor *y) {
  return geluOf("aclnnGeluV2", x, approximate, y, workspace, executor);
}
KERF_OPERATOR(aclnnGeluBackward, const aclTensor *gradOutput, const aclTensor *self, aclTensor *gradInput) {
  return geluGradientOf("aclnnGeluBackward", gradOutput, self, "none", gradInput, workspace, executor);
}
KERF_OPERATOR(aclnnGeluBackwardV2, const aclTensor *gradOutput, const aclTensor *self, char *approximate,
              aclTensor *gradInput) {
  return geluGradientOf("aclnnGeluBackwardV2", gradOutput, self, approximate, gradInput, workspace, executor);
}

namespace {
/// Calls row(first, stride, size) for each row of a dense tensor along a dimension.
template <typename F> void eachRow(const Sizes &sizes, size_t dim, F row) {
  const auto inner = size_t(product(sizes, dim + 1)), size = size_t(sizes[dim]), outer = size_t(product(sizes, 0, dim));
  for (size_t o = 0; o < outer; ++o)
    for (size_t i = 0; i < inner; ++i)
      row(o * size * inner + i, inner, size);
}
} // namespace

KERF_OPERATOR(aclnnSoftmax, const aclTensor *self, int64_t dim, aclTensor *out) {
  Check check("aclnnSoftmax");
  check.tensor(self, kFloats);
  check.result(out, kFloats);
  if (check.code)
    return check.code;
  check.same(self, out);
  check.sizes(out, self->sizes);
  return check.executor(workspace, executor, [x = *self, y = *out, d = dimOf(dim, self->sizes)] {
    std::vector<double> values = load(x);
    eachRow(x.sizes, d, [&](size_t first, size_t stride, size_t size) {
      double most = -INFINITY, sum = 0;
      for (size_t i = 0; i < size; ++i)
        most = std::max(most, values[first + i * stride]);
      for (size_t i = 0; i < size; ++i)
        sum += values[first + i * stride] = std::exp(values[first + i * stride] - most);
      for (size_t i = 0; i < size; ++i)
        values[first + i * stride] /= sum;
    });
    store(y, values);
  });
}
KERF_OPERATOR(aclnnSoftmaxBackward, const aclTensor *gradOutput, const aclTensor *output, int64_t dim, aclTensor *out) {
  Check check("aclnnSoftmaxBackward");
  for (const aclTensor *one : {gradOutput, output})
    check.tensor(one, kFloats);
  check.result(out, kFloats);
  if (check.code)
    return check.code;
  check.same(output, gradOutput);
  check.same(output, out);
  check.sizes(gradOutput, output->sizes);
  check.sizes(out, output->sizes);
  return check.executor(workspace, executor, [dy = *gradOutput, y = *output, dx = *out, d = dimOf(dim, output->sizes)] {
    std::vector<double> given = load(dy), values = load(y);
    eachRow(y.sizes, d, [&](size_t first, size_t stride, size_t size) {
      double dot = 0;
      for (size_t i = 0; i < size; ++i)
        dot += given[first + i * stride] * values[first + i * stride];
      for (size_t i = 0; i < size; ++i)
        values[first + i * stride] *= given[first + i * stride] - dot;
    });
    store(dx, values);
  });
}

KERF_OPERATOR(aclnnLayerNorm, const aclTensor *input, const aclIntArray *shape, const aclTensor *weight,
              const aclTensor *bias, double eps, aclTensor *out, aclTensor *mean, aclTensor *rstd) {
  Check check("aclnnLayerNorm");
  for (const aclTensor *one : {input, weight, bias})
    check.tensor(one, kFloats);
  check.result(out, kFloats);
  check.result(mean, bitOf(F32));
  check.result(rstd, bitOf(F32));
  if (check.code)
    return check.code;
  for (const aclTensor *one : {weight, bias, constant(out)})
    check.same(input, one);
  Sizes numbers = input->sizes;
  check.rule(shape->values == Sizes{numbers.back()}, "shape", "the normalized shape is that of the last dimension");
  numbers.back() = 1;
  check.sizes(out, input->sizes);
  check.sizes(mean, numbers);
  check.sizes(rstd, numbers);
  check.sizes(weight, shape->values);
  check.sizes(bias, shape->values);
  return check.executor(workspace, executor, [x = *input, w = *weight, b = *bias, eps, y = *out, m = *mean, r = *rstd] {
    std::vector<double> values = load(x), scale = load(w), shift = load(b), means, rstds;
    const size_t n = scale.size();
    for (size_t first = 0; first < values.size(); first += n) {
      double sum = 0, squares = 0;
      for (size_t i = 0; i < n; ++i)
        sum += values[first + i];
      for (size_t i = 0; i < n; ++i)
        squares += (values[first + i] - sum / double(n)) * (values[first + i] - sum / double(n));
      means.push_back(sum / double(n));
      rstds.push_back(1 / std::sqrt(squares / double(n) + eps));
      for (size_t i = 0; i < n; ++i)
        values[first + i] = (values[first + i] - means.back()) * rstds.back() * scale[i] + shift[i];
    }
    store(y, values);
    store(m, means);
    store(r, rstds);
  });
}
KERF_OPERATOR(aclnnLayerNormBackward, const aclTensor *gradOut, const aclTensor *input, const aclIntArray *shape,
              const aclTensor *mean, const aclTensor *rstd, const aclTensor *weight, const aclTensor *bias,
              const aclBoolArray *mask, aclTensor *gradInput, aclTensor *gradWeight, aclTensor *gradBias) {
  Check check("aclnnLayerNormBackward");
  for (const aclTensor *one : {gradOut, input, weight, bias})
    check.tensor(one, kFloats);
  for (const aclTensor *one : {gradInput, gradWeight, gradBias})
    check.result(one, kFloats);
  check.tensor(mean, bitOf(F32));
  check.tensor(rstd, bitOf(F32));
  if (check.code)
    return check.code;
  for (const aclTensor *one : {gradOut, weight, bias, constant(gradInput), constant(gradWeight), constant(gradBias)})
    check.same(input, one);
  check.rule(mask && mask->values == std::vector<uint8_t>{1, 1, 1}, "mask", "all three gradients are asked for");
  check.sizes(gradOut, input->sizes);
  check.sizes(gradInput, input->sizes);
  for (const aclTensor *one : {weight, bias, constant(gradWeight), constant(gradBias)})
    check.sizes(one, shape->values);
  return check.executor(workspace, executor,
                        [dy = *gradOut, x = *input, m = *mean, r = *rstd, w = *weight, dx = *gradInput,
                         dw = *gradWeight, db = *gradBias] {
                          std::vector<double> values = load(x), given = load(dy), means = load(m), rstds = load(r),
                                              scale = load(w);
                          const size_t n = scale.size();
                          std::vector<double> scales(n, 0), shifts(n, 0);
                          for (size_t row = 0; row < means.size(); ++row) {
                            double sum = 0, dots = 0;
                            for (size_t i = 0; i < n; ++i) {
                              double &value = values[row * n + i], gradient = given[row * n + i];
                              value = (value - means[row]) * rstds[row];
                              scales[i] += gradient * value;
                              shifts[i] += gradient;
                              sum += gradient * scale[i];
                              dots += gradient * scale[i] * value;
                            }
                            for (size_t i = 0; i < n; ++i)
                              values[row * n + i] = rstds[row] * (given[row * n + i] * scale[i] -
                                                                  (sum + values[row * n + i] * dots) / double(n));
                          }
                          store(dx, values);
                          store(dw, scales);
                          store(db, shifts);
                        });
}
KERF_OPERATOR(aclnnRmsNorm, const aclTensor *x, const aclTensor *gamma, double epsilon, const aclTensor *y,
              const aclTensor *rstd) {
  Check check("aclnnRmsNorm");
  for (const aclTensor *one : {x, gamma})
    check.tensor(one, kFloats);
  check.result(y, kFloats);
  check.result(rstd, bitOf(F32));
  if (check.code)
    return check.code;
  check.same(x, gamma);
  check.same(x, y);
  Sizes numbers = x->sizes;
  numbers.back() = 1;
  check.sizes(y, x->sizes);
  check.sizes(rstd, numbers);
  check.sizes(gamma, {x->sizes.back()});
  return check.executor(workspace, executor, [x = *x, w = *gamma, epsilon, y = *y, r = *rstd] {
    std::vector<double> values = load(x), scale = load(w), rstds;
    const size_t n = scale.size();
    for (size_t first = 0; first < values.size(); first += n) {
      double squares = 0;
      for (size_t i = 0; i < n; ++i)
        squares += values[first + i] * values[first + i];
      rstds.push_back(1 / std::sqrt(squares / double(n) + epsilon));
      for (size_t i = 0; i < n; ++i)
        values[first + i] *= rstds.back() * scale[i];
    }
    store(y, values);
    store(r, rstds);
  });
}
KERF_OPERATOR(aclnnRmsNormGrad, const aclTensor *dy, const aclTensor *x, const aclTensor *rstd, const aclTensor *gamma,
              const aclTensor *dx, const aclTensor *dgamma) {
  Check check("aclnnRmsNormGrad");
  for (const aclTensor *one : {dy, x, gamma})
    check.tensor(one, kFloats);
  check.tensor(rstd, bitOf(F32));
  check.result(dx, kFloats);
  check.result(dgamma, bitOf(F32));
  if (check.code)
    return check.code;
  for (const aclTensor *one : {dy, gamma, dx})
    check.same(x, one);
  check.sizes(dy, x->sizes);
  check.sizes(dx, x->sizes);
  check.sizes(dgamma, gamma->sizes);
  return check.executor(workspace, executor, [dy = *dy, x = *x, r = *rstd, w = *gamma, dx = *dx, dw = *dgamma] {
    std::vector<double> values = load(x), given = load(dy), rstds = load(r), scale = load(w);
    const size_t n = scale.size();
    std::vector<double> scales(n, 0);
    for (size_t row = 0; row < rstds.size(); ++row) {
      double dots = 0;
      for (size_t i = 0; i < n; ++i) {
        double &value = values[row * n + i];
        value *= rstds[row];
        scales[i] += given[row * n + i] * value;
        dots += given[row * n + i] * scale[i] * value;
      }
      for (size_t i = 0; i < n; ++i)
        values[row * n + i] = rstds[row] * (given[row * n + i] * scale[i] - values[row * n + i] * dots / double(n));
    }
    store(dx, values);
    store(dw, scales);
  });
}

namespace {
/// Reads indices, of which each must be in [0, rows): what CANN does with others is not defined. Returns nothing, and
/// leaves the stream's error to the caller, where one is not.
std::vector<double> rightIndices(const aclTensor &tensor, int64_t rows) {
  std::vector<double> indices = load(tensor);
  for (double &index : indices)
    if (index < 0 || index >= double(rows)) {
      std::fprintf(stderr, "stand-in CANN: rule index: %g is outside of [0, %lld)\n", index,
                   static_cast<long long>(rows));
      std::abort();
    }
  return indices;
}
} // namespace

KERF_OPERATOR(aclnnEmbedding, const aclTensor *weight, const aclTensor *indices, const aclTensor *out) {
  Check check("aclnnEmbedding");
  check.tensor(weight, kNumbers);
  check.tensor(indices, kIndices);
  check.result(out, kNumbers);
  if (check.code)
    return check.code;
  check.same(weight, out);
  check.rule(weight->sizes.size() == 2, "dimensions", "the table has two dimensions");
  Sizes sizes = indices->sizes;
  sizes.push_back(weight->sizes[1]);
  check.sizes(out, sizes);
  return check.executor(workspace, executor, [w = *weight, i = *indices, y = *out] {
    std::vector<double> table = load(w), rows = rightIndices(i, w.sizes[0]), values;
    const int64_t width = w.sizes[1];
    for (double row : rows)
      values.insert(values.end(), table.begin() + int64_t(row) * width, table.begin() + (int64_t(row) + 1) * width);
    store(y, values);
  });
}
KERF_OPERATOR(aclnnEmbeddingDenseBackward, const aclTensor *grad, const aclTensor *indices, uint64_t numWeights,
              uint64_t paddingIdx, bool scaleGradByFreq, const aclTensor *out) {
  Check check("aclnnEmbeddingDenseBackward");
  check.tensor(grad, kFloats | kIndices);
  check.tensor(indices, kIndices);
  check.result(out, kFloats | kIndices);
  if (check.code)
    return check.code;
  check.same(grad, out);
  check.rule(!scaleGradByFreq && paddingIdx == ~uint64_t(0), "option", "no padding and no scale");
  check.rule(grad->elements() == indices->elements() * out->sizes.back(), "shape", "a gradient for each index");
  check.sizes(out, {int64_t(numWeights), grad->sizes.back()});
  return check.executor(workspace, executor, [dy = *grad, i = *indices, y = *out] {
    std::vector<double> given = load(dy), rows = rightIndices(i, y.sizes[0]),
                        sums(static_cast<size_t>(y.elements()), 0);
    const auto width = size_t(y.sizes[1]);
    for (size_t at = 0; at < rows.size(); ++at)
      for (size_t j = 0; j < width; ++j)
        sums[size_t(rows[at]) * width + j] += given[at * width + j];
    store(y, sums);
  });
}
KERF_OPERATOR(aclnnGatherV2, const aclTensor *self, int64_t dim, const aclTensor *index, aclTensor *out) {
  Check check("aclnnGatherV2");
  check.tensor(self, kNumbers);
  check.tensor(index, kIndices);
  check.result(out, kNumbers);
  if (check.code)
    return check.code;
  check.same(self, out);
  const size_t d = dimOf(dim, self->sizes);
  Sizes sizes(self->sizes.begin(), self->sizes.begin() + int64_t(d));
  sizes.insert(sizes.end(), index->sizes.begin(), index->sizes.end());
  sizes.insert(sizes.end(), self->sizes.begin() + int64_t(d) + 1, self->sizes.end());
  check.sizes(out, sizes);
  return check.executor(workspace, executor, [x = *self, i = *index, y = *out, d] {
    std::vector<double> table = load(x), rows = rightIndices(i, x.sizes[d]), values;
    const int64_t inner = product(x.sizes, d + 1), size = x.sizes[d];
    for (int64_t o = 0; o < product(x.sizes, 0, d); ++o)
      for (double row : rows) {
        auto first = table.begin() + (o * size + int64_t(row)) * inner;
        values.insert(values.end(), first, first + inner);
      }
    store(y, values);
  });
}

namespace {
/// Calls each(number of the index, place in the other tensor) for the indices of gather and scatter along a dimension.
template <typename F> void eachPlace(const aclTensor &index, const Sizes &sizes, size_t dim, F each) {
  std::vector<double> indices = rightIndices(index, sizes[dim]);
  Sizes at(sizes.size(), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      place = place * sizes[d] + (d == dim ? int64_t(indices[i]) : at[d]);
    each(i, size_t(place));
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < index.sizes[d])
        break;
      at[d] = 0;
    }
  }
}
} // namespace

KERF_OPERATOR(aclnnGather, const aclTensor *self, const int64_t dim, const aclTensor *index, aclTensor *out) {
  Check check("aclnnGather");
  check.tensor(self, kNumbers);
  check.tensor(index, kIndices);
  check.result(out, kNumbers);
  if (check.code)
    return check.code;
  check.same(self, out);
  check.sizes(out, index->sizes);
  check.rule(index->sizes.size() == self->sizes.size(), "dimensions", "the indices have the tensor's dimensions");
  return check.executor(workspace, executor, [x = *self, i = *index, y = *out, d = dimOf(dim, self->sizes)] {
    std::vector<double> table = load(x), values(static_cast<size_t>(y.elements()));
    eachPlace(i, x.sizes, d, [&](size_t at, size_t place) { values[at] = table[place]; });
    store(y, values);
  });
}
KERF_OPERATOR(aclnnScatterAdd, const aclTensor *self, int64_t dim, const aclTensor *index, const aclTensor *source,
              aclTensor *out) {
  Check check("aclnnScatterAdd");
  for (const aclTensor *one : {self, source})
    check.tensor(one, kFloats | kIndices);
  check.result(out, kFloats | kIndices);
  check.tensor(index, kIndices);
  if (check.code)
    return check.code;
  check.same(self, source);
  check.same(self, out);
  check.sizes(out, self->sizes);
  check.sizes(source, index->sizes);
  check.rule(index->sizes.size() == self->sizes.size(), "dimensions", "the indices have the tensor's dimensions");
  check.rule(self->data != out->data, "alias", "the operand and the result are the same memory");
  return check.executor(workspace, executor,
                        [x = *self, i = *index, s = *source, y = *out, d = dimOf(dim, self->sizes)] {
                          std::vector<double> values = load(x), added = load(s);
                          eachPlace(i, x.sizes, d, [&](size_t at, size_t place) { values[place] += added[at]; });
                          store(y, values);
                        });
}

} // namespace kerf::standin::cann
