// SPDX-License-Identifier: Apache-2.0
// The choice among the algorithms that cuBLASLt proposes for a product.
#include "Gemm.h"
#include "Measuring.h"

namespace kerf::runtime::cuda {

namespace {
Result<CublasAlgorithm> fastest(GemmDescriptors &descriptors, const std::vector<CublasAlgorithm> &proposals) {
  const Gemm &gemm = descriptors.gemm;
  auto bench = Bench::create(descriptors.context,
                             {bytesOf(gemm.a, gemm.batches), bytesOf(gemm.b, gemm.batches),
                              bytesOf(gemm.d, gemm.batches), workspaceBytes(gemm),
                              biasElements(gemm) * bytesOf(gemm.d.type), auxElements(gemm) * bytesOf(gemm.d.type)});
  if (!bench)
    return proposals.front(); // the GPU has no memory left for a measurement
  auto memory = [&](size_t piece) { return (*bench)->memory(piece); };
  GemmPlaces places{memory(0), memory(1), memory(2), memory(3), memory(4), memory(5)};
  if (Status status = descriptors.setEpilogue(places); !status)
    return status.error();
  std::vector<LibraryCall> calls;
  for (const CublasAlgorithm &algorithm : proposals)
    calls.emplace_back([&](CudaStream &stream) { return descriptors.enqueue(algorithm, places, stream); });
  auto best = (*bench)->fastest(calls);
  return best ? Result<CublasAlgorithm>(proposals[*best]) : best.error();
}
} // namespace

Result<std::optional<CublasAlgorithm>> algorithmFor(GemmDescriptors &descriptors) {
  using Algorithm = std::optional<CublasAlgorithm>;
  auto proposals = descriptors.proposals();
  if (!proposals)
    return proposals.error();
  if (proposals->empty())
    return Algorithm();
  if (!descriptors.context->products.measures || proposals->size() == 1 ||
      multiplicationsOf(descriptors.gemm) < kLeastMeasured)
    return Algorithm(proposals->front());
  static Choices<Gemm, CublasAlgorithm> choices;
  auto best = choices.find(*descriptors.context, descriptors.gemm, [&] { return fastest(descriptors, *proposals); });
  return best ? Result<Algorithm>(Algorithm(*best)) : best.error();
}

} // namespace kerf::runtime::cuda
