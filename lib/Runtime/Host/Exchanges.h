// SPDX-License-Identifier: Apache-2.0
// The plan of a collective on a device with a memory of its own. A collective that the device's library computes with
// the same result is one call of the library. Any other has the phases that the host's collectives have
// (Cpu/CollectivePhases.h): boxes of the operand are packed, the library exchanges them in one group of sends and
// receives, and they are unpacked or added in the order of the ranks. Large boxes go piece by piece, in several rounds
// that use the same scratch memory.
#pragma once

#include "BoxParts.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Support/Collectives.h"
#include <functional>
#include <variant>

namespace kerf::runtime {

/// A collective of a bucket, which `planCollective` has checked.
struct CheckedCollective {
  const package::Instruction &instruction;
  const TensorView &operand, &result;
  int64_t ranks = 0; // ranks of its process group
};

/// Copies a part of a box between two memory ranges.
struct CopyStep {
  BoxPart part;
  const std::byte *from;
  std::byte *to;
};
/// to[i] = combination of `count` arrays in their order, 16-bit numbers in float. Array number `own` is at `mine`, the
/// others lie `apart` bytes apart from `received` on.
struct AddStep {
  ReduceKind kind;
  DType dtype;
  int32_t count, own;
  const std::byte *mine, *received;
  int64_t apart;
  std::byte *to;
  int64_t elements;
};
/// Fills a tensor with zeros.
struct ZeroStep {
  TensorView tensor;
};
/// One thing to do before or after a round's messages.
using ExchangeStep = std::variant<CopyStep, AddStep, ZeroStep>;

/// One message of a round: bytes of the device's memory and the peer's position in the process group. The collectives
/// of a bucket may have different groups.
struct Message {
  std::byte *data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  size_t group = 0; // number of the collective in the bucket, whose group it is
};

/// One group of sends and receives, with what is done before and after it.
struct ExchangeRound {
  std::vector<ExchangeStep> before, after; // pack, and unpack or add
  std::vector<Message> sends, receives;
};

/// The ranks of a process group, in the order of their positions.
using Members = std::vector<int64_t>;

/// A collective or a bucket of collectives, ready for a device to make its calls. Calls of the library for whole
/// collectives belong to the first round, which exists if there are any.
struct ExchangePlan {
  std::vector<ExchangeRound> rounds;
  std::vector<Members> groups; // for each collective
  int64_t scratchBytes = 0;
};

/// Plans a collective or a bucket for this rank. The addresses of the request may be null where only the scratch memory
/// is of interest. `isNative` says of collective number i whether the device's library computes it as a whole.
/// `alignment` is that of the parts of scratch memory. Fails as the host's plan does.
Result<ExchangePlan> planExchanges(const CollectiveRequest &request, const CollectiveOptions &options,
                                   int64_t alignment,
                                   const std::function<bool(size_t i, const CheckedCollective &)> &isNative);

} // namespace kerf::runtime
