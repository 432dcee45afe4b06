// SPDX-License-Identifier: Apache-2.0
// Functions that read instructions, for devices that turn them into calls of kernels and of libraries.
#pragma once

#include "kerf/Runtime/Device.h"

#include <string>
#include <utility>
#include <vector>

namespace kerf::runtime {

/// Reads an instruction and its attributes, which have been checked.
struct RequestReader {
  const KernelRequest &request;

  size_t operands() const { return request.operands.size(); }
  const nlohmann::ordered_json &attrs() const { return request.instruction.attrs; }
  int64_t integer(const char *name) const { return attrs().at(name).get<int64_t>(); }
  int64_t integerOr(const char *name, int64_t missing) const { return attrs().value(name, missing); }
  std::vector<int64_t> integers(const char *name) const { return attrs().at(name).get<std::vector<int64_t>>(); }
  /// Returns a number, where "inf", "-inf" and "nan" are numbers too.
  double number(const char *name) const { return package::parseNumber(attrs().at(name)).value_or(0); }
  /// Returns a boolean attribute; false if it is missing.
  bool flag(const char *name) const {
    auto found = attrs().find(name);
    return found != attrs().end() && found->is_boolean() && found->get<bool>();
  }
  /// Returns this rank's position among the ranks of the sub-axes that the attribute lists.
  int64_t position(const char *axes) const;
};

/// Returns the product of the sizes of dimensions [begin, end).
int64_t product(const Shape &shape, size_t begin, size_t end);
inline int64_t product(const Shape &shape, size_t begin = 0) { return product(shape, begin, shape.size()); }
/// Returns row-major strides in elements.
std::vector<int64_t> rowMajorStrides(const Shape &shape);
/// Returns the multi-dimensional index of element number `flat` of a shape as text, for example "[2, 5]".
std::string positionText(const Shape &shape, int64_t flat);
/// Returns the bits of one element of a constant, as the CPU's kernel reads it.
uint64_t elementBits(const nlohmann::ordered_json &json, DType dtype);

/// Returns whether a tensor has 16-bit floating-point numbers.
inline bool isHalf(const TensorView &view) { return view.dtype == DType::BF16 || view.dtype == DType::F16; }
/// Returns whether the condition holds for an operand or a result.
bool anyTensor(const KernelRequest &request, bool (*holds)(const TensorView &));

/// An instruction on float32 copies of its 16-bit tensors, as the CPU runs it.
struct WideRequest {
  KernelRequest request;                                   // its scratch memory begins behind the copies
  std::vector<std::pair<TensorView, TensorView>> operands; // 16-bit tensors and their copies, to be filled before it
  std::vector<std::pair<TensorView, TensorView>> results;  // copies and the 16-bit tensors, to be filled after it
  int64_t copiedBytes = 0;                                 // scratch memory of the copies
};
/// Returns an instruction with copies in scratch memory, whose addresses are multiples of `alignment`; they are null
/// while the request has no scratch memory.
WideRequest withFloatCopies(const KernelRequest &request, int64_t alignment);

/// The dimensions of one operand of a dot_general, by their role, in the order in which the other operand has them.
struct ProductDims {
  std::vector<int64_t> batch, free, contracted;
};
/// Returns the dimensions of both operands of a dot_general.
std::pair<ProductDims, ProductDims> productDims(const RequestReader &instruction);
/// Returns the product of the sizes of some dimensions.
int64_t sizeOf(const Shape &sizes, const std::vector<int64_t> &dims);
/// Puts the contracted dimensions of both operands into the order in which `first` has them in memory, so that they are
/// one loop of that operand where this is possible. The order of a sum's terms is free.
void orderContracted(ProductDims &first, ProductDims &second);
/// Several dimensions as one loop: its size, and the elements from one round to the next.
struct Loop {
  int64_t size = 1, stride = 1;
};
/// Returns some dimensions of a tensor as one loop, in their order; nothing if their elements are not equally far
/// apart.
std::optional<Loop> loopOf(const Shape &sizes, const std::vector<int64_t> &strides, const std::vector<int64_t> &dims);

} // namespace kerf::runtime
