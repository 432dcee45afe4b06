// SPDX-License-Identifier: Apache-2.0
#include "StreamCollectives.h"

#include <fmt/format.h>

namespace kerf::runtime {

class StreamCollectives::Calling : public BoundKernel {
public:
  Calling(StreamCollectives &collectives, Act act) : collectives(collectives), act(std::move(act)) {}
  Status launch(Stream &stream) override {
    Status status = collectives.use();
    if (status)
      status = act(stream);
    Communicator &messages = collectives.messages;
    if (!status && collectives.endsRun() && !messages.failure())
      messages.abort({fmt::format("rank {}: {}", messages.rank(), status.error().message), status.error().status});
    return status;
  }

private:
  StreamCollectives &collectives;
  Act act;
};

std::unique_ptr<BoundKernel> StreamCollectives::calling(Act act) {
  return std::make_unique<Calling>(*this, std::move(act));
}

void StreamCollectives::endMessages() {
  sendings.clear();
  sendStreams.clear();
}

Result<std::shared_ptr<StreamCollectives::Sending>> StreamCollectives::sendingOf(const MessageRequest &request) {
  auto [found, isNew] = sendings.try_emplace({request.tensor.data, request.peer, request.tag}, nullptr);
  if (!isNew)
    return found->second;
  auto sending = std::make_shared<Sending>();
  std::shared_ptr<Stream> &shared = sendStreams[{request.peer, request.tag}];
  if (!shared) {
    auto stream = newStream();
    if (!stream)
      return stream.error();
    shared = std::move(*stream);
  }
  sending->stream = shared;
  for (std::unique_ptr<Event> *event : {&sending->ready, &sending->sent}) {
    auto made = newEvent();
    if (!made)
      return made.error();
    *event = std::move(*made);
  }
  return found->second = sending;
}

Result<std::unique_ptr<BoundKernel>> StreamCollectives::bindSend(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  auto pair = communicators().ofMessage(messages.rank(), request.peer, request.tag);
  if (!pair)
    return pair.error();
  return calling([this, sending = *sending, pair = *pair, view = request.tensor](Stream &on) -> Status {
    Stream &own = *sending->stream;
    Status status = on.record(*sending->ready);
    if (status)
      status = own.wait(*sending->ready);
    if (status && view.bytes() > 0)
      status = send(pair, view, own);
    return status ? own.record(*sending->sent) : status;
  });
}

Result<std::unique_ptr<BoundKernel>> StreamCollectives::bindSent(const MessageRequest &request) {
  auto sending = sendingOf(request);
  if (!sending)
    return sending.error();
  return calling([sending = *sending](Stream &on) { return on.wait(*sending->sent); });
}

Result<std::unique_ptr<BoundKernel>> StreamCollectives::bindReceive(const MessageRequest &request) {
  auto pair = communicators().ofMessage(request.peer, messages.rank(), request.tag);
  if (!pair)
    return pair.error();
  return calling([this, pair = *pair, view = request.tensor](Stream &on) -> Status {
    return view.bytes() > 0 ? receive(pair, view, on) : ok();
  });
}

} // namespace kerf::runtime
