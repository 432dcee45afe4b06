// SPDX-License-Identifier: Apache-2.0
// Between whole tensors in files and the local tensors of ranks.
#pragma once

#include "Box.h"
#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// The box of a whole tensor of `shape` that `rank` holds, and the same box inside its local tensor (at 0).
struct Shard {
  Shape begin, count, local;
  int64_t elements() const { return elementsOf(count); }
};
Shard shardOf(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank);

/// From a whole tensor's row-major bytes into the local tensor; padding is left as it is.
BoxCopy cutShard(const Shape &shape, const Shard &shard, int64_t elementBytes);

/// Puts the local tensors of a stage's ranks together on rank 0 (nothing elsewhere); `local` is not read on other
/// stages. Every rank calls it, in the same order. Tag 2.
Result<std::optional<Tensor>> gatherShards(Communicator &communicator, const package::Program &program, int64_t stage,
                                           const Shape &shape, const Sharding &sharding, DType dtype,
                                           const std::byte *local);

/// Initial values of a parameter that no file gives (docs/runtime.md): one-dimensional `*.weight` ones, other
/// one-dimensional and scalar tensors zeros, the rest normal with deviation 0.02. A value depends on (seed, name, index
/// in the whole tensor) alone.
void initializeParameter(uint64_t seed, const std::string &name, const Shape &shape, const Shard &shard,
                         const TensorView &local);

} // namespace kerf::runtime
