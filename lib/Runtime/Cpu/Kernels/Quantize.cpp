// SPDX-License-Identifier: Apache-2.0
// quantize, and dot_general with 8-bit factors. The product converts its factors to float32, in which they and the sums
// of their products have the values that the hardware of other devices computes with.
#include "Families.h"

#include "kerf/Package/Float8.h"

namespace kerf::runtime::kernels {

namespace {
const Float8Format &formatOf(DType dtype) { return dtype == DType::F8E5M2 ? kE5M2 : kE4M3FN; }

/// An 8-bit factor, its float32 copy in scratch memory, and the address of its magnitude.
struct Factor {
  const uint8_t *codes;
  float *copy;
  int64_t elements;
  DType dtype;
  const float *magnitude;

  void widen(ThreadTeam *team) const {
    const Float8Format &format = formatOf(dtype);
    float values[256];
    for (int code = 0; code < 256; ++code)
      values[code] = floatFromFloat8(uint8_t(code), format);
    forElements(team, elements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        copy[i] = values[codes[i]];
    });
  }
  float scale() const { return restoringScale(*magnitude, formatOf(dtype)); }
};
} // namespace

bool isFloat8(DType dtype) { return dtype == DType::F8E4M3FN || dtype == DType::F8E5M2; }

Result<PlannedKernel> planQuantize(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  const TensorView &x = request.operands[0], &magnitude = request.operands[1], &y = request.results[0];
  check.shape(y, "the result", x.shape);
  check.scalar(magnitude, "the magnitude");
  check.dtype(x, "the operand", DType::F32);
  check.dtype(magnitude, "the magnitude", DType::F32);
  check.require(isFloat8(y.dtype), "the result is {}, but must be f8e4m3fn or f8e5m2", typeText(y));
  if (check.failed())
    return check.error();
  return PlannedKernel{[from = dataOf<float>(x), size = dataOf<float>(magnitude), to = mutableDataOf<uint8_t>(y),
                        n = x.elements(), format = formatOf(y.dtype), team = request.team] {
    const float scale = quantizingScale(*size, format);
    forElements(team, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = float8FromFloat(from[i] * scale, format);
    });
    return ok();
  }};
}

Result<PlannedKernel> planFloat8Product(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(4, 4, 1))
    return check.error();
  check.dtype(request.results[0], "the result", DType::F32);
  ScratchLayout layout;
  std::vector<TensorView> wide(request.operands.begin(), request.operands.begin() + 2);
  std::vector<Factor> factors;
  for (size_t i = 0; i < 2; ++i) {
    const TensorView &magnitude = request.operands[i + 2];
    check.require(isFloat8(wide[i].dtype), "a factor is {}, but must be f8e4m3fn or f8e5m2", typeText(wide[i]));
    check.scalar(magnitude, "a magnitude");
    check.dtype(magnitude, "a magnitude", DType::F32);
    int64_t n = wide[i].elements();
    float *copy = scratchAt<float>(request.scratch, layout.take(n * int64_t(sizeof(float))));
    factors.push_back({dataOf<uint8_t>(wide[i]), copy, n, wide[i].dtype, dataOf<float>(magnitude)});
    wide[i].data = copy;
    wide[i].dtype = DType::F32;
  }
  if (check.failed())
    return check.error();
  Result<PlannedKernel> inner =
      planDotGeneral({request.instruction, std::move(wide), request.results, request.mesh, request.rank,
                      scratchAt<void>(request.scratch, layout.bytes()), request.team});
  if (!inner)
    return inner;
  return PlannedKernel{[factors, product = std::move(inner->kernel), y = mutableDataOf<float>(request.results[0]),
                        n = request.results[0].elements(), team = request.team] {
                         for (const Factor &factor : factors)
                           factor.widen(team);
                         Status status = product();
                         const float left = factors[0].scale(), right = factors[1].scale();
                         forElements(team, n, [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i)
                             y[i] = y[i] * left * right;
                         });
                         return status;
                       },
                       layout.bytes() + inner->scratchBytes};
}

} // namespace kerf::runtime::kernels
