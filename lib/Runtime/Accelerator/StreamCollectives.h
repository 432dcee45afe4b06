// SPDX-License-Identifier: Apache-2.0
// Collectives and messages that a vendor's library runs on streams: the part that does not depend on the library.
#pragma once

#include "../Host/NativeCollective.h"
#include "GroupCommunicators.h"
#include "Streams.h"
#include "kerf/Runtime/CollectiveBackend.h"

#include <fmt/format.h>

namespace kerf::runtime {

/// Sends messages on streams beside the sender's, which goes on. A failure of a launch ends the run on all ranks,
/// because others may be waiting for this one.
class StreamCollectives : public CollectiveBackend {
public:
  StreamCollectives(Communicator &messages, const CollectiveOptions &options) : messages(messages), options(options) {}

  bool ordered() const final { return options.ordered; }
  void reserve(size_t) final {} // libraries have buffers of their own

  Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) final;
  Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) final;
  Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) final;

protected:
  using Handle = GroupCommunicators::Handle;
  using Act = std::function<Status(Stream &)>;
  virtual Result<std::unique_ptr<Stream>> newStream() = 0;
  virtual Result<std::unique_ptr<Event>> newEvent() = 0;
  /// Returns the communicators; there are several ranks.
  virtual GroupCommunicators &communicators() = 0;
  /// Enqueues a message with at least one byte to the other rank of a communicator.
  virtual Status send(const Handle &pair, const TensorView &tensor, Stream &on) = 0;
  virtual Status receive(const Handle &pair, const TensorView &tensor, Stream &on) = 0;
  /// Makes the device current on the calling thread.
  virtual Status use() = 0;
  /// Returns whether a launch that has failed ends the run, for which it may wait to learn what other ranks say.
  virtual bool endsRun() { return true; }
  /// Releases the streams and events of messages. To be called before the communicators are released.
  void endMessages();
  /// Returns a kernel that calls a function with its stream.
  std::unique_ptr<BoundKernel> calling(Act act);
  /// Returns a kernel that makes the steps of a collective, one after the other: launches (launchAll) before its
  /// messages, the messages, for which it calls exchange(step, groups, what, stream), and launches after them. `groups`
  /// are the groups of ranks that exchange messages.
  template <typename DeviceStream, typename Step, typename Groups, typename Exchange>
  Result<std::unique_ptr<BoundKernel>> stepping(std::vector<Step> steps, const Groups &groups,
                                                const CollectiveRequest &request, Exchange exchange);

  Communicator &messages;
  const CollectiveOptions options;

private:
  class Calling;
  /// A message that is sent beside the sender's stream. Messages of one tag to one rank share the stream, because
  /// libraries run the calls of a communicator in the order of one stream only.
  struct Sending {
    std::shared_ptr<Stream> stream;
    std::unique_ptr<Event> ready, sent;
  };
  /// Returns the state of a message.
  Result<std::shared_ptr<Sending>> sendingOf(const MessageRequest &request);
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<Stream>> sendStreams;        // by peer and tag
  std::map<std::tuple<void *, int64_t, int64_t>, std::shared_ptr<Sending>> sendings; // by data, peer and tag
};

template <typename DeviceStream, typename Step, typename Groups, typename Exchange>
Result<std::unique_ptr<BoundKernel>> StreamCollectives::stepping(std::vector<Step> steps, const Groups &groups,
                                                                 const CollectiveRequest &request, Exchange exchange) {
  std::vector<Handle> handles(groups.size());
  if (messages.size() > 1) {
    auto all = communicators().ofGroups(groups, request.tag);
    if (!all)
      return all.error();
    handles = std::move(*all);
  }
  auto shared = std::make_shared<std::vector<Step>>(std::move(steps)); // functions have to be copied
  return calling([steps = std::move(shared), handles = std::move(handles), exchange,
                  what = fmt::format("run {}", request.bind.instruction.op)](Stream &stream) {
    auto &on = static_cast<DeviceStream &>(stream);
    for (Step &step : *steps) {
      Status status = launchAll(step.before, on);
      if (status)
        status = exchange(step, handles, what, on);
      if (status)
        status = launchAll(step.after, on);
      if (!status)
        return status;
    }
    return ok();
  });
}

/// Enqueues a collective that a library computes as a whole. `library` is the table of its functions.
template <typename Library>
int enqueueNative(const Library &library, const NativeCollective &native, void *communicator, void *stream) {
  switch (native.kind) {
  case NativeCollective::Kind::AllReduce:
    return library.allReduce(native.from, native.to, native.count, native.type, native.combine, communicator, stream);
  case NativeCollective::Kind::ReduceScatter:
    return library.reduceScatter(native.from, native.to, native.count, native.type, native.combine, communicator,
                                 stream);
  case NativeCollective::Kind::AllGather:
    break;
  }
  return library.allGather(native.from, native.to, native.count, native.type, communicator, stream);
}

} // namespace kerf::runtime
