// SPDX-License-Identifier: Apache-2.0
// Where a window that slides meets what it slides over: lists of straight lines, made once for each kernel.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// One entry a dimension that the window moves along: place t of the window has its element w over element
/// t * stride + w * dilation - low.
struct Window {
  std::vector<int64_t> size, window, places; // of what it moves over, of the window, of the result
  std::vector<int64_t> strides, dilations, low, high;

  int64_t elements() const { return product(size, 0); }
  int64_t windowElements() const { return product(window, 0); }
  int64_t placeCount() const { return product(places, 0); }
};

/// Reads and checks the attributes strides, dilations, low and high (as many as `window`), and that `places` follow.
void readWindow(Checker &check, Window &window);

/// For element `w` of the window: place `to` + t is over element `from` + t * stride of the last dimension, for t in
/// [begin, end); for other t up to `length` it is over padding.
struct WindowLine {
  int64_t w, from, to, begin, end;
};
/// In the order of w, then of the places. A line is all places of the last dimension.
std::vector<WindowLine> linesOf(const Window &window);

} // namespace kerf::runtime::kernels
