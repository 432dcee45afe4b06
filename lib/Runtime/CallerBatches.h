// SPDX-License-Identifier: Apache-2.0
// Batches that the caller of Session::step passes, one step at a time.
#pragma once

#include "BatchReader.h"
#include "kerf/Runtime/Session.h"

namespace kerf::runtime {

/// A source of batches whose data the caller supplies before each step.
class CallerBatches : public BatchSource {
public:
  /// Prepares for batches of `inputs` tensors, `perStep` batches in each step, and `users` ranks that each
  /// take every batch.
  void open(size_t inputs, int64_t perStep, int64_t users);
  /// Supplies the batches of the next step, and keeps their tensors until the next call. No rank may be using
  /// the previous step's batches. `expected` describes the inputs; if a step has several batches, the first
  /// axis of each input counts them. Fails, and keeps the previous batches, if `tensors` does not contain
  /// exactly the expected inputs.
  Status give(const TensorMap &tensors, const std::vector<BatchTensor> &expected);

  Result<const std::vector<const std::byte *> *> next(int64_t user) override;
  void release(int64_t user) override;

private:
  std::vector<Tensor> tensors;                       // one tensor for each input, holding all batches of the step
  std::vector<std::vector<const std::byte *>> parts; // [batch of the step][input]: where the batch's data begins
  std::vector<int64_t> taken;                        // for each user: batches of the step that it has released
};

} // namespace kerf::runtime
