// SPDX-License-Identifier: Apache-2.0
// Collectives that run in some batches only (kerf/Package/Batches.h).
#pragma once

#include "kerf/Package/Batches.h"
#include "kerf/Package/FlatProgram.h"
#include "kerf/Runtime/Device.h"

#include <functional>

namespace kerf::runtime {

/// The state that the limited collectives of a rank share: the number of the present batch, and zeros for their
/// results. It outlives their kernels.
class CollectiveLimits {
public:
  using ViewOf = std::function<TensorView(int value)>;
  /// Reads which collectives of the flat program are limited; `viewOf` returns the tensor of a flat value. Fails where
  /// the program tells no number of the batch.
  Status prepare(Device &device, const package::Program &program, const package::FlatProgram &flat,
                 const ViewOf &viewOf);
  /// Returns whether there are limited collectives. Recordings of a step would repeat what one batch did.
  bool any() const { return zeroBytes > 0; }
  /// Reads the number of the batch where `argument`, whose content lies at `host`, is that number.
  void read(const TensorView &argument, const void *host);
  /// Returns the most results of a limited collective, each of which is one more call where it is set to zero.
  size_t mostResults() const { return most; }
  /// Returns a kernel that launches a collective, or a bucket of collectives, in the instruction's batches.
  /// In other batches it sets the results to zero, so that what is computed from them is defined.
  Result<std::unique_ptr<BoundKernel>> limited(std::unique_ptr<BoundKernel> collective,
                                               const package::FlatInstruction &instruction, const ViewOf &viewOf) const;

private:
  class Limited;
  std::shared_ptr<std::byte> zeros; // in the host's memory
  int64_t zeroBytes = 0;            // of the largest result
  size_t most = 0;
  const void *batchArgument = nullptr; // the argument of kind step
  int64_t batch = 0;                   // its value
};

} // namespace kerf::runtime
