// SPDX-License-Identifier: Apache-2.0

// Tables of rows that Megatron-LM and its fork Megatron-DeepSpeed share.
#pragma once

#include "View.h"

namespace kerf::exporting {

/// Returns the rows that write the model's sizes as arguments of Megatron-LM.
Table megatronModelTable();
/// Returns the rows that write the model's sizes as arguments of Megatron-DeepSpeed, a fork of 2023.
Table megatronDeepSpeedModelTable();
/// Returns the rows that write the optimizer's settings, which are the same arguments in both.
Table megatronOptimizerTable();

} // namespace kerf::exporting
