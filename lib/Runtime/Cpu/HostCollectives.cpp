// SPDX-License-Identifier: Apache-2.0
#include "HostCollectives.h"
#include "../InstructionText.h"
#include "kerf/Runtime/Communicator.h"

#include <fmt/format.h>

namespace kerf::runtime {

namespace {
class HostCollectives : public CollectiveBackend {
public:
  HostCollectives(Communicator &communicator, FirstFault &firstFault, const SumOrderSeed &order,
                  HostAddress hostAddress)
      : communicator(communicator), firstFault(firstFault), order(order), hostAddress(std::move(hostAddress)) {}

  bool ordered() const override { return !order; }
  void reserve(size_t messages) override { communicator.reserve(messages); }

  Result<std::unique_ptr<BoundKernel>> bind(const CollectiveRequest &request) override {
    if (Status status = checkTag(request.tag + 1); !status)
      return status.error();
    CollectiveRequest own = request;
    auto scratchBytes = collectiveScratchBytes(request);
    if (!scratchBytes)
      return scratchBytes.error();
    for (std::vector<TensorView> *views : {&own.bind.operands, &own.bind.results})
      for (TensorView &view : *views) {
        auto address = hostAddress(view.data, view.bytes());
        if (!address)
          return address.error();
        view.data = *address;
      }
    auto scratch = hostAddress(own.bind.scratch, *scratchBytes);
    if (!scratch)
      return scratch.error();
    own.bind.scratch = *scratch;
    auto kernel = bindCollective(own, communicator, order);
    if (!kernel)
      return kernel.error();
    return bound(std::move(*kernel), request.bind.instruction, request.bind.number);
  }

  Result<std::unique_ptr<BoundKernel>> bindSend(const MessageRequest &request) override {
    return bound(request, [this, peer = request.peer, tag = request.tag](std::span<std::byte> bytes) {
      return communicator.startSend(bytes, peer, tag);
    });
  }
  Result<std::unique_ptr<BoundKernel>> bindSent(const MessageRequest &request) override {
    return bound(request, [this, tag = request.tag](std::span<std::byte>) { return communicator.finishSends(tag); });
  }
  Result<std::unique_ptr<BoundKernel>> bindReceive(const MessageRequest &request) override {
    return bound(request, [this, peer = request.peer, tag = request.tag](std::span<std::byte> bytes) {
      return communicator.receive(bytes, peer, tag);
    });
  }

private:
  Status checkTag(int64_t tag) const {
    if (tag <= communicator.maxTag())
      return ok();
    return Error{fmt::format("tag {} of this message is above {}, the largest that this MPI library allows; use fewer "
                             "microbatches",
                             tag, communicator.maxTag())};
  }

  /// Returns a kernel that calls act(bytes) with the bytes of the message's tensor.
  template <typename Act> Result<std::unique_ptr<BoundKernel>> bound(const MessageRequest &request, Act act) {
    if (Status status = checkTag(request.tag); !status)
      return status.error();
    auto address = hostAddress(request.tensor.data, request.tensor.bytes());
    if (!address)
      return address.error();
    std::span<std::byte> bytes(static_cast<std::byte *>(*address), size_t(request.tensor.bytes()));
    return bound([act, bytes] { return act(bytes); }, *request.instruction, request.number);
  }

  std::unique_ptr<BoundKernel> bound(Kernel function, const package::Instruction &instruction, int64_t number) {
    return std::make_unique<HostKernel>(
        [this, function = std::move(function), &instruction]() -> Status {
          Status status = function();
          if (status)
            return status;
          if (auto ended = communicator.failure())
            return *ended;
          communicator.abort(
              {rankMessage(communicator.rank(), instruction, status.error().message), status.error().status});
          return status;
        },
        number, firstFault);
  }

  Communicator &communicator;
  FirstFault &firstFault;
  SumOrderSeed order;
  HostAddress hostAddress;
};
} // namespace

std::unique_ptr<CollectiveBackend> createHostCollectives(Communicator &communicator, FirstFault &firstFault,
                                                         const SumOrderSeed &order, HostAddress hostAddress) {
  return std::make_unique<HostCollectives>(communicator, firstFault, order, std::move(hostAddress));
}

} // namespace kerf::runtime
