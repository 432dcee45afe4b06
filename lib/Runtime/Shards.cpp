// SPDX-License-Identifier: Apache-2.0
#include "Shards.h"
#include "Philox.h"
#include "kerf/Package/Half.h"

#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

namespace kerf::runtime {

namespace {
constexpr int64_t kGatherTag = 2;
constexpr double kInitialDeviation = 0.02; // GPT-2's initializer_range

/// Returns the FNV-1a hash of a name, which is the same on every machine.
uint64_t hashOf(const std::string &name) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 1099511628211u;
  return hash;
}

/// Returns a normally distributed number from two random words (Box and Muller's method). Each word is moved to the
/// middle of its interval, so that the logarithm is finite.
double normal(uint32_t a, uint32_t b) {
  double u = (double(a) + 0.5) * 0x1p-32, v = (double(b) + 0.5) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

void store(const TensorView &tensor, int64_t index, double value) {
  switch (tensor.dtype) {
  case DType::F64:
    static_cast<double *>(tensor.data)[index] = value;
    break;
  case DType::F32:
    static_cast<float *>(tensor.data)[index] = float(value);
    break;
  case DType::BF16:
    static_cast<uint16_t *>(tensor.data)[index] = bf16FromFloat(float(value));
    break;
  case DType::F16:
    static_cast<uint16_t *>(tensor.data)[index] = f16FromFloat(float(value));
    break;
  default:
    break; // integer parameters stay zero
  }
}
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

void initializeParameter(uint64_t seed, const std::string &name, const Shape &shape, const Shard &shard,
                         const TensorView &local) {
  uint64_t hash = hashOf(name);
  bool flat = shape.size() < 2, ones = shape.size() == 1 && (name == "weight" || name.ends_with(".weight"));
  size_t rank = shape.size();
  Shape index(rank, 0); // index of the present element within the shard
  for (int64_t left = shard.elements(); left > 0; --left) {
    int64_t global = 0, here = 0;
    for (size_t d = 0; d < rank; ++d) {
      global = global * shape[d] + shard.begin[d] + index[d];
      here = here * shard.local[d] + index[d];
    }
    double value = ones ? 1.0 : 0.0;
    if (!flat) {
      std::array<uint32_t, 4> random = philox(uint64_t(global), hash, seed);
      value = kInitialDeviation * normal(random[0], random[1]);
    }
    store(local, here, value);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < shard.count[d])
        break;
      index[d] = 0;
    }
  }
}

} // namespace kerf::runtime
