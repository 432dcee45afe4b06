// SPDX-License-Identifier: Apache-2.0
#include "Views.h"

namespace kerf::runtime::ascend {

View viewOf(const TensorView &tensor) {
  return {tensor.data, tensor.dtype, tensor.shape, rowMajorStrides(tensor.shape)};
}

bool isDense(const View &view) {
  int64_t stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0; stride *= view.sizes[d])
    if (view.sizes[d] != 1 && view.strides[d] != stride)
      return false;
  return true;
}

View reshaped(const View &view, const Shape &sizes) {
  View made = view;
  made.sizes = sizes;
  made.strides = rowMajorStrides(sizes);
  return made;
}

View permuted(const View &view, const std::vector<int64_t> &order) {
  View made = view;
  for (size_t d = 0; d < order.size(); ++d) {
    made.sizes[d] = view.sizes[size_t(order[d])];
    made.strides[d] = view.strides[size_t(order[d])];
  }
  return made;
}

View sliced(const View &view, size_t dim, int64_t start, int64_t size, int64_t step) {
  View made = view;
  made.offset += start * view.strides[dim];
  made.sizes[dim] = size;
  made.strides[dim] *= step;
  return made;
}

View broadcast(const View &view, const Shape &sizes, const std::vector<int64_t> &map) {
  View made = view;
  made.sizes = sizes;
  made.strides.assign(sizes.size(), 0);
  for (size_t d = 0; d < map.size(); ++d)
    made.strides[size_t(map[d])] = view.sizes[d] == 1 ? 0 : view.strides[d];
  return made;
}

View withDim(const View &view, size_t at) {
  View made = view;
  int64_t stride = at < view.sizes.size() ? view.sizes[at] * view.strides[at] : 1;
  made.sizes.insert(made.sizes.begin() + ptrdiff_t(at), 1);
  made.strides.insert(made.strides.begin() + ptrdiff_t(at), stride);
  return made;
}

View asType(View view, DType dtype) {
  view.dtype = dtype;
  return view;
}

} // namespace kerf::runtime::ascend
