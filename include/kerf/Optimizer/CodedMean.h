// SPDX-License-Identifier: Apache-2.0
// Optimizers that let ranks sum a mean of gradients in place of the gradients, and the batches in which they do.
#pragma once

#include "kerf/Optimizer/Record.h"
#include "kerf/Optimizer/Term.h"
#include "kerf/Support/Batches.h"

namespace kerf {

/// The batches in which ranks sum something.
struct SumBatches {
  BatchSet plain; // gradients are summed plainly
  BatchSet coded; // what ranks sum is encoded
  BatchSet sums;  // both together. In other batches each rank takes a local step, without a sum
  /// Returns whether there are local steps.
  bool hasLocalSteps() const { return sums != BatchSet{{BatchRange{}}}; }
};

/// Returns batches that all sum, from `first` on in codes.
SumBatches codedFrom(int64_t first);

/// The distances of 0/1 Adam.
struct GrowingDistances {
  int64_t freeze; // number of batches before local steps begin; all of them sum
  /// Before `freeze`, distances between plain sums are 1, 2, 4, ..., each of them `plainSums` times.
  int64_t plainSums;
  /// From `freeze` on, distances between sums are 1, 2, 4, ..., but at most `longest`, each of them for at least
  /// `localSteps` batches.
  int64_t localSteps, longest;
};
/// Returns the batches that sum at these distances.
///
///   freeze 10, plainSums 2, localSteps 4, longest 4
///     batch 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
///     plain p p p . p . p . . .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
///     coded . . . c . c . c c c  c  c  c  c  .  c  .  c  .  .  .  c  .  .  .  c
SumBatches sumsAt(const GrowingDistances &distances);

/// Returns the number of batches of the set before `batch`, a scalar.
Term countBefore(const BatchSet &batches, const Term &batch);

/// A mean of gradients that ranks may sum in codes with error feedback, because the rest of the rule is linear in it,
/// but for the batches that sum plainly.
struct CodedMean {
  const char *state = nullptr; // name of the state that is the mean
  const char *decay = nullptr; // setting: new mean = decay * old mean + (1 - decay) * gradient
  /// Returns the batches that sum, where a plan encodes from batch `first` on.
  SumBatches (*batches)(const SettingValues &settings, int64_t first) = nullptr;
  const char *longest = nullptr; // setting: the longest distance of two sums; null: there are no local steps
  /// Returns what a parameter loses by `rate * mean`, as in the rule; null where there are no local steps. After a
  /// local step, ranks differ by this of their own sums of learning rate times mean.
  Term (*change)(Update &update, const Term &rate, const Term &mean) = nullptr;
};

} // namespace kerf
