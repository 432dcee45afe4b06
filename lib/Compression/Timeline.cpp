// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compression/Timeline.h"

#include <algorithm>

namespace kerf::compression {

namespace {

/// A message whose payload is not decoded yet.
struct Pending {
  double arrives = 0, after = 0, last = 0;
};

} // namespace

void addCost(SyncCost &sum, const SyncCost &other) {
  sum.before += other.before;
  sum.wire += other.wire;
  sum.after += other.after;
  sum.first = std::max(sum.first, other.first);
  sum.last = std::max(sum.last, other.last);
}

StreamEnds runStreams(std::span<const StreamLayer> layers, const StreamRules &rules, std::vector<SendTime> *sends) {
  StreamEnds end;
  bool first = true;
  double ready = 0;        // time at which the next layer's parameters have arrived
  SyncCost waiting;        // costs of the gradients in the unfinished bucket
  double waitingBytes = 0; // and their bytes
  size_t inBucket = 0;     // layers in the unfinished bucket
  thread_local std::vector<Pending> pending;
  pending.clear();
  size_t decoded = 0; // number of messages in `pending` that are decoded
  for (size_t l = 0; l < layers.size(); ++l) {
    const StreamLayer &layer = layers[l];
    for (int64_t i = 0; i < layer.repeat; ++i) {
      for (; decoded < pending.size() && pending[decoded].arrives <= end.compute; ++decoded) {
        end.compute += pending[decoded].after;
        end.codec += pending[decoded].after;
      }
      if (first || !rules.gathersAhead)
        ready = end.communication = std::max(end.communication, end.compute) + layer.gather;
      first = false;
      double start = std::max(end.compute, layer.gather > 0 ? ready : 0);
      const StreamLayer *next = i + 1 < layer.repeat ? &layer : l + 1 < layers.size() ? &layers[l + 1] : nullptr;
      if (rules.gathersAhead && next)
        ready = end.communication = std::max(end.communication, start) + next->gather;
      end.compute = start + layer.body;
      addCost(waiting, layer.sync);
      waitingBytes += layer.syncBytes;
      ++inBucket;
      if (sends)
        sends->push_back({end.compute, end.compute, false});
      if (waiting.wire <= 0 || (waitingBytes < rules.bucketBytes && next))
        continue;
      double sendable = end.compute + waiting.first;
      bool idle = end.communication < sendable;
      double sent = std::max(end.communication, sendable);
      end.compute += waiting.before;
      end.codec += waiting.before;
      end.communication = std::max(sent + waiting.wire, end.compute); // the last piece is sent when it is encoded
      if (sends)
        for (size_t s = sends->size() - inBucket; s < sends->size(); ++s)
          (*sends)[s] = {sent, end.communication, idle};
      if (waiting.after > 0)
        pending.push_back({end.communication, waiting.after, waiting.last});
      waiting = {};
      waitingBytes = 0;
      inBucket = 0;
      if (!rules.reducesBeside)
        end.compute = end.communication;
    }
  }
  double finish = end.compute;
  for (; decoded < pending.size(); ++decoded) {
    const Pending &one = pending[decoded];
    finish = std::max(finish + one.after - one.last, one.arrives) + one.last;
    end.communication = std::max(end.communication, finish);
  }
  return end;
}

} // namespace kerf::compression
