// SPDX-License-Identifier: Apache-2.0
// Work of a rank's streams that the driver records as one graph and launches with one call.
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

/// A graph that is ready to be launched.
class CudaGraph : public BoundKernel {
public:
  /// Records the work that `enqueue` puts on `origin`, and on streams that wait for `origin`'s events, without doing
  /// it. Fails if `enqueue` fails or makes a call that the driver does not record, or if `origin` does not wait for all
  /// of the work. The streams then work as before.
  static Result<std::unique_ptr<CudaGraph>> record(CudaStream &origin, const std::function<Status()> &enqueue);
  ~CudaGraph() override;
  /// Enqueues the graph's work on a stream of its GPU. Fails after `release`.
  Status launch(Stream &stream) override;
  /// Gives the graph back to the driver, which first finishes a launch that is under way. NCCL ends a communicator only
  /// when no graph holds calls of it.
  void release();

private:
  explicit CudaGraph(std::shared_ptr<Context> context);
  std::shared_ptr<Context> context;
  DriverGraph executable = nullptr; // null after `release`
};

} // namespace kerf::runtime::cuda
