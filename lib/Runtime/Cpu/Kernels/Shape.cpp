// SPDX-License-Identifier: Apache-2.0
// Kernels that create, move or combine dimensions. Most are strided copies that differ only in their strides.
#include "Families.h"
#include "StridedCopy.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace kerf::runtime::kernels {

namespace {
/// Returns the kernel of an op that is one strided copy, from element number `fromElement` of the operand on.
PlannedKernel copyOf(const BindRequest &request, std::vector<CopyDim> dims, int64_t fromElement = 0) {
  int64_t bytes = bytesOf(request.results[0].dtype);
  const std::byte *from = dataOf<std::byte>(request.operands[0]);
  std::byte *to = mutableDataOf<std::byte>(request.results[0]);
  if (from)
    from += fromElement * bytes;
  return {[copy = StridedCopy(std::move(dims), bytes), from, to, team = request.team] {
    copy(from, to, team);
    return ok();
  }};
}

void sameDType(Checker &check, const BindRequest &request) {
  for (const TensorView &operand : request.operands)
    check.dtype(operand, "an operand", request.results[0].dtype);
}

template <typename T> T elementFrom(const nlohmann::ordered_json &json) {
  if constexpr (isFloat<T>)
    return T(package::parseNumber(json).value_or(0));
  else if (json.is_boolean())
    return T(json.get<bool>());
  else
    return T(json.is_number_unsigned() ? int64_t(json.get<uint64_t>()) : json.get<int64_t>());
}
bool isElement(const nlohmann::ordered_json &json, DType dtype) {
  if (dtype == DType::F64 || dtype == DType::F32)
    return package::parseNumber(json).has_value();
  return json.is_boolean() || json.is_number_integer();
}
} // namespace

Result<PlannedKernel> planConstant(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(0, 0, 1))
    return check.error();
  const TensorView &result = request.results[0];
  const auto &attrs = request.instruction.attrs;
  bool isArray = attrs.is_object() && attrs.contains("value") && attrs["value"].is_array();
  check.require(isArray, "attribute 'value' is not an array");
  if (check.failed())
    return check.error();
  const auto &elements = attrs["value"];
  check.require(int64_t(elements.size()) == result.elements() || elements.size() == 1,
                "attribute 'value' has {} elements, the result {}", elements.size(), result.elements());
  for (size_t i = 0; i < elements.size(); ++i)
    check.require(isElement(elements[i], result.dtype), "element {} is {}, which is no {}", i, elements[i].dump(),
                  toString(result.dtype));
  if (check.failed())
    return check.error();
  return withElementType(request, result.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    auto values = std::make_shared<std::vector<T>>();
    for (const auto &element : elements)
      values->push_back(elementFrom<T>(element));
    T *y = mutableDataOf<T>(result);
    return PlannedKernel{[values, y, n = result.elements()] {
      if (values->size() == 1)
        std::fill(y, y + n, values->front());
      else
        std::copy(values->begin(), values->end(), y);
      return ok();
    }};
  });
}

Result<PlannedKernel> planIota(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(0, 1, 1))
    return check.error();
  const TensorView &result = request.results[0];
  size_t dimension = check.dimension("dimension", result.shape.size());
  if (!request.operands.empty()) {
    check.scalar(request.operands[0], "the offset");
    check.dtype(request.operands[0], "the offset", result.dtype);
  }
  if (check.failed())
    return check.error();
  auto plan = [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    int64_t outer = product(result.shape, 0, dimension), size = result.shape[dimension],
            inner = product(result.shape, dimension + 1);
    const T *offset = request.operands.empty() ? nullptr : dataOf<T>(request.operands[0]);
    T *y = mutableDataOf<T>(result);
    return PlannedKernel{[=] {
      int64_t first = offset ? int64_t(*offset) : 0;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < size; ++i)
          std::fill_n(y + (o * size + i) * inner, inner, T(uint64_t(first) + uint64_t(i)));
      return ok();
    }};
  };
  if (result.dtype == DType::Bool)
    return wrongDType(request, result.dtype, "integers");
  return withIntegerType(request, result.dtype, plan);
}

Result<PlannedKernel> planBroadcastInDim(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  sameDType(check, request);
  const Shape &from = request.operands[0].shape, &to = request.results[0].shape;
  std::vector<int64_t> map = check.dimensions("broadcast_dimensions", to.size());
  check.require(map.size() == from.size(),
                "attribute 'broadcast_dimensions' has {} entries for an operand of {} dimensions", map.size(),
                from.size());
  if (check.failed())
    return check.error();
  std::vector<int64_t> fromStrides = stridesOf(from), toStrides = stridesOf(to);
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < to.size(); ++d)
    dims.push_back({to[d], 0, toStrides[d]});
  for (size_t d = 0; d < from.size(); ++d) {
    check.require(from[d] == to[map[d]] || from[d] == 1,
                  "dimension {} of size {} cannot become dimension {} of size {}", d, from[d], map[d], to[map[d]]);
    dims[map[d]].from = from[d] == 1 ? 0 : fromStrides[d];
  }
  if (check.failed())
    return check.error();
  return copyOf(request, std::move(dims));
}

Result<PlannedKernel> planTranspose(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  sameDType(check, request);
  const Shape &from = request.operands[0].shape, &to = request.results[0].shape;
  std::vector<int64_t> permutation = check.dimensions("permutation", from.size());
  check.require(permutation.size() == from.size() && to.size() == from.size(),
                "attribute 'permutation' has {} entries for an operand of {} and a result of {} dimensions",
                permutation.size(), from.size(), to.size());
  if (check.failed())
    return check.error();
  std::vector<int64_t> fromStrides = stridesOf(from), toStrides = stridesOf(to);
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < to.size(); ++d) {
    check.require(to[d] == from[permutation[d]], "dimension {} of the result has size {}, not {}", d, to[d],
                  from[permutation[d]]);
    dims.push_back({to[d], fromStrides[permutation[d]], toStrides[d]});
  }
  if (check.failed())
    return check.error();
  return copyOf(request, std::move(dims));
}

Result<PlannedKernel> planSlice(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  sameDType(check, request);
  const Shape &from = request.operands[0].shape, &to = request.results[0].shape;
  std::vector<int64_t> start = check.integers("start"), limit = check.integers("limit"),
                       strides = check.integers("strides");
  size_t rank = from.size();
  check.require(start.size() == rank && limit.size() == rank && strides.size() == rank && to.size() == rank,
                "start, limit, strides and the result have {}, {}, {} and {} dimensions, the operand {}", start.size(),
                limit.size(), strides.size(), to.size(), rank);
  std::vector<int64_t> fromStrides = stridesOf(from), toStrides = stridesOf(to);
  std::vector<CopyDim> dims;
  int64_t first = 0;
  for (size_t d = 0; d < rank && !check.failed(); ++d) {
    check.require(start[d] >= 0 && start[d] <= limit[d] && limit[d] <= from[d] && strides[d] >= 1,
                  "slice {}:{}:{} of dimension {} of size {}", start[d], limit[d], strides[d], d, from[d]);
    check.require(check.failed() ||
                      to[d] == (limit[d] - start[d]) / strides[d] + ((limit[d] - start[d]) % strides[d] != 0),
                  "dimension {} of the result has size {}, which slice {}:{}:{} doesn't", d, to[d], start[d], limit[d],
                  strides[d]);
    dims.push_back({to[d], fromStrides[d] * strides[d], toStrides[d]});
    first += start[d] * fromStrides[d];
  }
  if (check.failed())
    return check.error();
  return copyOf(request, std::move(dims), request.results[0].elements() ? first : 0);
}

Result<PlannedKernel> planPad(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  sameDType(check, request);
  check.scalar(request.operands[1], "the padding value");
  const Shape &from = request.operands[0].shape, &to = request.results[0].shape;
  std::vector<int64_t> low = check.integers("low"), high = check.integers("high"),
                       interior = check.integers("interior");
  size_t rank = from.size();
  check.require(low.size() == rank && high.size() == rank && interior.size() == rank && to.size() == rank,
                "low, high, interior and the result have {}, {}, {} and {} dimensions, the operand {}", low.size(),
                high.size(), interior.size(), to.size(), rank);
  std::vector<int64_t> fromStrides = stridesOf(from), toStrides = stridesOf(to);
  std::vector<CopyDim> dims;
  int64_t first = 0;
  for (size_t d = 0; d < rank && !check.failed(); ++d) {
    check.require(low[d] >= 0 && high[d] >= 0 && interior[d] >= 0 && low[d] <= to[d] && high[d] <= to[d] &&
                      (from[d] < 2 || interior[d] <= to[d]),
                  "low {}, high {} and interior {} of dimension {} do not lie in 0 to {}", low[d], high[d], interior[d],
                  d, to[d]);
    check.require(
        check.failed() || to[d] == low[d] + high[d] + from[d] + (from[d] > 0 ? (from[d] - 1) * interior[d] : 0),
        "dimension {} of the result has size {}, which {} with {} before, {} after and {} between doesn't give", d,
        to[d], from[d], low[d], high[d], interior[d]);
    dims.push_back({from[d], fromStrides[d], toStrides[d] * (interior[d] + 1)});
    first += low[d] * toStrides[d];
  }
  if (check.failed())
    return check.error();
  int64_t bytes = bytesOf(request.results[0].dtype);
  const void *from0 = request.operands[0].data, *value = request.operands[1].data;
  std::byte *to0 = mutableDataOf<std::byte>(request.results[0]);
  StridedCopy fill({{request.results[0].elements(), 0, 1}}, bytes), copy(std::move(dims), bytes);
  int64_t firstByte = request.operands[0].elements() ? first * bytes : 0;
  return PlannedKernel{[=, team = request.team] {
    fill(value, to0, team);
    copy(from0, to0 + firstByte, team);
    return ok();
  }};
}

Result<PlannedKernel> planConcatenate(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, std::numeric_limits<size_t>::max(), 1))
    return check.error();
  sameDType(check, request);
  const TensorView &result = request.results[0];
  size_t dimension = check.dimension("dimension", result.shape.size());
  int64_t bytes = bytesOf(result.dtype) * (check.failed() ? 0 : product(result.shape, dimension + 1));
  struct Piece {
    const std::byte *from;
    int64_t rowBytes, offset;
  };
  std::vector<Piece> pieces;
  int64_t sum = 0;
  for (const TensorView &operand : request.operands) {
    Shape expected = result.shape;
    if (!check.failed() && operand.shape.size() == expected.size())
      expected[dimension] = operand.shape[dimension];
    check.shape(operand, "an operand", expected);
    if (check.failed())
      return check.error();
    pieces.push_back({dataOf<std::byte>(operand), operand.shape[dimension] * bytes, sum * bytes});
    sum += operand.shape[dimension];
  }
  check.require(sum == result.shape[dimension], "the operands have {} along dimension {}, the result {}", sum,
                dimension, result.shape[dimension]);
  if (check.failed())
    return check.error();
  int64_t outer = product(result.shape, 0, dimension), rowBytes = sum * bytes;
  std::byte *to = mutableDataOf<std::byte>(result);
  return PlannedKernel{[pieces = std::move(pieces), outer, rowBytes, to, team = request.team] {
    forPieces(team, outer, rowsOfTask(rowBytes), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        for (const Piece &piece : pieces)
          if (piece.rowBytes > 0)
            std::memcpy(to + o * rowBytes + piece.offset, piece.from + o * piece.rowBytes, piece.rowBytes);
    });
    return ok();
  }};
}

} // namespace kerf::runtime::kernels
