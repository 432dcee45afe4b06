// SPDX-License-Identifier: Apache-2.0
#include "FeedsAhead.h"

namespace kerf::runtime {

Status FeedsAhead::prepare(Device &device, Stream &computeStream, Event &arrivedEvent, Event &takenEvent,
                           std::map<const void *, std::byte *> memoryOfInputs) {
  auto created = device.createStream(StreamKind::Auxiliary);
  if (!created)
    return created.error();
  stream = std::move(*created);
  compute = &computeStream, arrived = &arrivedEvent, taken = &takenEvent;
  memory = std::move(memoryOfInputs);
  stream->reserve(memory.size() + 2);
  return compute->record(*taken);
}

Status FeedsAhead::start(const TensorView &input, const void *host) {
  std::byte *ahead = memory.at(input.data);
  if (started.empty()) // the memory is free when the inputs have what was in it
    if (Status status = stream->wait(*taken); !status)
      return status;
  started.push_back({input.data, ahead, input.bytes()});
  return stream->copy(ahead, host, input.bytes(), CopyKind::ToDevice);
}

Status FeedsAhead::finish() {
  if (started.empty())
    return ok();
  Status status = stream->record(*arrived);
  if (status)
    status = compute->wait(*arrived);
  for (auto [input, ahead, bytes] : started)
    if (status)
      status = compute->copy(input, ahead, bytes, CopyKind::OnDevice);
  started.clear();
  return status ? compute->record(*taken) : status;
}

} // namespace kerf::runtime
