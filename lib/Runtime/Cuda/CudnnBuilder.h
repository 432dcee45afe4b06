// SPDX-License-Identifier: Apache-2.0
// Descriptors of cuDNN, made from graphs that are plain data.
#pragma once

#include "CudnnGraph.h"

namespace kerf::runtime::cuda {

/// Makes descriptors. After the first call that fails, all further calls do nothing, and `result` says what failed.
class Builder {
public:
  explicit Builder(const Cudnn &cudnn) : cudnn(cudnn) {}
  CudnnResult result = 0;

  Descriptor make(CudnnKind kind) {
    CudnnDescriptor made = nullptr;
    if (result == 0)
      result = cudnn.createDescriptor(kind, &made);
    return Descriptor(cudnn, made);
  }
  template <typename T>
  void set(const Descriptor &on, CudnnAttribute attribute, CudnnType type, const T *values, size_t count) {
    if (result == 0)
      result = cudnn.setAttribute(on.get(), attribute, type, int64_t(count), values);
  }
  template <typename T> void set(const Descriptor &on, CudnnAttribute attribute, CudnnType type, const T &value) {
    set(on, attribute, type, &value, 1);
  }
  void set(const Descriptor &on, CudnnAttribute attribute, const std::vector<int64_t> &values) {
    set(on, attribute, kTypeInt64, values.data(), values.size());
  }
  void set(const Descriptor &on, CudnnAttribute attribute, const Descriptor &value) {
    set(on, attribute, kTypeDescriptor, value.get());
  }
  void finalize(const Descriptor &descriptor) {
    if (result == 0)
      result = cudnn.finalize(descriptor.get());
  }

private:
  const Cudnn &cudnn;
};

/// Returns cuDNN's number of a tensor of a graph.
inline int64_t idOf(int tensor) { return tensor + 1; }

/// The descriptors of a graph's operations, and those to which they refer.
struct Operations {
  std::vector<Descriptor> tensors, settings, operations;
};

/// Makes the descriptors of a graph's tensors and operations.
Operations operationsOf(Builder &b, const CudnnGraph &graph);

} // namespace kerf::runtime::cuda
