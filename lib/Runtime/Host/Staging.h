// SPDX-License-Identifier: Apache-2.0
// Contents of tensors on their way to a device. Threads write them into host memory piece by piece, and each piece is
// copied to the device from there, so that no tensor needs as much host memory as device memory.
#pragma once

#include "kerf/Runtime/Cpu/ThreadTeam.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

class Staging {
public:
  /// Writes the elements [begin, end) of a tensor to `out`. Threads call it at the same time for different elements.
  using Write = std::function<Status(int64_t begin, int64_t end, std::byte *out)>;

  /// `ranks` is the number of ranks that fill their tensors at the same time in this process. They share its
  /// processors.
  Staging(Device &device, int64_t ranks);
  /// Fills a tensor of the device. The content does not depend on the number of threads. Fails with the error of
  /// `write` for the lowest elements.
  Status fill(const TensorView &tensor, const Write &write);

private:
  Device &device;
  const int64_t threads;
  std::unique_ptr<ThreadTeam> team;  // null before the first tensor of several pieces
  std::shared_ptr<std::byte> memory; // null before the first tensor
};

} // namespace kerf::runtime
