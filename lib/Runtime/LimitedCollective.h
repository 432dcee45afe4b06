// SPDX-License-Identifier: Apache-2.0
// A collective that runs in some batches only (package::BatchRange).
#pragma once

#include "kerf/Package/Batches.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// The host memory from which results are set to zero; all limited collectives of a rank share it.
struct ZeroBytes {
  std::shared_ptr<std::byte> memory;
  int64_t bytes = 0;
};

/// Launches a collective, or a bucket of collectives, in the batches of a range. In other batches it sets the results
/// to zero, so that what is computed from them is defined.
class LimitedCollective : public BoundKernel {
public:
  /// `batch` is the number of the present batch, and `zeros` holds at least as many bytes as each result; both outlive
  /// this object.
  LimitedCollective(std::unique_ptr<BoundKernel> collective, package::BatchRange range, const int64_t &batch,
                    std::vector<TensorView> results, const ZeroBytes &zeros)
      : collective(std::move(collective)), range(range), batch(batch), results(std::move(results)), zeros(zeros) {}

  Status launch(Stream &stream) override {
    if (range.contains(batch))
      return collective->launch(stream);
    for (const TensorView &result : results)
      if (Status status = stream.copy(result.data, zeros.memory.get(), result.bytes(), CopyKind::ToDevice); !status)
        return status;
    return ok();
  }

private:
  std::unique_ptr<BoundKernel> collective;
  package::BatchRange range;
  const int64_t &batch;
  std::vector<TensorView> results;
  const ZeroBytes &zeros;
};

} // namespace kerf::runtime
