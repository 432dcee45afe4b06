// SPDX-License-Identifier: Apache-2.0
// Trainers that run some optimizers with less sharding and overlap than the others.
#pragma once

#include "kerf/CostModel/Trainer.h"

namespace kerf {

/// Returns the record of `trainer` for plans whose optimizer is `optimizer` (a word of --optimizer): `trainer` itself,
/// or a record with the same name and prices that has what the trainer runs with this optimizer.
const Trainer &trainerFor(const Trainer &trainer, std::string_view optimizer);

} // namespace kerf
