// SPDX-License-Identifier: Apache-2.0
// Sliding windows of convolutions and poolings: which element of the window lies over which element of the tensor. The
// answer is a list of lines, computed once for each kernel.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// A window that slides over a tensor. Each list has one entry for each dimension in which the window moves. At place t
/// of a dimension, element w of the window lies over the tensor's element t * stride + w * dilation - low.
struct Window {
  std::vector<int64_t> size;      // sizes of the tensor that the window moves over
  std::vector<int64_t> window;    // sizes of the window
  std::vector<int64_t> places;    // numbers of places of the window, which are the sizes of the result
  std::vector<int64_t> strides;   // elements from one place to the next
  std::vector<int64_t> dilations; // distance, in the tensor, of neighbouring elements of the window
  std::vector<int64_t> low, high; // elements of padding before and after the tensor

  /// Returns the number of elements of the tensor.
  int64_t elements() const { return product(size, 0); }
  /// Returns the number of elements of the window.
  int64_t windowElements() const { return product(window, 0); }
  /// Returns the number of places of the window.
  int64_t placeCount() const { return product(places, 0); }
};

/// Reads the attributes strides, dilations, low and high into `window`, whose sizes the caller has set. Checks the
/// attributes' lengths and values, and that `places` is the number of places that they imply.
void readWindow(Checker &check, Window &window);

/// A line of places: all places of the window along the last dimension, at fixed places of the other dimensions, for
/// one element `w` of the window. Places are numbered row-major, as the result's elements. Element `w` at place `to` +
/// t lies over the tensor's element number `from` + t * stride for t in [begin, end), and over padding for any other t
/// of the line.
struct WindowLine {
  int64_t w, from, to, begin, end;
};
/// Returns the lines of all elements of the window and all places, ordered by w, then by place.
std::vector<WindowLine> linesOf(const Window &window);

} // namespace kerf::runtime::kernels
