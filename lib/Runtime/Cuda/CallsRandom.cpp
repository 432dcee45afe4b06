// SPDX-License-Identifier: Apache-2.0
// Calls of dropout, and of ops whose result depends on the rank (Kernels/Random.cu): shard_offset, local_slice and
// mask_padding.
#include "CallsRows.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace kerf::runtime::cuda {

namespace {
/// Returns the dimensions of the rank's part, with their strides in the global tensor of the sizes `whole`. Neighbours
/// of which the part has all inner elements are merged.
Result<Walk> walkOf(const Shape &part, const Shape &whole) {
  std::vector<std::pair<int64_t, int64_t>> dims; // sizes and strides, from the last dimension on
  int64_t stride = 1;
  for (size_t d = part.size(); d-- > 0; stride *= whole[d])
    if (d + 1 < part.size() && part[d + 1] == whole[d + 1])
      dims.back().first *= part[d];
    else
      dims.push_back({part[d], stride});
  if (dims.size() > size_t(kMostDims))
    return Error{fmt::format("dropout on the GPU takes tensors of up to {} split dimensions, and this one has {}; "
                             "reshape the tensor in the model",
                             kMostDims, dims.size())};
  Walk walk{int32_t(dims.size()), {}, {}};
  for (size_t d = 0; d < dims.size(); ++d) {
    walk.sizes[d] = dims[dims.size() - 1 - d].first;
    walk.strides[d] = dims[dims.size() - 1 - d].second;
  }
  return walk;
}

/// Returns the low bits of the neutral element of the maximum, or of the minimum.
template <typename X> uint64_t bitsOf(X value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(X)); // hosts with a GPU are little-endian
  return bits;
}
template <typename X> uint64_t extremeBits(bool isMaximum) {
  using Limits = std::numeric_limits<X>;
  if constexpr (std::is_floating_point_v<X>)
    return bitsOf(isMaximum ? -Limits::infinity() : Limits::infinity());
  else
    return bitsOf(isMaximum ? Limits::lowest() : Limits::max());
}
uint64_t neutralBits(DType dtype, bool isMaximum) {
  switch (dtype) {
  case DType::F64:
    return extremeBits<double>(isMaximum);
  case DType::F32:
    return extremeBits<float>(isMaximum);
  case DType::BF16:
    return isMaximum ? 0xff80 : 0x7f80; // infinities
  case DType::F16:
    return isMaximum ? 0xfc00 : 0x7c00;
  case DType::I64:
    return extremeBits<int64_t>(isMaximum);
  case DType::I32:
    return extremeBits<int32_t>(isMaximum);
  case DType::I16:
    return extremeBits<int16_t>(isMaximum);
  case DType::I8:
    return extremeBits<int8_t>(isMaximum);
  case DType::U64:
    return extremeBits<uint64_t>(isMaximum);
  case DType::U32:
    return extremeBits<uint32_t>(isMaximum);
  case DType::U16:
    return extremeBits<uint16_t>(isMaximum);
  case DType::U8:
    return extremeBits<uint8_t>(isMaximum);
  case DType::Bool:
    return isMaximum ? 0 : 1;
  case DType::F8E4M3FN: // factors of products are only filled with zeros (kernels::planMaskPadding)
  case DType::F8E5M2:
    return 0;
  }
  return 0;
}

Calls pieceOf(const CallRequest &r, int64_t begin, int64_t valid, uint64_t fill) {
  const TensorView &x = r.operand(0), &y = r.result();
  size_t dim = r.integer("dim");
  PieceParameters p{x.data,
                    y.data,
                    fill,
                    y.elements(),
                    x.shape[dim],
                    begin,
                    valid,
                    y.shape[dim],
                    product(y.shape, dim + 1),
                    int32_t(bytesOf(y.dtype))};
  Calls calls;
  addElementCall(calls, "Random", movingType(y.dtype), "piece", p.n, p);
  return calls;
}
} // namespace

Result<Calls> callDropout(const CallRequest &r) {
  constexpr size_t kPiece = 5; // operands x, seed, step, stream, and offset for a shard
  bool isPiece = r.operands() == kPiece;
  const TensorView &x = r.operand(0);
  Result<Walk> global = walkOf(x.shape, isPiece ? r.integers("sizes") : x.shape);
  if (!global)
    return global.error();
  auto scalar = [&](size_t i) { return static_cast<const int64_t *>(r.operand(i).data); };
  double rate = r.number("rate");
  constexpr int kWordBits = 32, kWords = 4; // bits of a random word, and words of a counter
  int64_t pack = packOfDropout(bytesOf(x.dtype));
  bool isPacked =
      areAligned({x.data, r.result().data}) && global->rank > 0 && global->sizes[global->rank - 1] % pack == 0;
  for (int d = 0; d + 1 < global->rank; ++d)
    isPacked &= global->strides[d] % kWords == 0;
  double threshold = std::min(std::ceil(std::ldexp(rate, kWordBits)), double(UINT32_MAX));
  DropoutParameters p{
      x.data,       r.result().data, scalar(1),           scalar(2), scalar(3), isPiece ? scalar(4) : nullptr,
      x.elements(), 1 / (1 - rate),  uint32_t(threshold), isPacked,  *global};
  Calls calls;
  addElementCall(calls, "Random", x.dtype, "dropout", (p.n + kWords - 1) / kWords, p);
  return calls;
}

Result<Calls> callShardOffset(const CallRequest &r) {
  int64_t offset = r.position("axes") * r.integer("chunk");
  Calls calls;
  addElementCall(calls, "Shape", DType::I64, "fill", 1,
                 FillParameters{nullptr, uint64_t(offset), r.result().data, 1, int32_t(bytesOf(r.result().dtype))});
  return calls;
}

Result<Calls> callMaskPadding(const CallRequest &r) {
  const TensorView &x = r.operand(0);
  int64_t chunk = x.shape[r.integer("dim")];
  int64_t valid = std::clamp<int64_t>(r.integer("size") - r.position("axes") * chunk, 0, chunk);
  std::string fill = r.attrs().at("fill").get<std::string>();
  return pieceOf(r, 0, valid, fill == "sum" ? 0 : neutralBits(x.dtype, fill == "max"));
}

Result<Calls> callLocalSlice(const CallRequest &r) {
  size_t dim = r.integer("dim");
  int64_t size = r.operand(0).shape[dim], chunk = r.result().shape[dim];
  int64_t begin = std::min(size, r.position("axes") * chunk);
  return pieceOf(r, begin, std::min(chunk, size - begin), 0);
}

} // namespace kerf::runtime::cuda
