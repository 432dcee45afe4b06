// SPDX-License-Identifier: Apache-2.0
// Copies of the next batch to the device while a step runs, on a stream of their own and into memory of their own. The
// next step begins with copies from there to the inputs, inside the device.
#pragma once

#include "kerf/Runtime/Device.h"
#include <map>

namespace kerf::runtime {

class FeedsAhead {
public:
  /// Prepares the copies. `memory` has the memory for the next batch of each input, by the input's address. The steps
  /// run on `compute`. The events and the stream must outlive this object.
  Status prepare(Device &device, Stream &compute, Event &arrived, Event &taken,
                 std::map<const void *, std::byte *> memory);
  /// Starts the copy of an input's next content from `host`, which must stay as it is until wait() returns.
  Status start(const TensorView &input, const void *host);
  /// Gives the inputs what was started since the last call.
  Status finish();
  /// Waits until the copies from the host have ended. Without prepare(), there are none.
  Status wait() { return stream ? stream->synchronize() : ok(); }

private:
  /// An input's copy to the memory for the next batch.
  struct Started {
    void *input;
    const std::byte *ahead;
    int64_t bytes;
  };

  std::map<const void *, std::byte *> memory;
  std::vector<Started> started; // since the last finish()
  Stream *compute = nullptr;
  Event *arrived = nullptr, *taken = nullptr; // recorded when what was started has arrived, and when the inputs have it
  std::unique_ptr<Stream> stream;             // runs the copies from the host
};

} // namespace kerf::runtime
