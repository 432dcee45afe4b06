// SPDX-License-Identifier: Apache-2.0
// Rows that the forks of Megatron-LM share.
#pragma once

#include "View.h"

namespace kerf::exporting {

/// The model's sizes as arguments of Megatron-LM.
Table megatronModelTable();
/// The same of Megatron-DeepSpeed, which was forked in 2023.
Table megatronDeepSpeedModelTable();
/// Alike in both.
Table megatronOptimizerTable();

} // namespace kerf::exporting
