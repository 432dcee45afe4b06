// SPDX-License-Identifier: Apache-2.0
#include "Requests.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace kerf::runtime {

int64_t RequestReader::position(const char *axes) const {
  std::vector<int64_t> flat = integers(axes);
  std::vector<AxisRef> refs;
  for (size_t i = 0; i + 2 < flat.size(); i += 3)
    refs.push_back({int(flat[i]), flat[i + 1], flat[i + 2]});
  return kerf::position(request.mesh, refs, request.rank);
}

int64_t product(const Shape &shape, size_t begin, size_t end) {
  int64_t all = 1;
  for (size_t d = begin; d < end; ++d)
    all *= shape[d];
  return all;
}

std::vector<int64_t> rowMajorStrides(const Shape &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::string positionText(const Shape &shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d])
    index[d] = flat % shape[d];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

uint64_t elementBits(const nlohmann::ordered_json &json, DType dtype) {
  double number = package::parseNumber(json).value_or(0);
  switch (dtype) {
  case DType::F64:
    return std::bit_cast<uint64_t>(number);
  case DType::F32:
    return std::bit_cast<uint32_t>(float(number));
  case DType::BF16:
    return bf16FromFloat(float(number));
  case DType::F16:
    return f16FromFloat(float(number));
  case DType::Bool:
    return json.is_boolean() ? json.get<bool>() : json.get<int64_t>() != 0;
  default:
    return json.is_boolean()           ? uint64_t(json.get<bool>())
           : json.is_number_unsigned() ? json.get<uint64_t>()
                                       : uint64_t(json.get<int64_t>());
  }
}

bool anyTensor(const KernelRequest &request, bool (*holds)(const TensorView &)) {
  return std::any_of(request.operands.begin(), request.operands.end(), holds) ||
         std::any_of(request.results.begin(), request.results.end(), holds);
}

WideRequest withFloatCopies(const KernelRequest &request, int64_t alignment) {
  WideRequest wide{request, {}, {}, 0};
  auto behind = [&] {
    return request.scratch ? static_cast<std::byte *>(request.scratch) + wide.copiedBytes : nullptr;
  };
  auto copyOf = [&](const TensorView &view) {
    TensorView copy{behind(), DType::F32, view.shape};
    wide.copiedBytes += (copy.bytes() + alignment - 1) / alignment * alignment;
    return copy;
  };
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (isHalf(request.operands[i])) {
      wide.request.operands[i] = copyOf(request.operands[i]);
      wide.operands.emplace_back(request.operands[i], wide.request.operands[i]);
    }
  for (size_t i = 0; i < request.results.size(); ++i)
    if (isHalf(request.results[i])) {
      wide.request.results[i] = copyOf(request.results[i]);
      wide.results.emplace_back(wide.request.results[i], request.results[i]);
    }
  wide.request.scratch = behind();
  return wide;
}

std::pair<ProductDims, ProductDims> productDims(const RequestReader &instruction) {
  ProductDims left{instruction.integers("lhs_batching"), {}, instruction.integers("lhs_contracting")},
      right{instruction.integers("rhs_batching"), {}, instruction.integers("rhs_contracting")};
  auto fill = [](ProductDims &dims, const TensorView &view) {
    auto has = [](const std::vector<int64_t> &some, int64_t d) {
      return std::find(some.begin(), some.end(), d) != some.end();
    };
    for (int64_t d = 0; d < int64_t(view.shape.size()); ++d)
      if (!has(dims.batch, d) && !has(dims.contracted, d))
        dims.free.push_back(d);
  };
  fill(left, instruction.request.operands[0]);
  fill(right, instruction.request.operands[1]);
  return {std::move(left), std::move(right)};
}

int64_t sizeOf(const Shape &sizes, const std::vector<int64_t> &dims) {
  int64_t size = 1;
  for (int64_t d : dims)
    size *= sizes[size_t(d)];
  return size;
}

void orderContracted(ProductDims &first, ProductDims &second) {
  std::vector<size_t> order(first.contracted.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return first.contracted[i] < first.contracted[j]; });
  ProductDims of[] = {first, second};
  for (size_t i = 0; i < order.size(); ++i) {
    first.contracted[i] = of[0].contracted[order[i]];
    second.contracted[i] = of[1].contracted[order[i]];
  }
}

std::optional<Loop> loopOf(const Shape &sizes, const std::vector<int64_t> &strides, const std::vector<int64_t> &dims) {
  Loop loop;
  for (int64_t d : dims) {
    int64_t size = sizes[size_t(d)], stride = strides[size_t(d)];
    if (size == 1)
      continue;
    if (loop.size != 1 && loop.stride != size * stride)
      return std::nullopt;
    loop = {loop.size * size, stride};
  }
  return loop;
}

} // namespace kerf::runtime
