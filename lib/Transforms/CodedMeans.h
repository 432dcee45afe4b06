// SPDX-License-Identifier: Apache-2.0
// Sums of an optimizer's mean or momentum of gradients in place of the gradients, and the steps that ranks take between
// two sums.
#pragma once

#include "Compression.h"
#include "CompressionStates.h"

namespace kerf {

/// Lets parameters whose gradients none of the collectives `sums` adds up take no local steps: each rank has their
/// whole gradients in each step, as on one rank, or where ranks gather samples in place of gradients.
void updateInEachStep(mlir::func::FuncOp main, mlir::ArrayRef<CompressedSync> sums);

/// Replaces the sum of gradients `start` by the sum of what the optimizer's new mean of gradients depends on, on each
/// rank
///
///   gradient + f / ranks * mean        f = decay / (1 - decay)
///
/// and subtracts f * mean from the sum. The new mean is then (1 - decay) times what was sent, so that codec and error
/// feedback apply to the mean. Does nothing where `how` names no optimizer.
///
/// With local steps, each rank has a mean of its own, and moves by it: two states of a rank, which a sum sets to zero,
///
///   compression_mean/NAME = own - mean        own := decay * own + (1 - decay) * ranks * gradient
///   compression_moves/NAME                    moves := moves + rate * own
///
/// The model reads the parameter less what it loses by `moves` (CodedMean), and the optimizer reads the parameter
/// itself. A sum adds up
///
///   moves / (sum of rates) / ranks / (1 - decay)
///
/// Returns the sum of rates since the last sum, this step's included, which is the rate of the exchange's errors; a
/// null value without local steps. Reports an error where a rank has not the whole mean, and where ranks of the group
/// have parts of the same samples.
mlir::FailureOr<mlir::Value> sumMeanInstead(mlir::Operation *start, const CompressedSync &how, const Mesh &mesh,
                                            CompressionStates &states);

/// Makes `start` sum gradients with momentum, whose sum is the optimizer's new state, on each rank
///
///   gradient + momentum / ranks * state
///
/// The optimizer adds the momentum by itself, so momentum * state is subtracted from the sum. Where the ranks have only
/// parts of the state, each rank has a momentum of its own instead, which the exchange adds (`how.momentum`). Does
/// nothing where `how` names no such state. Reports an error where a rank has another part of the state than of the
/// sum.
mlir::LogicalResult sumWithMomentum(mlir::Operation *start, CompressedSync &how, CompressionStates &states);

/// Merges equal scalars: with local steps, all parameters compute the same from the number of the batch. Tensors stay,
/// so that kernels compute them anew and do not hand them on in memory.
void mergeScalars(mlir::Block &block);

} // namespace kerf
