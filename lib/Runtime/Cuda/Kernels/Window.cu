// SPDX-License-Identifier: Apache-2.0
// Convolutions with their gradients, and poolings, straight from their definitions. Each result is summed in an order
// that depends only on the sizes, and sums of floats are accumulated in double.
#include "PackCode.h"
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

/// The place of an element in a tensor [outer, channels, places] of a convolution.
struct ConvolutionPlace {
  int64_t outer, channel, place;
};
KERF_DEVICE ConvolutionPlace placeIn(const ConvolutionTensor &tensor, int64_t i) {
  int64_t row = i / (tensor.channels * tensor.places), rest = i - row * tensor.channels * tensor.places;
  if (tensor.channelStep == 1) { // the channels are the last dimension
    int64_t place = rest / tensor.channels;
    return {row, rest - place * tensor.channels, place};
  }
  int64_t channel = rest / tensor.places;
  return {row, channel, rest - channel * tensor.places};
}
KERF_DEVICE N element(const ConvolutionTensor &tensor, int64_t outer, int64_t channel, int64_t place) {
  return at(tensor.data,
            outer * tensor.channels * tensor.places + channel * tensor.channelStep + place * tensor.placeStep);
}

KERF_KERNEL void convolution(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    auto [sample, out, t] = placeIn(p.result, i); // `out` is of all groups
    int64_t first = out / p.out * p.in;
    double sum = 0;
    for (int64_t w = 0; w < window.windowElements; ++w) {
      int64_t under = elementUnder(window, t, w);
      for (int64_t c = 0; c < p.in && under >= 0; ++c)
        sum += double(element(p.operand, sample, first + c, under)) * double(element(p.kernel, out, c, w));
    }
    put(p.result.data, i, N(sum));
  }
}

KERF_KERNEL void convolutionTranspose(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = firstElement(); i < p.n; i += elementStep()) {
    auto [sample, channel, under] = placeIn(p.operand, i); // `channel` is of all groups
    int64_t group = channel / p.in, c = channel - group * p.in;
    double sum = 0;
    for (int64_t w = 0; w < window.windowElements; ++w) {
      int64_t t = placeOver(window, under, w);
      for (int64_t o = group * p.out; o < (group + 1) * p.out && t >= 0; ++o)
        sum += double(element(p.result, sample, o, t)) * double(element(p.kernel, o, c, w));
    }
    put(p.operand.data, i, N(sum));
  }
}

/// One block computes one element of the kernel, a sum over samples and places.
KERF_KERNEL void convolutionKernel(ConvolutionParameters p) {
  const Window &window = p.window;
  for (int64_t i = block(); i < p.n; i += blocks()) {
    auto [out, c, w] = placeIn(p.kernel, i); // `out` is of all groups
    int64_t channel = out / p.out * p.in + c;
    double sum = 0;
    for (int64_t j = threadInBlock(); j < p.samples * window.placeCount; j += threadsOfBlock()) {
      int64_t sample = j / window.placeCount, t = j - sample * window.placeCount;
      int64_t under = elementUnder(window, t, w);
      if (under >= 0)
        sum += double(element(p.operand, sample, channel, under)) * double(element(p.result, sample, out, t));
    }
    sum = sumOfBlock(sum);
    if (threadInBlock() == 0)
      put(p.kernel.data, i, N(sum));
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
    static_cast<int32_t *>(p.selected)[i] = int32_t(selected);
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
      if (covers && static_cast<const int32_t *>(p.selected)[from] == w)
        sum += at(p.dy, from);
    }
    put(p.dx, i, sum);
  }
}

KERF_DEVICE int quotient(int n, const Divisor &divisor) {
  return int(uint32_t(uint64_t(uint32_t(n) * 2) * divisor.multiplier >> 32) >> divisor.shift);
}
/// Replaces n by n / divisor, and returns the remainder.
KERF_DEVICE int splitOff(int &n, const Divisor &divisor) {
  int whole = quotient(n, divisor), remainder = n - whole * int(divisor.by);
  n = whole;
  return remainder;
}

/// W neighbouring elements of the last dimension, `inner`, at one place of a tensor: the numbers of the outer
/// dimensions, of the place in each dimension in which the window moves, and of the first element.
struct PackPlace {
  int32_t outer, at[kPackDims], k;
};
/// Returns the place of pack i in a tensor whose moving dimensions have these sizes. The host calls these kernels for
/// less than 2^31 elements.
template <int W, typename SizeOf> KERF_DEVICE PackPlace packPlace(int i, const Divisor &packs, SizeOf sizeOf) {
  PackPlace place;
  place.k = splitOff(i, packs) * W;
#pragma unroll
  for (int d = kPackDims - 1; d >= 0; --d)
    place.at[d] = splitOff(i, sizeOf(d));
  place.outer = i;
  return place;
}

/// Calls visit(w, i) for each element w of the window at `place` that lies over the tensor; i is the first of the W
/// elements of the tensor.
template <typename Visit> KERF_DEVICE void eachUnder(const PoolPacksParameters &p, const PackPlace &place, Visit visit) {
  const PackDim &a = p.dims[0], &b = p.dims[1], &c = p.dims[2];
  int w = 0;
#pragma unroll 1
  for (int i = 0; i < a.window; ++i)
#pragma unroll 1
    for (int j = 0; j < b.window; ++j)
#pragma unroll 1
      for (int k = 0; k < c.window; ++k, ++w) {
        int x = place.at[0] * int(a.stride.by) + i * int(a.dilation.by) - a.low,
            y = place.at[1] * int(b.stride.by) + j * int(b.dilation.by) - b.low,
            z = place.at[2] * int(c.stride.by) + k * int(c.dilation.by) - c.low;
        if (uint32_t(x) < a.size.by && uint32_t(y) < b.size.by && uint32_t(z) < c.size.by)
          visit(w, int64_t(((place.outer * int(a.size.by) + x) * int(b.size.by) + y) * int(c.size.by) + z) * p.inner +
                       place.k);
      }
}

/// Combines the elements under each window, W neighbouring windows of the last dimension at a time.
template <int W, typename X, typename Combine>
KERF_DEVICE void poolPacks(const PoolPacksParameters &p, X neutral, Combine combine) {
#pragma unroll 1
  for (int64_t i = firstElement(); i < p.placed / W; i += elementStep()) {
    PackPlace place = packPlace<W>(int(i), p.packs, [&](int d) { return p.dims[d].places; });
    Pack<W, X> values;
    values.fill(neutral);
    eachUnder(p, place, [&](int, int64_t from) {
      Pack<W> x = loadPack<W>(p.x, from);
#pragma unroll
      for (int k = 0; k < W; ++k)
        values[k] = combine(values[k], X(x[k]));
    });
    Pack<W> y;
#pragma unroll
    for (int k = 0; k < W; ++k)
      y[k] = N(values[k]);
    storePack<W>(p.y, i * W, y);
  }
}
template <int W> KERF_DEVICE void reducePacks(const PoolPacksParameters &p) {
  if (p.kind == Reduction::Sum)
    poolPacks<W>(p, 0.0, [](double a, double b) { return a + b; });
  else if (p.kind == Reduction::Max)
    poolPacks<W>(p, lowest<N>(), larger<N>);
  else
    poolPacks<W>(p, highest<N>(), smaller<N>);
}
KERF_KERNEL void reduceWindowPacks(PoolPacksParameters p) { reducePacks<kWidth>(p); }
KERF_KERNEL void reduceWindowSinglePacks(PoolPacksParameters p) { reducePacks<1>(p); }

template <int W> KERF_DEVICE void selectPacks(const PoolPacksParameters &p) {
#pragma unroll 1
  for (int64_t i = firstElement(); i < p.placed / W; i += elementStep()) {
    PackPlace place = packPlace<W>(int(i), p.packs, [&](int d) { return p.dims[d].places; });
    Pack<W> best = {};
    std::array<uint8_t, W> selected;
    selected.fill(kFewElements);
    eachUnder(p, place, [&](int w, int64_t from) {
      Pack<W> x = loadPack<W>(p.x, from);
#pragma unroll
      for (int k = 0; k < W; ++k)
        if (selected[k] == kFewElements || (p.isMaximum ? x[k] > best[k] : x[k] < best[k]) || x[k] != x[k])
          best[k] = x[k], selected[k] = uint8_t(w);
    });
    storeElements<W, uint8_t>(p.selected, i * W, selected);
  }
}
KERF_KERNEL void selectOfPacks(PoolPacksParameters p) { selectPacks<kWidth>(p); }
KERF_KERNEL void selectOfSinglePacks(PoolPacksParameters p) { selectPacks<1>(p); }

/// The places of a dimension at which the window may cover one element: from `first` to `last`.
struct Covers {
  int first, last;
};
KERF_DEVICE Covers coversOf(const PackDim &dim, int at) {
  int shifted = at + dim.low, behind = shifted - (dim.window - 1) * int(dim.dilation.by), stride = int(dim.stride.by);
  int last = quotient(shifted, dim.stride), places = int(dim.places.by);
  return {behind > 0 ? quotient(behind + stride - 1, dim.stride) : 0, last < places ? last : places - 1};
}
/// Returns the number of the window's element over an element of the tensor, or -1 if dilation passes over it.
KERF_DEVICE int elementOver(const PackDim &dim, int at, int place) {
  int w = at + dim.low - place * int(dim.stride.by);
  return splitOff(w, dim.dilation) == 0 ? w : -1;
}

template <int W> KERF_DEVICE void scatterPacks(const PoolPacksParameters &p) {
  const PackDim &a = p.dims[0], &b = p.dims[1], &c = p.dims[2];
#pragma unroll 1
  for (int64_t i = firstElement(); i < p.n / W; i += elementStep()) {
    PackPlace place = packPlace<W>(int(i), p.packs, [&](int d) { return p.dims[d].size; });
    Covers inA = coversOf(a, place.at[0]), inB = coversOf(b, place.at[1]), inC = coversOf(c, place.at[2]);
    Pack<W> sums = {};
#pragma unroll 1
    for (int x = inA.first; x <= inA.last; ++x)
#pragma unroll 1
      for (int y = inB.first; y <= inB.last; ++y)
#pragma unroll 1
        for (int z = inC.first; z <= inC.last; ++z) {
          int wA = elementOver(a, place.at[0], x), wB = elementOver(b, place.at[1], y),
              wC = elementOver(c, place.at[2], z);
          if (wA < 0 || wB < 0 || wC < 0)
            continue;
          int w = (wA * b.window + wB) * c.window + wC;
          int64_t from = int64_t(((place.outer * int(a.places.by) + x) * int(b.places.by) + y) * int(c.places.by) + z) *
                             p.inner +
                         place.k;
          std::array<uint8_t, W> selected = loadElements<W, uint8_t>(p.selected, from);
          Pack<W> dy = loadPack<W>(p.dy, from);
#pragma unroll
          for (int k = 0; k < W; ++k)
            sums[k] += selected[k] == w ? dy[k] : N(0);
        }
    storePack<W>(p.dx, i * W, sums);
  }
}
KERF_KERNEL void scatterOfPacks(PoolPacksParameters p) { scatterPacks<kWidth>(p); }
KERF_KERNEL void scatterOfSinglePacks(PoolPacksParameters p) { scatterPacks<1>(p); }
#endif

} // namespace kerf::runtime::cuda
