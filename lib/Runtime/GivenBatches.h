// SPDX-License-Identifier: Apache-2.0
// Batches that a caller gives, for one step at a time.
#pragma once

#include "BatchReader.h"
#include "kerf/Runtime/Session.h"

namespace kerf::runtime {

class GivenBatches : public BatchSource {
public:
  /// `inputs`, batches of a step, and users that take each of them.
  void open(size_t inputs, int64_t perStep, int64_t users);
  /// Takes the batches of the next step, whose tensors stay until the step after it. Nobody may be using the last ones.
  /// `expected` are the inputs, with an axis of batches in front where a step has several. Fails where `tensors` holds
  /// something else; then the batches are what they were.
  Status give(const TensorMap &tensors, const std::vector<BatchTensor> &expected);

  Result<const std::vector<const std::byte *> *> next(int64_t user) override;
  void release(int64_t user) override;

private:
  std::vector<Tensor> tensors;                       // of each input
  std::vector<std::vector<const std::byte *>> parts; // of each batch: each input's part
  std::vector<int64_t> taken;                        // batches, by each user
};

} // namespace kerf::runtime
