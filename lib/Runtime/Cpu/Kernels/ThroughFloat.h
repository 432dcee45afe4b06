// SPDX-License-Identifier: Apache-2.0
// 16-bit floats by float32 copies, for ops without kernels of their own for 16 bits.
#pragma once

#include "Common.h"

namespace kerf::runtime::kernels {

/// Returns whether the type is bf16 or f16.
inline bool isHalf(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

/// Returns whether an operand or a result of the instruction is bf16 or f16.
bool hasHalf(const BindRequest &request);

/// Plans an instruction on float32 copies of its 16-bit tensors, which lie in scratch memory.
Result<PlannedKernel> planThroughFloat(const BindRequest &request, PlanFunction plan);

} // namespace kerf::runtime::kernels
