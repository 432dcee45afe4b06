// SPDX-License-Identifier: Apache-2.0
// Copies between global tensors, as files hold them, and the local tensors of ranks.
#pragma once

#include "Box.h"
#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Communicator.h"
#include "kerf/Runtime/Device.h"

namespace kerf::runtime {

/// The box of a global tensor that one rank holds. The rank's local tensor holds the box from index 0 on in each
/// dimension; behind the box lies padding where `local` is larger than `count`.
struct Shard {
  Shape begin; // first index of the box in each dimension of the global tensor
  Shape count; // elements of the box in each dimension; 0 where the rank holds only padding
  Shape local; // shape of the local tensor, padding included
  /// Returns the number of elements in the box, without padding.
  int64_t elements() const { return elementsOf(count); }
};
/// Returns the shard of a tensor of global shape `shape` on rank `rank` of the mesh (microbatch axes included).
Shard shardOf(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank);

/// Returns the copy from a row-major global tensor of shape `shape` to the local tensor of a shard. The copy does not
/// touch the local tensor's padding.
BoxCopy cutShard(const Shape &shape, const Shard &shard, int64_t elementBytes);

/// Gathers the local tensors of the ranks of pipeline stage `stage` into a global tensor on rank 0, and returns the
/// tensor there and nothing on other ranks. `local` is not read on ranks of other stages. All ranks must call the
/// function, in the same order of tensors. Uses tag 2.
Result<std::optional<Tensor>> gatherShards(Communicator &communicator, const package::Program &program, int64_t stage,
                                           const Shape &shape, const Sharding &sharding, DType dtype,
                                           const std::byte *local);

} // namespace kerf::runtime
