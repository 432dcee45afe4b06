// SPDX-License-Identifier: Apache-2.0
// Functions that the device that runs and the device that plans memory share.
#pragma once

#include "Calls.h"

namespace kerf::runtime::ascend {

/// Checks an instruction as the CPU's kernel of the same op does, so that the calls need no checks of their own.
Status checkInstruction(const KernelRequest &request);
/// Returns the bytes of scratch memory that the calls of an instruction need.
Result<int64_t> scratchBytesOn(const Target &target, const KernelRequest &request);
/// Returns the code of any package for NPUs: none, because each op of a fused kernel runs as an operator of CANN.
std::shared_ptr<const DeviceCode> noCode();
/// Creates the device that plans memory (DeviceKind::plan).
Result<std::unique_ptr<Device>> createAscendPlanningDevice(std::string_view product);

} // namespace kerf::runtime::ascend
