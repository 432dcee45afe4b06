// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels of convolutions and poolings (Window.cu). Parameters.h says what holds for all structs
// of parameters.
#pragma once

#include "Parameters.h"

namespace kerf::runtime::cuda {

/// One dimension in which a window moves. At place t, element w of the window lies over the tensor's element t * stride
/// + w * dilation - low.
struct WindowDim {
  int64_t size, window, places; // sizes of the tensor and of the window, and number of the window's places
  int64_t stride, dilation, low;
};
/// The dimensions in which a window moves, and the products of their sizes.
struct Window {
  int32_t rank = 0;
  WindowDim dims[kMostDims] = {};
  int64_t elements = 1, windowElements = 1, placeCount = 1; // of the tensor, of the window, of the places
};

/// A tensor [outer, channels, places] of a convolution. In memory, neighbouring channels and places are `channelStep`
/// and `placeStep` elements apart.
struct ConvolutionTensor {
  void *data;
  int64_t channels, places, channelStep, placeStep;
};

/// A convolution: operand [samples, groups * in, elements], kernel [groups * out, in, window] and result [samples,
/// groups * out, places]. One of the three tensors is computed from the others; it has n elements.
struct ConvolutionParameters {
  ConvolutionTensor operand, kernel, result;
  int64_t n, samples, groups, in, out;
  Window window;
};

/// y[(o, t, k)] = reduction of x[(o, element, k)] over the elements under the window at place t, for k < inner.
struct ReduceWindowParameters {
  Reduction kind;
  const void *x;
  void *y;
  int64_t n, inner; // elements of y
  Window window;
};

/// dx[(o, element, k)] = sum of dy[(o, t, k)] over the places t at which the window selects the element: the first one
/// that is beyond all earlier ones of the window, which are greater for the maximum and less for the minimum, or the
/// last NaN. selected[(o, t, k)] is the number in the window of the selected element, or -1 if the window lies over
/// padding only. It is an int32_t, or a uint8_t in the kernels for windows of less than kFewElements elements.
struct SelectAndScatterParameters {
  int32_t isMaximum;
  const void *x, *dy;
  void *dx, *selected;
  int64_t n, places, inner; // elements of x and of dy
  Window window;
};

/// A divisor from 1 to 2^31 - 1. For n from 0 to 2^31 - 1, n / divisor is the upper half of 2 * n * multiplier, shifted
/// right by `shift` bits (Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994). A GPU
/// takes several times as long for a division.
struct Divisor {
  uint32_t by, multiplier, shift;
};
/// One dimension of a WindowDim, in 32-bit numbers.
struct PackDim {
  Divisor size, places, stride, dilation;
  int32_t window, low;
};
/// The kernels whose names end in Packs take windows that move in kPackDims dimensions and have less than kFewElements
/// elements. The host adds dimensions of size 1 in front.
inline constexpr int kPackDims = 3;
inline constexpr int64_t kFewElements = 255;
/// A pooling, or the gradient of one: x and dx have n elements, dy and y have `placed` elements, of which `inner`
/// neighbours have the same place. `packs` divides by the number of packs in `inner` elements. `kind` and `isMaximum`
/// are those of the other structs.
struct PoolPacksParameters {
  Reduction kind;
  int32_t isMaximum;
  const void *x, *dy;
  void *y, *dx, *selected;
  int64_t n, placed;
  int32_t inner;
  Divisor packs;
  PackDim dims[kPackDims];
};

} // namespace kerf::runtime::cuda
