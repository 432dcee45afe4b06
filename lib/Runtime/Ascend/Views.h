// SPDX-License-Identifier: Apache-2.0
// Views of tensors, as operators take them: sizes and strides in elements from an element of a memory range on. Views
// make transposes, slices and broadcasts without a copy.
#pragma once

#include "../Accelerator/Requests.h"
#include "Acl.h"

namespace kerf::runtime::ascend {

/// A view of a tensor. `data` is null while memory is only being planned.
struct View {
  void *data = nullptr; // address of the memory range, a multiple of kTensorAlignment for tensors and scratch memory
  DType dtype = DType::F32;
  Shape sizes;
  std::vector<int64_t> strides = {}; // elements; 0 where a dimension repeats one element
  int64_t offset = 0;                // elements from `data` to the first one
  int format = kFormatNd;            // aclFormat

  int64_t elements() const { return elementsOf(sizes); }
  int64_t bytes() const { return elements() * bytesOf(dtype); }
};

/// Returns the view of a whole tensor.
View viewOf(const TensorView &tensor);
/// Returns whether the elements lie side by side in row-major order.
bool isDense(const View &view);
/// Returns a dense view with other sizes, of as many elements.
View reshaped(const View &view, const Shape &sizes);
/// Returns a view whose dimension d is dimension order[d] of `view`.
View permuted(const View &view, const std::vector<int64_t> &order);
/// Returns the elements start, start + step, ... of one dimension: `size` of them.
View sliced(const View &view, size_t dim, int64_t start, int64_t size, int64_t step = 1);
/// Returns a view with the sizes `sizes`: dimension d of `view` becomes dimension map[d], where it either has this size
/// or has size 1 and is repeated. All other dimensions repeat the elements.
View broadcast(const View &view, const Shape &sizes, const std::vector<int64_t> &map);
/// Returns a view with a dimension of size 1 at position `at`.
View withDim(const View &view, size_t at);
/// Returns a dense view of bits of another type of the same width.
View asType(View view, DType dtype);

} // namespace kerf::runtime::ascend
