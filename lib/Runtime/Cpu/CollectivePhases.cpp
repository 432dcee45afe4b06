// SPDX-License-Identifier: Apache-2.0
#include "CollectivePhases.h"

#include <cstring>

namespace kerf::runtime {

Status Phase::holdSends() const {
  const Outgoing *last = nullptr;
  for (const Outgoing &out : outgoing) {
    if (out.pack.bytes() == 0)
      continue;
    const std::byte *bytes = source + out.pack.fromOffset();
    if (!out.pack.contiguous()) {
      if (!last || last->packed != out.packed) // an all_gather packs one box and sends it to all peers
        out.pack.run(source, out.packed);
      bytes = out.packed;
      last = &out;
    }
    if (Status sent = communicator->holdSend({bytes, size_t(out.pack.bytes())}, out.peer, tag); !sent)
      return sent;
  }
  return ok();
}

Status MovePhase::receive() const {
  for (const Incoming &in : incoming) {
    size_t bytes = size_t(in.unpack.bytes());
    if (bytes == 0)
      continue;
    if (in.peer == communicator->rank()) {
      in.unpack.run(source, result);
      continue;
    }
    std::byte *to = in.unpack.contiguous() ? result + in.unpack.toOffset() : received;
    if (Status status = communicator->receive({to, bytes}, in.peer, tag); !status)
      return status;
    if (!in.unpack.contiguous())
      in.unpack.run(received, result);
  }
  return ok();
}

Status ReducePhase::receive() const {
  if (elements == 0)
    return ok();
  const std::byte *mine = source + packOwn.fromOffset();
  if (!packOwn.contiguous()) {
    packOwn.run(source, own);
    mine = own;
  }
  std::byte *narrow = unpack.contiguous() ? result + unpack.toOffset() : sum;
  std::byte *accumulator = wide ? wide : narrow;
  for (size_t position = 0; position < members.size(); ++position) {
    const std::byte *next = mine;
    if (members[position] != communicator->rank()) {
      if (Status status = communicator->receive({received, size_t(packOwn.bytes())}, members[position], tag); !status)
        return status;
      next = received;
    }
    if (position == 0)
      reducer.start(accumulator, next, elements);
    else
      reducer.add(accumulator, next, elements);
  }
  if (wide)
    reducer.narrow(narrow, wide, elements);
  if (!unpack.contiguous())
    unpack.run(narrow, result);
  return ok();
}

template <typename Do> Status CollectivePlan::each(ReducesFirst reduces, Do act) const {
  for (const PlannedCollective &member : collectives)
    if (member.reduce.has_value() == (reduces == ReducesFirst::Yes))
      if (Status status = act(member); !status)
        return status;
  return ok();
}

Status CollectivePlan::run() const {
  for (const PlannedCollective &member : collectives)
    if (member.zeroFirst)
      std::memset(member.result.data, 0, size_t(member.result.bytes()));
  Status status = each(ReducesFirst::Yes, [](const PlannedCollective &member) { return member.reduce->holdSends(); });
  if (status)
    status = each(ReducesFirst::No, [](const PlannedCollective &member) { return member.move->holdSends(); });
  communicator->releaseSends();
  // No receive of a reduction waits for a movement behind a reduction, so that these may be held back until the end.
  if (status)
    status = each(ReducesFirst::Yes, [](const PlannedCollective &member) {
      Status received = member.reduce->receive();
      return received && member.move ? member.move->holdSends() : received;
    });
  communicator->releaseSends();
  for (ReducesFirst reduced : {ReducesFirst::No, ReducesFirst::Yes})
    if (status)
      status =
          each(reduced, [](const PlannedCollective &member) { return member.move ? member.move->receive() : ok(); });
  for (int64_t phase : {0, 1})
    if (status)
      status = communicator->finishSends(tag + phase);
  return status;
}

} // namespace kerf::runtime
