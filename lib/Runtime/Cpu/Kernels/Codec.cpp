// SPDX-License-Identifier: Apache-2.0
// Ops of the codecs of compressed gradients: random numbers, and several small integers in a byte.
#include "Families.h"
#include "Simd.h"

#include "kerf/Support/HashRandom.h"

namespace kerf::runtime::kernels {

Result<PlannedKernel> planRandomKey(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  check.scalar(request.operands[0], "the seed");
  check.scalar(request.operands[1], "the step");
  check.scalar(request.results[0], "the result");
  check.dtype(request.operands[0], "the seed", DType::I64);
  check.dtype(request.operands[1], "the step", DType::I64);
  check.dtype(request.results[0], "the result", DType::I32);
  const std::vector<AxisRef> axes = check.axes("axes");
  const int64_t stream = check.integer("stream");
  if (check.failed())
    return check.error();
  return PlannedKernel{[seed = dataOf<int64_t>(request.operands[0]), step = dataOf<int64_t>(request.operands[1]),
                        key = mutableDataOf<int32_t>(request.results[0]), stream,
                        place = position(request.mesh, axes, request.rank)] {
    *key = int32_t(hashKey(uint64_t(*seed), uint64_t(*step), uint64_t(stream), uint64_t(place)));
    return ok();
  }};
}

Result<PlannedKernel> planRandom(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &key = request.operands[0], &y = request.results[0];
  check.dtype(key, "the key", DType::I32);
  check.dtype(y, "the result", DType::F32);
  check.shape(y, "the result", key.shape);
  if (check.failed())
    return check.error();
  auto loop = [](auto, const int32_t *key, uint32_t first, float *y, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = hashUniform(uint32_t(key[i]), first + uint32_t(i));
  };
  return PlannedKernel{
      [=, key = dataOf<int32_t>(key), y = mutableDataOf<float>(y), n = y.elements(), team = request.team] {
        forElements(team, n, [&](int64_t i, int64_t end) { dispatch(loop, key + i, uint32_t(i), y + i, end - i); });
        return ok();
      }};
}

namespace {
/// Checks an instruction of pack or unpack. `codes` has an element in each byte, and `packed` has several.
Result<PlannedKernel> planPacking(const BindRequest &request, bool unpacks) {
  Checker check(request);
  if (!check.counts(1, 1, 1))
    return check.error();
  const TensorView &codes = unpacks ? request.results[0] : request.operands[0],
                   &packed = unpacks ? request.operands[0] : request.results[0];
  const int64_t bits = check.integer("bits");
  check.dtype(codes, "the tensor of elements", DType::I8);
  check.dtype(packed, "the tensor of bytes", DType::I8);
  check.require(bits == 1 || bits == 2 || bits == 4, "attribute 'bits' is {}, not 1, 2 or 4", bits);
  check.require(!packed.shape.empty(), "the tensor of bytes has no dimension");
  if (check.failed())
    return check.error();
  Shape expected = packed.shape;
  expected.back() *= 8 / bits;
  check.shape(codes, "the tensor of elements", expected);
  if (check.failed())
    return check.error();
  const int64_t width = packed.shape.back(), rows = width ? packed.elements() / width : 0;
  auto pack = [](auto, const uint8_t *x, uint8_t *y, int64_t width, int64_t bits) {
    const uint8_t mask = uint8_t((1 << bits) - 1);
    for (int64_t j = 0; j < width; ++j)
      y[j] = x[j] & mask;
    for (int64_t k = 1; k < 8 / bits; ++k)
      for (int64_t j = 0; j < width; ++j)
        y[j] |= uint8_t((x[k * width + j] & mask) << (k * bits));
  };
  auto unpack = [](auto, const uint8_t *y, uint8_t *x, int64_t width, int64_t bits) {
    const uint8_t mask = uint8_t((1 << bits) - 1);
    for (int64_t k = 0; k < 8 / bits; ++k)
      for (int64_t j = 0; j < width; ++j)
        x[k * width + j] = (y[j] >> (k * bits)) & mask;
  };
  const auto *from = dataOf<uint8_t>(request.operands[0]);
  auto *to = mutableDataOf<uint8_t>(request.results[0]);
  const int64_t wide = width * 8 / bits;
  return PlannedKernel{[=, team = request.team] {
    forPieces(team, rows, rowsOfTask(wide), [&](int64_t row, int64_t end) {
      for (; row < end; ++row)
        unpacks ? dispatch(unpack, from + row * width, to + row * wide, width, bits)
                : dispatch(pack, from + row * wide, to + row * width, width, bits);
    });
    return ok();
  }};
}
} // namespace

Result<PlannedKernel> planPack(const BindRequest &request) { return planPacking(request, false); }
Result<PlannedKernel> planUnpack(const BindRequest &request) { return planPacking(request, true); }

} // namespace kerf::runtime::kernels
