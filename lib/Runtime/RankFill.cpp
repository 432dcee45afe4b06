// SPDX-License-Identifier: Apache-2.0
// Fills a rank's arguments: before the first step from weights, a checkpoint or the seed, and before each step with
// the step's batch.
#include "Host/InitialValues.h"
#include "Host/Staging.h"
#include "RankRun.h"
#include "Scalar.h"
#include "kerf/Package/Accumulation.h"
#include "kerf/Package/Convert.h"
#include "kerf/Package/FlatProgram.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime {

using package::Arg;

/// Returns whether an argument gets new content before every step.
static bool isFed(const ArgSource &source) {
  return source.kind == ArgSource::Kind::Data || source.kind == ArgSource::Kind::LearningRate ||
         source.kind == ArgSource::Kind::RateFactor || source.kind == ArgSource::Kind::Step;
}

/// Returns the shard of an argument that a piece holds.
Shard RankRun::shardOfPiece(const ArgumentPiece &piece) const {
  const Arg &arg = program.args[piece.arg];
  return shardOf(program.mesh, arg.shape, arg.sharding,
                 package::virtualRank(program, communicator.rank(), piece.microbatch));
}

/// Fills an argument with its part of a global tensor. The part is cut out before it is converted, so that no rank
/// needs memory for a second global tensor.
Status RankRun::fillCut(const ArgumentPiece &piece, const Tensor &whole, Staging &staging) {
  const Arg &arg = program.args[piece.arg];
  Shard shard = shardOfPiece(piece);
  Tensor local = whole;
  if (shard.count != arg.shape || shard.local != arg.shape) {
    auto [cut, bytes] = allocateTensor(whole.dtype, shard.local);
    cutShard(arg.shape, shard, bytesOf(whole.dtype)).run(whole.data, bytes);
    local = cut;
  }
  const int64_t fromBytes = bytesOf(local.dtype), toBytes = bytesOf(arg.dtype);
  return staging.fill(piece.tensor, [&](int64_t begin, int64_t end, std::byte *out) {
    const std::byte *from = local.data + begin * fromBytes;
    if (local.dtype != arg.dtype)
      return convertElements(local.dtype, from, end - begin, arg.dtype, out);
    std::memcpy(out, from, size_t((end - begin) * toBytes));
    return ok();
  });
}

Status RankRun::fillSaved(const ArgumentPiece &piece, ShardReader &from) {
  std::vector<std::byte> host(static_cast<size_t>(piece.tensor.bytes()));
  if (Status status = from.read(program.args[piece.arg], shardOfPiece(piece), host.data()); !status)
    return status;
  return device->copyIn(piece.tensor.data, host.data(), piece.tensor.bytes());
}

/// Sets an argument's initial content.
Status RankRun::fill(const ArgumentPiece &piece, Staging &staging) {
  const Arg &arg = program.args[piece.arg];
  const ArgSource &source = inputs.sources[piece.arg];
  const TensorView &target = piece.tensor;
  Shard shard = shardOfPiece(piece);
  if (isFed(source))
    return openFeed(source, cutShard(arg.shape, shard, bytesOf(arg.dtype)), target);
  if (source.kind == ArgSource::Kind::Tensor)
    return fillCut(piece, source.tensor, staging);
  if (source.kind == ArgSource::Kind::Resume)
    return fillSaved(piece, *reader);
  if (source.kind == ArgSource::Kind::Seed)
    return device->copyIn(target.data, &options.seed, sizeof(options.seed));
  if (source.kind != ArgSource::Kind::Initialize)
    return device->clear(target.data, target.bytes());
  InitialValues values(options.seed, arg.name, arg.shape, std::move(shard), arg.dtype);
  return staging.fill(target, [&](int64_t begin, int64_t end, std::byte *out) {
    values.write(begin, end, out);
    return ok();
  });
}

Status RankRun::openFeed(const ArgSource &source, BoxCopy cut, const TensorView &target) {
  auto host = device->allocateHost(target.bytes());
  if (!host)
    return host.error();
  std::fill_n(host->get(), target.bytes(), std::byte(0)); // padding stays zero
  feeds.push_back({&source, std::move(cut), std::move(*host), target});
  return ok();
}

/// Cuts the rank's part out of the next batch and begins to copy it to the device.
Status RankRun::startBatch(BatchSource &source) {
  if (Status status = executor->waitForFeeds(); !status)
    return status;
  auto batch = source.next(batches.user);
  if (!batch)
    return batch.error();
  for (Feed &feed : feeds) {
    if (feed.source->kind != ArgSource::Kind::Data)
      continue;
    feed.cut.run((**batch)[feed.source->input], feed.host.get());
    if (Status status = executor->startFeed(feed.target, feed.host.get()); !status)
      return status;
  }
  source.release(batches.user);
  return ok();
}

/// Runs a step, or a part of one. If `following` is not null, the next step takes a batch of this source: the batch is
/// started meanwhile, where the device can do that. An error of it belongs to the next step.
Status RankRun::runWithNext(StepKind kind, BatchSource *following) {
  if (!following || !executor->feedsAhead())
    return executor->step(kind);
  return executor->step(kind, [&] { startedBatch = startBatch(*following); });
}

/// Copies the next batch, the batch's number, the learning rate and its factor to the program's arguments.
Status RankRun::feed(BatchSource &source, int64_t number, double learningRate, double rateFactor) {
  Status started = startedBatch ? *std::exchange(startedBatch, std::nullopt) : startBatch(source);
  if (started)
    started = executor->finishFeeds();
  if (!started)
    return started;
  for (Feed &feed : feeds) {
    switch (feed.source->kind) {
    case ArgSource::Kind::Data:
      continue;
    case ArgSource::Kind::Step:
      writeScalar(feed.target.dtype, double(number), feed.host.get());
      break;
    case ArgSource::Kind::RateFactor:
      writeScalar(feed.target.dtype, rateFactor, feed.host.get());
      break;
    default:
      writeScalar(feed.target.dtype, learningRate, feed.host.get());
      break;
    }
    if (Status status = executor->feed(feed.target, feed.host.get()); !status)
      return status;
  }
  return ok();
}

/// Sets the accumulated gradients to zero.
Status RankRun::clearAccumulators() {
  for (const ArgumentPiece &piece : executor->arguments()) {
    if (!package::isAccumulator(program.args[piece.arg]))
      continue;
    if (Status status = device->clear(piece.tensor.data, piece.tensor.bytes()); !status)
      return status;
  }
  return ok();
}

} // namespace kerf::runtime
