// SPDX-License-Identifier: Apache-2.0
// The stand-in of libopapi_nn.so: convolutions with one to three spatial dimensions.
#include "Tensors.h"

namespace kerf::standin::cann {

namespace {
struct Convolution {
  aclTensor x, kernel, y;
  Sizes strides, padding, dilations;
  int64_t groups;
};

Convolution checked(Check &check, const aclTensor *x, const aclTensor *kernel, const aclTensor *y,
                    const aclIntArray *strides, const aclIntArray *padding, const aclIntArray *dilations,
                    bool transposed, const aclIntArray *outputPadding, int64_t groups, int8_t cubeMathType) {
  for (const aclTensor *one : {x, kernel, y})
    check.tensor(one, kFloats);
  if (check.code)
    return {};
  check.same(x, kernel);
  check.same(x, y);
  const size_t dims = x->sizes.size(), spatial = dims - 2;
  check.rule(dims >= 3 && dims <= 5 && kernel->sizes.size() == dims && y->sizes.size() == dims, "dimensions",
             "one to three spatial dimensions");
  const int format = dims == 3 ? 47 : dims == 4 ? 0 : 30;
  for (const aclTensor *one : {x, kernel, y})
    check.rule(one->format == format, "format", "NCL, NCHW or NCDHW by the number of dimensions");
  check.rule(!transposed && cubeMathType == 0, "option", "no transposed form, and the type is kept");
  for (const aclIntArray *one : {strides, padding, dilations, outputPadding})
    check.rule(one && one->values.size() == spatial, "shape", "a number for each spatial dimension");
  if (check.code)
    return {};
  check.rule(groups >= 1 && x->sizes[1] == groups * kernel->sizes[1] && y->sizes[1] == kernel->sizes[0] &&
                 kernel->sizes[0] % groups == 0 && x->sizes[0] == y->sizes[0],
             "channels", "the channels of the tensors do not fit the groups");
  for (size_t d = 0; d < spatial; ++d) {
    int64_t window = dilations->values[d] * (kernel->sizes[d + 2] - 1) + 1;
    check.rule(y->sizes[d + 2] == (x->sizes[d + 2] + 2 * padding->values[d] - window) / strides->values[d] + 1, "shape",
               "the result's size does not follow from the window");
  }
  return {*x, *kernel, *y, strides->values, padding->values, dilations->values, groups};
}

/// Calls each(place in x, place in the kernel, place in y) for all products of a convolution.
template <typename F> void eachProduct(const Convolution &c, F each) {
  const size_t spatial = c.strides.size();
  const int64_t n = c.x.sizes[0], in = c.kernel.sizes[1], out = c.kernel.sizes[0] / c.groups;
  const int64_t places = product(c.y.sizes, 2), window = product(c.kernel.sizes, 2), elements = product(c.x.sizes, 2);
  std::vector<int64_t> from(static_cast<size_t>(places * window)); // element of x, or -1 in the padding
  for (int64_t p = 0; p < places; ++p)
    for (int64_t w = 0; w < window; ++w) {
      int64_t at = 0, stride = 1, place = p, offset = w;
      for (size_t d = spatial; d-- > 0;) {
        int64_t i =
            place % c.y.sizes[d + 2] * c.strides[d] + offset % c.kernel.sizes[d + 2] * c.dilations[d] - c.padding[d];
        place /= c.y.sizes[d + 2], offset /= c.kernel.sizes[d + 2];
        at = at < 0 || i < 0 || i >= c.x.sizes[d + 2] ? -1 : at + i * stride;
        stride *= c.x.sizes[d + 2];
      }
      from[size_t(p * window + w)] = at;
    }
  for (int64_t s = 0; s < n; ++s)
    for (int64_t group = 0; group < c.groups; ++group)
      for (int64_t o = group * out; o < (group + 1) * out; ++o)
        for (int64_t i = 0; i < in; ++i)
          for (int64_t p = 0; p < places; ++p)
            for (int64_t w = 0; w < window; ++w)
              if (int64_t at = from[size_t(p * window + w)]; at >= 0)
                each(size_t((s * c.x.sizes[1] + group * in + i) * elements + at), size_t((o * in + i) * window + w),
                     size_t((s * c.y.sizes[1] + o) * places + p));
}
} // namespace

KERF_OPERATOR(aclnnConvolution, const aclTensor *input, const aclTensor *weight, const aclTensor *bias,
              const aclIntArray *stride, const aclIntArray *padding, const aclIntArray *dilation, bool transposed,
              const aclIntArray *outputPadding, const int64_t groups, aclTensor *output, int8_t cubeMathType) {
  Check check("aclnnConvolution");
  check.rule(!bias, "option", "no bias");
  Convolution c =
      checked(check, input, weight, output, stride, padding, dilation, transposed, outputPadding, groups, cubeMathType);
  check.result(output, kFloats);
  return check.executor(workspace, executor, [c] {
    std::vector<double> x = load(c.x), k = load(c.kernel), y(static_cast<size_t>(c.y.elements()), 0);
    eachProduct(c, [&](size_t a, size_t b, size_t to) { y[to] += x[a] * k[b]; });
    store(c.y, y);
  });
}

KERF_OPERATOR(aclnnConvolutionBackward, const aclTensor *gradOutput, const aclTensor *input, const aclTensor *weight,
              const aclIntArray *biasSizes, const aclIntArray *stride, const aclIntArray *padding,
              const aclIntArray *dilation, bool transposed, const aclIntArray *outputPadding, int groups,
              const aclBoolArray *outputMask, int8_t cubeMathType, aclTensor *gradInput, aclTensor *gradWeight,
              aclTensor *gradBias) {
  Check check("aclnnConvolutionBackward");
  check.rule(!biasSizes && !gradBias, "option", "no bias");
  Convolution c = checked(check, input, weight, gradOutput, stride, padding, dilation, transposed, outputPadding,
                          groups, cubeMathType);
  if (check.code)
    return check.code;
  check.rule(outputMask && outputMask->values == std::vector<uint8_t>{gradInput != nullptr, gradWeight != nullptr, 0},
             "mask", "the mask names the gradients that are given");
  for (const auto &[gradient, of] : {std::pair(gradInput, input), std::pair(gradWeight, weight)})
    if (gradient) {
      check.result(gradient, kFloats);
      check.same(gradient, of);
      check.sizes(gradient, of->sizes);
      check.rule(gradient->format == of->format, "format", "a gradient has the format of its tensor");
    }
  aclTensor dx = gradInput ? *gradInput : aclTensor(), dw = gradWeight ? *gradWeight : aclTensor();
  return check.executor(workspace, executor, [c, dx, dw] {
    std::vector<double> x = load(c.x), k = load(c.kernel), dy = load(c.y), sums(dx.data ? x.size() : k.size(), 0);
    if (dx.data)
      eachProduct(c, [&](size_t a, size_t b, size_t from) { sums[a] += dy[from] * k[b]; });
    else
      eachProduct(c, [&](size_t a, size_t b, size_t from) { sums[b] += dy[from] * x[a]; });
    store(dx.data ? dx : dw, sums);
  });
}

} // namespace kerf::standin::cann
