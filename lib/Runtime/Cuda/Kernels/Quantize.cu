// SPDX-License-Identifier: Apache-2.0
// 8-bit floats: quantization of a tensor, and the parts of a product with 8-bit factors that run beside the product
// itself. All conversions are integer code, because only GPUs from sm_89 on have instructions for them.
#include "DeviceCode.h"
#include "ParametersQuantize.h"
#pragma clang force_cuda_host_device begin
#include "kerf/Package/Float8.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

KERF_DEVICE Float8Format formatOf(int32_t format) {
  return format == 0 ? Float8Format{3, -6, 0x7e, 448, false} : Float8Format{2, -14, 0x7b, 57344, true};
}

KERF_KERNEL void quantize(QuantizeParameters p) {
  const Float8Format format = formatOf(p.format);
  const float scale = quantizingScale(float(at(p.magnitude, 0)), format);
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    p.y[i] = float8FromFloat(float(at(p.x, i)) * scale, format);
}

KERF_KERNEL void widen(WidenParameters p) {
  const Float8Format format = formatOf(p.format);
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    put(p.y, i, N(floatFromFloat8(p.codes[i], format)));
}

KERF_KERNEL void scales(ScalesParameters p) {
  if (firstElement() != 0)
    return;
  p.scales[0] = restoringScale(float(at(p.left, 0)), formatOf(p.leftFormat));
  p.scales[kScaleStride] = restoringScale(float(at(p.right, 0)), formatOf(p.rightFormat));
}

KERF_KERNEL void restore(RestoreParameters p) {
  for (int64_t i = firstElement(); i < p.n; i += elementStep())
    put(p.y, i, N(p.x[i] * p.scales[0] * p.scales[kScaleStride]));
}

} // namespace kerf::runtime::cuda
