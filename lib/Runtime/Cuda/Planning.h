// SPDX-License-Identifier: Apache-2.0
// The rules by which memory of a GPU is planned. The device that runs programs and the one that only plans them share
// these functions, so a plan that is made without a GPU has the bytes that a run allocates.
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

/// Bytes: the alignment that cuMemAlloc gives, which is enough for 16-byte accesses of all kernels.
inline constexpr int64_t kMemoryAlignment = 256;
/// Bytes that divide the addresses and distances of rows that attention finds in a wider tensor: what cuDNN wants.
inline constexpr int64_t kRowPartAlignment = 16;

/// Checks an instruction with the CPU's plan function of its operator. The calls of compiled kernels check themselves.
Status checkInstruction(const KernelRequest &request);
/// Returns the scratch memory of an instruction on this GPU (Device::scratchBytes).
Result<int64_t> scratchBytesOn(const std::shared_ptr<Context> &gpu, const KernelRequest &request);
/// Returns how products are computed, as the environment and the options say. Ranks of several processes cannot agree
/// on measurements, and take the library's first proposal.
Result<ProductOptions> productOptions(const DeviceOptions &options);
/// Returns the compute capability of a product, which may begin with "NVIDIA": 80 for "A100-SXM4-80GB". A product that
/// is not known has the lowest capability on which Kerf runs.
int capabilityOfProduct(std::string_view product);
/// Creates a device that plans memory for a GPU, without a driver (DeviceKind::plan).
Result<std::unique_ptr<Device>> createCudaPlanningDevice(std::string_view product);

} // namespace kerf::runtime::cuda
