// SPDX-License-Identifier: Apache-2.0
// The layout that a plan without pins means on transformers: Megatron-LM's, found from the IR alone.
#pragma once

#include "kerf/Transforms/Placement.h"

namespace kerf {

enum class SequenceParallel { No, Yes };

/// The stream is what layers hand on, [batch, sequence, width]: its dimensions are followed through every op but
/// products.
///   - "model" cuts, at every product with a parameter and every table look-up, a factor of the parameter that the
///   stream does not
///     have: columns where the stream comes in, rows where it goes out (Shoeybi et al. 2019), the vocabulary of tables
///     and of the loss.
///   - Between them it cuts what the stream does not have (heads, the MLP's width), never the stream itself; with
///   SequenceParallel the
///     ops on the stream are cut along the sequence (Korthikanti et al. 2022).
///   - "data" cuts the batch wherever there is one.
/// What suits none of this is left whole. For buildProblem.
StrategyRank megatronLayout(mlir::ModuleOp module, const Mesh &mesh, SequenceParallel sequenceParallel);

} // namespace kerf
