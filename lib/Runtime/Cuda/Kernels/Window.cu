// SPDX-License-Identifier: Apache-2.0
// Convolutions with their gradients, and poolings, straight from their definitions. Each result is summed in an order
// that depends only on the sizes, and sums of floats are accumulated in double.
#include "DeviceCode.h"
#pragma clang force_cuda_host_device begin
#include "ParametersWindow.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

/// Returns the element of the tensor under element w of the window at place t, or -1 if that is padding.
KERF_DEVICE int64_t elementUnder(const Window &window, int64_t t, int64_t w) {
  int64_t element = 0, scale = 1;
  for (int d = window.rank - 1; d >= 0; --d) {
    const WindowDim &dim = window.dims[d];
    int64_t at = t % dim.places * dim.stride + w % dim.window * dim.dilation - dim.low;
    if (at < 0 || at >= dim.size)
      return -1;
    element += at * scale;
    scale *= dim.size;
    t /= dim.places;
    w /= dim.window;
  }
  return element;
}

#ifdef KERF_FLOATING
/// Returns the place at which element w of the window lies over `element` of the tensor, or -1 if there is none.
KERF_DEVICE int64_t placeOver(const Window &window, int64_t element, int64_t w) {
  int64_t place = 0, scale = 1;
  for (int d = window.rank - 1; d >= 0; --d) {
    const WindowDim &dim = window.dims[d];
    int64_t distance = element % dim.size + dim.low - w % dim.window * dim.dilation, t = distance / dim.stride;
    if (distance < 0 || t * dim.stride != distance || t >= dim.places)
      return -1;
    place += t * scale;
    scale *= dim.places;
    element /= dim.size;
    w /= dim.window;
  }
  return place;
}

KERF_KERNEL void convolution(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t channel = i / window.placeCount, t = i - channel * window.placeCount;             // of all samples
    int64_t sample = channel / (p.groups * p.out), out = channel - sample * p.groups * p.out; // of all groups
    int64_t operand = (sample * p.groups + out / p.out) * p.in * window.elements;
    int64_t kernel = out * p.in * window.windowElements;
    double sum = 0;
    for (int64_t w = 0; w < window.windowElements; ++w) {
      int64_t element = elementUnder(window, t, w);
      for (int64_t c = 0; c < p.in && element >= 0; ++c)
        sum += double(at(p.operand, operand + c * window.elements + element)) *
               double(at(p.kernel, kernel + c * window.windowElements + w));
    }
    put(p.result, i, N(sum));
  }
}

KERF_KERNEL void convolutionTranspose(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t channel = i / window.elements, element = i - channel * window.elements; // of all samples
    int64_t group = channel / p.in, c = channel - group * p.in;                     // of all samples
    int64_t result = group * p.out * window.placeCount;
    int64_t kernel = (group % p.groups * p.out * p.in + c) * window.windowElements;
    double sum = 0;
    for (int64_t w = 0; w < window.windowElements; ++w) {
      int64_t t = placeOver(window, element, w);
      for (int64_t o = 0; o < p.out && t >= 0; ++o)
        sum += double(at(p.result, result + o * window.placeCount + t)) *
               double(at(p.kernel, kernel + o * p.in * window.windowElements + w));
    }
    put(p.operand, i, N(sum));
  }
}

/// One block computes one element of the kernel, a sum over samples and places.
KERF_KERNEL void convolutionKernel(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = block(); i < p.n; i += blocks()) {
    int64_t pair = i / window.windowElements, w = i - pair * window.windowElements;
    int64_t out = pair / p.in, c = pair - out * p.in; // `out` is of all groups
    int64_t channel = out / p.out * p.in + c;
    double sum = 0;
    for (int64_t j = threadInBlock(); j < p.samples * window.placeCount; j += threadsOfBlock()) {
      int64_t sample = j / window.placeCount, t = j - sample * window.placeCount;
      int64_t element = elementUnder(window, t, w);
      if (element >= 0)
        sum += double(at(p.operand, (sample * p.groups * p.in + channel) * window.elements + element)) *
               double(at(p.result, (sample * p.groups * p.out + out) * window.placeCount + t));
    }
    sum = sumOfBlock(sum);
    if (threadInBlock() == 0)
      put(p.kernel, i, N(sum));
  }
}
#endif

/// Combines the elements under each window, and narrows the result to an element.
template <typename X, typename Combine, typename Narrow>
KERF_DEVICE void pool(const ReduceWindowParameters &p, X neutral, Combine combine, Narrow narrow) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t line = i / p.inner, k = i - line * p.inner;
    int64_t outer = line / p.window.placeCount, t = line - outer * p.window.placeCount;
    X value = neutral;
    for (int64_t w = 0; w < p.window.windowElements; ++w)
      if (int64_t element = elementUnder(p.window, t, w); element >= 0)
        value = combine(value, X(at(p.x, (outer * p.window.elements + element) * p.inner + k)));
    put(p.y, i, narrow(value));
  }
}

KERF_KERNEL void reduceWindow(ReduceWindowParameters p) {
  using Sum = std::conditional_t<isFloat<T>, double, uint64_t>; // integers wrap around
  auto narrow = [](auto x) {
    if constexpr (std::is_same_v<T, Bool>)
      return N(x != 0);
    else
      return N(x);
  };
  if (p.kind == Reduction::Sum)
    pool(p, Sum(0), [](Sum a, Sum b) { return a + b; }, narrow);
  else if (p.kind == Reduction::Max)
    pool(p, lowest<N>(), larger<N>, narrow);
  else
    pool(p, highest<N>(), smaller<N>, narrow);
}

#ifdef KERF_FLOATING
KERF_KERNEL void selectOfWindows(SelectAndScatterParameters p) {
  for (int64_t i = firstElement(); i < p.places; i += elementStep()) {
    int64_t line = i / p.inner, k = i - line * p.inner;
    int64_t outer = line / p.window.placeCount, t = line - outer * p.window.placeCount, selected = -1;
    N best = 0;
    for (int64_t w = 0; w < p.window.windowElements; ++w) {
      int64_t element = elementUnder(p.window, t, w);
      if (element < 0)
        continue;
      N x = at(p.x, (outer * p.window.elements + element) * p.inner + k);
      if (selected < 0 || (p.isMaximum ? x > best : x < best) || x != x)
        best = x, selected = w;
    }
    p.selected[i] = int32_t(selected);
  }
}

/// Adds, for each element, the gradients of the windows that select it, in the order of the windows.
KERF_KERNEL void scatterOfWindows(SelectAndScatterParameters p) {
  const Window &window = p.window;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    int64_t line = i / p.inner, k = i - line * p.inner, outer = line / window.elements;
    // The places in a dimension at which the window may cover the element are first + 0, 1, ... count - 1.
    int64_t rest = line - outer * window.elements, all = 1;
    int64_t first[kMostDims], count[kMostDims], shifted[kMostDims];
    for (int d = window.rank - 1; d >= 0; --d) {
      const WindowDim &dim = window.dims[d];
      shifted[d] = rest % dim.size + dim.low;
      rest /= dim.size;
      int64_t behind = shifted[d] - (dim.window - 1) * dim.dilation, last = shifted[d] / dim.stride;
      first[d] = behind > 0 ? (behind + dim.stride - 1) / dim.stride : 0;
      last = last < dim.places ? last : dim.places - 1;
      count[d] = last >= first[d] ? last - first[d] + 1 : 0;
      all *= count[d];
    }
    N sum = 0;
    for (int64_t number = 0; number < all; ++number) {
      int64_t left = number, t = 0, w = 0, placeScale = 1, windowScale = 1;
      bool covers = true;
      for (int d = window.rank - 1; d >= 0; --d) {
        const WindowDim &dim = window.dims[d];
        int64_t at = first[d] + left % count[d], distance = shifted[d] - at * dim.stride;
        int64_t step = distance / dim.dilation;
        left /= count[d];
        covers = covers && step * dim.dilation == distance;
        t += at * placeScale, placeScale *= dim.places;
        w += step * windowScale, windowScale *= dim.window;
      }
      int64_t from = (outer * window.placeCount + t) * p.inner + k;
      if (covers && p.selected[from] == w)
        sum += at(p.dy, from);
    }
    put(p.dx, i, sum);
  }
}
#endif

} // namespace kerf::runtime::cuda
