// SPDX-License-Identifier: Apache-2.0
#include "Shards.h"

#include <map>

namespace kerf::runtime {

namespace {
constexpr int64_t kGatherTag = 2;
} // namespace

Shard shardOf(const Mesh &mesh, const Shape &shape, const Sharding &sharding, int64_t rank) {
  Shard shard{{}, {}, localShape(shape, sharding)};
  for (size_t d = 0; d < shape.size(); ++d) {
    Extent extent = validExtent(shape[d], sharding.dims[d], mesh, rank);
    shard.begin.push_back(extent.count ? extent.begin : 0);
    shard.count.push_back(extent.count);
  }
  return shard;
}

BoxCopy cutShard(const Shape &shape, const Shard &shard, int64_t elementBytes) {
  return BoxCopy(shape, shard.begin, shard.local, Shape(shape.size(), 0), shard.count, elementBytes);
}

Result<std::optional<Tensor>> gatherShards(Communicator &communicator, const package::Program &program, int64_t stage,
                                           const Shape &shape, const Sharding &sharding, DType dtype,
                                           const std::byte *local) {
  // The lowest rank that holds a box sends it. Every rank computes the same owners by itself.
  int64_t elementBytes = bytesOf(dtype), self = communicator.rank();
  auto shardOfRank = [&](int64_t rank) {
    return shardOf(program.mesh, shape, sharding, package::virtualRank(program, rank, 0));
  };
  std::map<Shape, int64_t> owners;
  for (int64_t rank = 0; rank < communicator.size(); ++rank) {
    if (package::stageOf(program, rank) != stage)
      continue;
    Shard shard = shardOfRank(rank);
    if (shard.elements() > 0)
      owners.emplace(shard.begin, rank);
  }
  if (self != 0) {
    Shard mine = shardOfRank(self);
    auto owner = owners.find(mine.begin);
    if (mine.elements() == 0 || owner->second != self)
      return std::optional<Tensor>();
    BoxCopy pack = packBox(mine.local, Shape(shape.size(), 0), mine.count, elementBytes);
    std::vector<std::byte> packed(static_cast<size_t>(pack.bytes()));
    pack.run(local, packed.data());
    if (Status sent = communicator.startSend(packed, 0, kGatherTag); !sent)
      return sent.error();
    if (Status sent = communicator.finishSends(kGatherTag); !sent)
      return sent.error();
    return std::optional<Tensor>();
  }
  auto [whole, bytes] = allocateTensor(dtype, shape);
  for (const auto &[begin, owner] : owners) {
    Shard shard = shardOfRank(owner);
    if (owner == 0) {
      BoxCopy(shard.local, Shape(shape.size(), 0), shape, shard.begin, shard.count, elementBytes).run(local, bytes);
      continue;
    }
    BoxCopy unpack = unpackBox(shape, shard.begin, shard.count, elementBytes);
    std::vector<std::byte> packed(static_cast<size_t>(unpack.bytes()));
    if (Status received = communicator.receive(packed, owner, kGatherTag); !received)
      return received.error();
    unpack.run(packed.data(), bytes);
  }
  return std::optional<Tensor>(std::move(whole));
}

} // namespace kerf::runtime
