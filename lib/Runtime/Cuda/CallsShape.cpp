// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels that create or move elements (Kernels/Shape.cu). Moves are strided copies that differ only in
// their strides.
#include "Calls.h"
#include "CallsCopy.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

std::vector<CopyDim> merged(const std::vector<CopyDim> &dims) {
  std::vector<CopyDim> all;
  for (const CopyDim &dim : dims) {
    if (dim.size == 1)
      continue;
    if (!all.empty() && all.back().from == dim.from * dim.size && all.back().to == dim.to * dim.size)
      all.back() = {all.back().size * dim.size, dim.from, dim.to};
    else
      all.push_back(dim);
  }
  return all;
}

Error tooManyDims(size_t dims) {
  return {fmt::format("the GPU's kernels walk over up to {} dimensions that cannot be merged, and {} are asked for; "
                      "reshape the tensor in the model",
                      kMostDims, dims)};
}

namespace {
/// Joins neighbouring elements to larger ones, up to 16 bytes, as far as all sizes, strides and addresses allow.
void joinElements(CopyParameters &p) {
  auto isWhole = [&](const void *address) {
    return reinterpret_cast<uintptr_t>(address) % uintptr_t(2 * p.bytes) == 0;
  };
  const int last = p.rank - 1;
  while (p.bytes < 16 && p.rank > 0 && p.fromStrides[last] == 1 && p.toStrides[last] == 1 && p.sizes[last] % 2 == 0 &&
         p.fromStart % 2 == 0 && p.toStart % 2 == 0 && isWhole(p.from) && isWhole(p.to)) {
    for (int d = 0; d < last; ++d)
      if (p.fromStrides[d] % 2 != 0 || p.toStrides[d] % 2 != 0)
        return;
    for (int d = 0; d < last; ++d)
      p.fromStrides[d] /= 2, p.toStrides[d] /= 2;
    p.bytes *= 2, p.sizes[last] /= 2, p.n /= 2, p.fromStart /= 2, p.toStart /= 2;
  }
}

/// Returns whether all places are below 2^31, counted from the first elements.
bool hasSmallPlaces(const CopyParameters &p) {
  int64_t from = 0, to = 0;
  for (int d = 0; d < p.rank; ++d) {
    from += (p.sizes[d] - 1) * p.fromStrides[d];
    to += (p.sizes[d] - 1) * p.toStrides[d];
  }
  return std::max({from, to, p.n}) < int64_t(1) << 31;
}

/// Returns the dimension along which `from` is contiguous, if tiles of it and of the last dimension are worth copying
/// through shared memory; -1 otherwise.
int transposedDim(const CopyParameters &p) {
  constexpr int64_t kFewest = 8; // elements of a side
  const int last = p.rank - 1;
  if (p.rank < 2 || p.bytes > 8 || p.toStrides[last] != 1 || p.fromStrides[last] <= 1 || p.sizes[last] < kFewest)
    return -1;
  for (int d = 0; d < last; ++d)
    if (p.fromStrides[d] == 1 && p.sizes[d] >= kFewest)
      return d;
  return -1;
}

/// Returns the dimension along which `from` is contiguous, if the last dimension has two to kMostInterleaved elements,
/// which become neighbours, and all rows of `from` are whole numbers of 16 bytes; -1 otherwise.
int interleavedDim(const CopyParameters &p) {
  constexpr int64_t kMostInterleaved = 4; // of the kernel `interleave`
  const int last = p.rank - 1;
  const int64_t width = 16 / p.bytes;
  auto isWhole = [&](const void *address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
  if (p.rank < 2 || p.bytes < 2 || p.bytes > 8 || p.sizes[last] > kMostInterleaved || p.toStrides[last] != 1 ||
      p.fromStrides[last] % width != 0 || p.fromStart % width != 0 || p.toStart % width != 0 || !isWhole(p.from) ||
      !isWhole(p.to))
    return -1;
  int found = -1;
  for (int d = 0; d < last; ++d)
    if (p.fromStrides[d] == 1 && p.toStrides[d] == p.sizes[last] && p.sizes[d] % width == 0)
      found = d;
    else if (p.fromStrides[d] % width != 0 || p.toStrides[d] % width != 0)
      return -1;
  return found;
}
} // namespace

Status addCopy(Calls &calls, const TensorView &from, const TensorView &to, const std::vector<CopyDim> &loops,
               int64_t fromStart, int64_t toStart) {
  std::vector<CopyDim> dims = merged(loops);
  if (dims.size() > size_t(kMostDims))
    return tooManyDims(dims.size());
  CopyParameters p{from.data, to.data, fromStart, toStart, 1, int32_t(bytesOf(to.dtype)), int32_t(dims.size()),
                   {},        {},      {}};
  for (const CopyDim &dim : loops)
    p.n *= dim.size;
  for (size_t d = 0; d < dims.size(); ++d)
    p.sizes[d] = dims[d].size, p.fromStrides[d] = dims[d].from, p.toStrides[d] = dims[d].to;
  if (p.n == 0)
    return ok();
  joinElements(p);
  p.isSmall = hasSmallPlaces(p);
  if (const int dim = interleavedDim(p); dim >= 0) {
    p.fromDim = dim;
    const int64_t width = 16 / p.bytes;
    calls.calls.push_back(elementCall("Shape", DType::I64, "interleave", p.n / (width * p.sizes[p.rank - 1]), p));
    return ok();
  }
  const int dim = transposedDim(p);
  if (dim < 0) {
    calls.calls.push_back(elementCall("Shape", DType::I64, "copy", p.n, p));
    return ok();
  }
  p.fromDim = dim;
  auto tiles = [](int64_t size) { return (size + kTransposeTile - 1) / kTransposeTile; };
  const int64_t columns = p.sizes[p.rank - 1], rows = p.sizes[dim];
  calls.calls.push_back(rowCall("Shape", DType::I64, "transpose", p.n / (columns * rows) * tiles(columns) * tiles(rows),
                                kTransposeThreads, p));
  return ok();
}

namespace {
Result<Calls> copyOf(const CallRequest &r, const std::vector<CopyDim> &loops, int64_t fromStart = 0) {
  Calls calls;
  if (Status status = addCopy(calls, r.operand(0), r.result(), loops, fromStart, 0); !status)
    return status.error();
  return calls;
}

/// Makes a call that sets all elements of a tensor to one value.
KernelCall fillCall(const FillParameters &p) {
  constexpr int64_t kBytesOfThread = 16;
  return elementCall("Shape", DType::I64, "fill", (p.n * p.bytes + kBytesOfThread - 1) / kBytesOfThread, p);
}
} // namespace

Result<Calls> callConstant(const CallRequest &r) {
  Calls calls;
  const TensorView &result = r.result();
  const auto &elements = r.attrs().at("value");
  int64_t n = result.elements(), bytes = bytesOf(result.dtype);
  if (n == 0)
    return calls;
  if (elements.size() == 1) {
    calls.calls.push_back(fillCall({nullptr, elementBits(elements[0], result.dtype), result.data, n, int32_t(bytes)}));
    return calls;
  }
  calls.constant.resize(size_t(n * bytes));
  for (int64_t i = 0; i < n; ++i) {
    uint64_t bits = elementBits(elements[size_t(i)], result.dtype);
    std::memcpy(calls.constant.data() + i * bytes, &bits, size_t(bytes)); // little-endian: the low bytes come first
  }
  calls.constantAt = offsetof(CopyParameters, from);
  if (Status status = addCopy(calls, {nullptr, result.dtype, result.shape}, result, {{n, 1, 1}}, 0, 0); !status)
    return status.error();
  return calls;
}

Result<Calls> callIota(const CallRequest &r) {
  Calls calls;
  const TensorView &result = r.result();
  auto dimension = size_t(r.integer("dimension"));
  int64_t n = result.elements();
  IotaParameters p{r.operands() > 0 ? r.operand(0).data : nullptr, result.data, n, result.shape[dimension],
                   product(result.shape, dimension + 1)};
  if (n > 0)
    calls.calls.push_back(elementCall("Shape", result.dtype, "iota", n, p));
  return calls;
}

Result<Calls> callBroadcast(const CallRequest &r) {
  const Shape &from = r.operand(0).shape, &to = r.result().shape;
  if (r.operand(0).elements() == 1) {
    Calls calls;
    if (r.result().elements() > 0)
      calls.calls.push_back(
          fillCall({r.operand(0).data, 0, r.result().data, r.result().elements(), int32_t(bytesOf(r.result().dtype))}));
    return calls;
  }
  std::vector<int64_t> map = r.integers("broadcast_dimensions"), fromStrides = rowMajorStrides(from),
                       toStrides = rowMajorStrides(to);
  std::vector<CopyDim> loops;
  for (size_t d = 0; d < to.size(); ++d)
    loops.push_back({to[d], 0, toStrides[d]});
  for (size_t d = 0; d < from.size(); ++d)
    loops[size_t(map[d])].from = from[d] == 1 ? 0 : fromStrides[d];
  return copyOf(r, loops);
}

Result<Calls> callTranspose(const CallRequest &r) {
  const Shape &to = r.result().shape;
  std::vector<int64_t> permutation = r.integers("permutation"), fromStrides = rowMajorStrides(r.operand(0).shape),
                       toStrides = rowMajorStrides(to);
  std::vector<CopyDim> loops;
  for (size_t d = 0; d < to.size(); ++d)
    loops.push_back({to[d], fromStrides[size_t(permutation[d])], toStrides[d]});
  return copyOf(r, loops);
}

Result<Calls> callSlice(const CallRequest &r) {
  const Shape &to = r.result().shape;
  std::vector<int64_t> start = r.integers("start"), strides = r.integers("strides"),
                       fromStrides = rowMajorStrides(r.operand(0).shape), toStrides = rowMajorStrides(to);
  std::vector<CopyDim> loops;
  int64_t first = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    loops.push_back({to[d], fromStrides[d] * strides[d], toStrides[d]});
    first += start[d] * fromStrides[d];
  }
  return copyOf(r, loops, first);
}

Result<Calls> callPad(const CallRequest &r) {
  Calls calls;
  const TensorView &from = r.operand(0), &to = r.result();
  std::vector<int64_t> low = r.integers("low"), interior = r.integers("interior"),
                       fromStrides = rowMajorStrides(from.shape), toStrides = rowMajorStrides(to.shape);
  if (int64_t n = to.elements(); n > 0)
    calls.calls.push_back(fillCall({r.operand(1).data, 0, to.data, n, int32_t(bytesOf(to.dtype))}));
  std::vector<CopyDim> loops;
  int64_t first = 0;
  for (size_t d = 0; d < to.shape.size(); ++d) {
    loops.push_back({from.shape[d], fromStrides[d], toStrides[d] * (interior[d] + 1)});
    first += low[d] * toStrides[d];
  }
  if (Status status = addCopy(calls, from, to, loops, 0, first); !status)
    return status.error();
  return calls;
}

Result<Calls> callConcatenate(const CallRequest &r) {
  Calls calls;
  const TensorView &to = r.result();
  auto dimension = size_t(r.integer("dimension"));
  int64_t inner = product(to.shape, dimension + 1), row = to.shape[dimension] * inner, begin = 0;
  for (const TensorView &from : r.request.operands) {
    int64_t width = from.shape[dimension] * inner;
    if (Status status =
            addCopy(calls, from, to, {{product(to.shape, 0, dimension), width, row}, {width, 1, 1}}, 0, begin);
        !status)
      return status.error();
    begin += width;
  }
  return calls;
}

Result<Calls> callSyncGradient(const CallRequest &r) {
  if (r.operand(0).data == r.result().data)
    return Calls();
  return copyOf(r, {{r.result().elements(), 1, 1}});
}

} // namespace kerf::runtime::cuda
