// SPDX-License-Identifier: Apache-2.0
// Watches the tensors that steps update on one rank: finds numbers that are not finite, and can undo a step.
#pragma once

#include "Box.h"
#include "kerf/Runtime/Executor.h"
#include <string>

namespace kerf::runtime {

/// Finds non-finite numbers in a rank's parameters, buffers and optimizer states, and can restore their values
/// before a step.
class StepGuard {
public:
  /// Watches those of `pieces`, the arguments of rank `rank`, that a step updates. Accumulated gradients
  /// are not watched.
  StepGuard(const package::Program &program, int64_t rank, Device &device, const std::vector<ArgumentPiece> &pieces);

  /// Copies the watched tensors to host memory. The copy takes as many bytes as the rank's parameters, buffers
  /// and optimizer states.
  Status snapshot();
  /// Restores the watched tensors from the last snapshot.
  Status rollBack();
  /// Returns the name of the first watched tensor in which this rank holds an infinite number or a NaN, or an empty
  /// text if all numbers are finite. Padding is ignored.
  Result<std::string> firstNonfinite();

private:
  struct Watched {
    const package::Arg *arg = nullptr;
    TensorView tensor;
    BoxCopy withoutPadding;
    std::vector<std::byte> kept;
  };
  Device &device;
  std::vector<Watched> watched;
};

/// Returns whether all of `elements` numbers in host memory are finite; true for types that are not floating.
bool allFinite(const void *data, DType dtype, int64_t elements);

} // namespace kerf::runtime
