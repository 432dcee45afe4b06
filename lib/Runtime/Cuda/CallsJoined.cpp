// SPDX-License-Identifier: Apache-2.0
// Calls of a product with an epilogue of cuBLASLt. Where the library has no algorithm for it, the instructions of the
// group run one after the other, and a product that is not stored lies in the memory of the group's result.
#include "Context.h"
#include "ProductPlan.h"

#include <algorithm>

namespace kerf::runtime::cuda {

namespace {
using package::EpilogueKind;

/// Returns the name that the library's epilogue has in Gemm.h.
Epilogue epilogueOf(const EpilogueTensors &tensors) {
  switch (tensors.kind) {
  case EpilogueKind::Bias:
    return tensors.bias ? Epilogue::Bias : Epilogue::None;
  case EpilogueKind::BiasGelu:
    return tensors.kept ? Epilogue::KeptGeluOfBias : Epilogue::GeluOfBias;
  case EpilogueKind::GeluGradient:
    return tensors.sums ? Epilogue::GeluGradientAndSums : Epilogue::GeluGradient;
  case EpilogueKind::FactorSums:
    return tensors.ofLeft ? Epilogue::SumsOfB : Epilogue::SumsOfA; // the right factor is the library's matrix A
  }
  return Epilogue::None;
}

/// Returns the tensor that the group adds to the product besides a bias (package::ProductAddition); nothing if there is
/// none. It is what the addition reads besides the product, which lies in the memory of the result, and the bias.
std::optional<TensorView> addendOf(const std::vector<KernelRequest> &parts, const EpilogueTensors &tensors) {
  if (tensors.kind != EpilogueKind::Bias)
    return std::nullopt;
  std::vector<TensorView> others = parts[1].operands;
  auto leaveOut = [&](const TensorView &view) {
    auto found = std::find_if(others.begin(), others.end(), [&](const TensorView &other) {
      return other.data == view.data && other.shape == view.shape;
    });
    if (found != others.end())
      others.erase(found);
  };
  leaveOut(parts[0].results[0]);
  if (tensors.bias)
    leaveOut(*tensors.bias);
  return others.empty() ? std::nullopt : std::optional(others.front());
}

/// Returns the call of the library that computes the whole group; nothing where it has none. `product` is the request
/// of the product alone.
Result<std::optional<Calls>> callTogether(const CallRequest &product, const EpilogueTensors &tensors,
                                          const std::optional<TensorView> &addend) {
  using None = std::optional<Calls>;
  bool sameFactors = product.operand(0).dtype == product.operand(1).dtype;
  auto plan = sameFactors ? planOf(product, product.gpu->products.tf32) : std::nullopt;
  if (!plan)
    return None();
  plan->gemm.epilogue = epilogueOf(tensors);
  plan->gemm.accumulates = addend.has_value();
  if (!isSupported(plan->gemm))
    return None();
  Calls calls;
  GemmPlaces places{nullptr, nullptr, tensors.result.data, nullptr};
  if (Status status = addOperands(calls, product, *plan, places); !status)
    return status.error();
  for (const auto *vector : {&tensors.bias, &tensors.sums})
    if (*vector)
      places.bias = (*vector)->data;
  if (tensors.kept)
    places.aux = tensors.kept->data;
  if (addend)
    places.c = addend->data;
  auto call = callIfOffered(product.gpu, plan->gemm, places);
  if (!call)
    return call.error();
  if (!*call)
    return None();
  calls.calls.emplace_back(std::move(**call));
  return std::optional(std::move(calls));
}
} // namespace

Result<Calls> callJoined(const CallRequest &r) {
  // The parts share the scratch memory, which is planned for the largest of them. The product with its epilogue needs
  // as much as the product alone.
  std::vector<KernelRequest> parts = r.request.parts;
  for (KernelRequest &part : parts)
    part.scratch = r.request.scratch;
  const EpilogueTensors &tensors = *r.request.epilogue;
  std::optional<TensorView> addend = addendOf(parts, tensors);
  if (addend && !tensors.bias) {
    // A product with a third operand adds it, by the library or in Kerf's own kernel, also where it is the result.
    KernelRequest &product = parts.front();
    product.operands.push_back(*addend);
    product.results = {tensors.result};
    return callsOf({product, r.faults, r.gpu});
  }
  bool isPlanned = !tensors.result.data;
  if (!isPlanned && r.gpu->products.usesLibrary) {
    auto together = callTogether({parts.front(), r.faults, r.gpu}, tensors, addend);
    if (!together)
      return together.error();
    if (*together)
      return std::move(**together);
  }
  Calls calls;
  for (const KernelRequest &part : parts) {
    auto its = callsOf({part, r.faults, r.gpu});
    if (!its)
      return its.error();
    calls.scratchBytes = std::max(calls.scratchBytes, its->scratchBytes);
    calls.calls.insert(calls.calls.end(), its->calls.begin(), its->calls.end());
  }
  return calls;
}

} // namespace kerf::runtime::cuda
