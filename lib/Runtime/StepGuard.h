// SPDX-License-Identifier: Apache-2.0
// Watches what steps update on one rank: finds numbers that are not finite, and takes a step back.
#pragma once

#include "Box.h"
#include "kerf/Runtime/Executor.h"
#include <string>

namespace kerf::runtime {

class StepGuard {
public:
  /// `pieces`: the arguments of `rank`. Those that a step updates are watched: parameters, buffers, states.
  StepGuard(const package::Program &program, int64_t rank, Device &device, const std::vector<ArgumentPiece> &pieces);

  /// Copies what the next step will update into host memory: as many bytes again as the rank's parameters, buffers and
  /// states have.
  Status keep();
  /// Copies back what `keep` has copied.
  Status putBack();
  /// Returns the name of the first watched tensor of which this rank holds an infinite element or a NaN, or "".
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

/// Returns whether every one of `elements` numbers in host memory is finite; true for types that are not floating.
bool allFinite(const void *data, DType dtype, int64_t elements);

} // namespace kerf::runtime
