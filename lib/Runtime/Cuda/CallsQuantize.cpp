// SPDX-License-Identifier: Apache-2.0
// Calls for quantize and for products with 8-bit factors. cuBLASLt multiplies 8-bit factors on GPUs from compute
// capability 8.9 on, where all sizes are multiples of 16. Other products are computed from bf16 copies of the factors,
// which have the same values, into a float32 result.
#include "Kernels/ParametersQuantize.h"
#include "ProductPlan.h"

namespace kerf::runtime::cuda {

namespace {
constexpr int kLeastCapability = 89; // of 8-bit products: the generations Ada and Hopper
int32_t formatOf(const TensorView &view) { return view.dtype == DType::F8E5M2; }

/// Adds the scales of both factors to the calls, and returns their address in scratch memory.
float *addScales(Calls &calls, const CallRequest &r) {
  auto *scales = static_cast<float *>(r.scratch(calls.scratchBytes));
  calls.scratchBytes += 2 * kScaleStride * int64_t(sizeof(float));
  ScalesParameters p{r.operand(2).data, r.operand(3).data, scales, formatOf(r.operand(0)), formatOf(r.operand(1))};
  calls.calls.push_back(elementCall("Quantize", r.operand(2).dtype, "scales", 1, p));
  return scales;
}

/// Appends calls whose scratch memory begins behind that of `calls`.
void append(Calls &calls, Calls &&more) {
  for (Call &call : more.calls)
    calls.calls.push_back(std::move(call));
  calls.scratchBytes += more.scratchBytes;
}

Result<Calls> callThroughHalf(const CallRequest &r) {
  Calls calls;
  const float *scales = addScales(calls, r);
  KernelRequest wide = r.request;
  wide.operands.resize(2);
  for (TensorView &factor : wide.operands) {
    TensorView copy{r.scratch(calls.scratchBytes), DType::BF16, factor.shape};
    calls.scratchBytes += scratchPart(copy.bytes());
    WidenParameters p{static_cast<const uint8_t *>(factor.data), copy.data, factor.elements(), formatOf(factor)};
    if (p.n > 0)
      calls.calls.push_back(elementCall("Quantize", DType::BF16, "widen", p.n, p));
    factor = copy;
  }
  TensorView &product = wide.results[0];
  product = {r.scratch(calls.scratchBytes), DType::F32, product.shape};
  calls.scratchBytes += scratchPart(product.bytes());
  wide.scratch = r.scratch(calls.scratchBytes);
  auto multiplied = callDotGeneral({wide, r.faults, r.gpu});
  if (!multiplied)
    return multiplied.error();
  append(calls, std::move(*multiplied));
  RestoreParameters p{static_cast<const float *>(product.data), scales, r.result().data, product.elements()};
  calls.calls.push_back(elementCall("Quantize", r.result().dtype, "restore", p.n, p));
  return calls;
}
} // namespace

Result<Calls> callQuantize(const CallRequest &r) {
  Calls calls;
  const TensorView &x = r.operand(0), &y = r.result();
  QuantizeParameters p{x.data, r.operand(1).data, static_cast<uint8_t *>(y.data), y.elements(), formatOf(y)};
  if (p.n > 0)
    calls.calls.push_back(elementCall("Quantize", x.dtype, "quantize", p.n, p));
  return calls;
}

Result<Calls> callFloat8Product(const CallRequest &r) {
  if (r.result().elements() == 0)
    return Calls();
  bool hasProducts = r.gpu->products.usesLibrary && r.gpu->capability() >= kLeastCapability;
  auto plan = hasProducts ? planOf(r, false) : std::nullopt;
  if (!plan)
    return callThroughHalf(r);
  Calls calls;
  const float *scales = addScales(calls, r);
  KernelRequest rest = r.request;
  rest.scratch = r.scratch(calls.scratchBytes);
  GemmPlaces places{r.operand(1).data, r.operand(0).data, r.result().data, nullptr};
  if (scales) { // the library's A is the right factor
    places.scaleA = scales + kScaleStride;
    places.scaleB = scales;
  }
  auto multiplied = callsOfPlan({rest, r.faults, r.gpu}, *plan, places);
  if (!multiplied)
    return multiplied.error();
  append(calls, std::move(*multiplied));
  return calls;
}

} // namespace kerf::runtime::cuda
