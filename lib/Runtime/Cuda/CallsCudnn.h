// SPDX-License-Identifier: Apache-2.0
// Instructions that cuDNN computes, with limits that tests make small.
#pragma once

#include "Calls.h"

namespace kerf::runtime::cuda {

/// Most bytes of workspace for attention's gradients. Instructions that need more are computed slice by slice.
inline constexpr int64_t kMostBackwardWorkspace = int64_t(256) << 20;

/// Returns the calls of an attention_backward instruction that cuDNN computes with at most `mostBytes` of workspace, or
/// with the workspace of one key/value head of one batch entry if this is more. Returns nothing if cuDNN has no plan.
Result<std::optional<Calls>> attentionBackwardCalls(const CallRequest &request, int64_t mostBytes);

} // namespace kerf::runtime::cuda
