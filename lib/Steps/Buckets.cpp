// SPDX-License-Identifier: Apache-2.0
#include "Buckets.h"
#include "Unroll.h"
#include "kerf/Package/Batches.h"

#include <map>
#include <utility>

namespace kerf::steps {

namespace {
using package::FlatInstruction;
using package::FlatProgram;
constexpr size_t kNone = SIZE_MAX;

/// The bucket that is being filled on a stream.
struct OpenBucket {
  size_t open = kNone;    // index in FlatProgram::body of the bucket that still takes members; kNone: there is none
  int64_t bytes = 0;      // of its members
  int64_t leastBytes = 0; // bytes at which it starts
  std::vector<FlatInstruction> delayed; // waits for its members, views of their results, and sums over microbatches
};

/// Rebuilds the body of a flat program with its collectives in buckets.
class BucketFiller {
public:
  BucketFiller(FlatProgram &flat, int64_t bucketBytes)
      : flat(flat), bucketBytes(bucketBytes), pendingIn(flat.values.size(), nullptr), leaves(flat.values.size(), true) {
  }

  int64_t run() {
    std::vector<FlatInstruction> before = std::move(flat.body);
    flat.body.clear();
    findLeavingValues(before);
    for (FlatInstruction &instruction : before)
      place(std::move(instruction));
    for (auto &[key, bucket] : buckets)
      flush(bucket);
    return int64_t(std::erase_if(flat.body, [](const FlatInstruction &instruction) { return !instruction.source; }));
  }

private:
  /// Finds the values that leave the step: those that only views, if anything, use within it.
  void findLeavingValues(const std::vector<FlatInstruction> &body) {
    for (size_t i = body.size(); i-- > 0;)
      for (int operand : body[i].operands)
        if (!package::isView(flat, body[i]) || !leaves[size_t(body[i].results[0])])
          leaves[size_t(operand)] = false;
  }

  void place(FlatInstruction instruction) {
    // Waits, views and sums over microbatches cost little: they are delayed with the bucket whose results they use.
    bool light = instruction.source->op == package::kAccumulate || package::isView(flat, instruction);
    OpenBucket *needed = nullptr;
    for (int operand : instruction.operands) {
      OpenBucket *bucket = pendingIn[size_t(operand)];
      if (!bucket || bucket == needed)
        continue;
      if (needed || !light)
        flush(*bucket);
      else
        needed = bucket;
    }
    if (light && needed) {
      for (int result : instruction.results)
        pendingIn[size_t(result)] = needed;
      needed->delayed.push_back(std::move(instruction));
      return;
    }
    if (instruction.kind == FlatInstruction::Kind::Op && package::isCollective(instruction.source->op)) {
      add(std::move(instruction));
      return;
    }
    if (!light)
      for (auto &[key, bucket] : buckets)
        if (bucket.bytes >= bucket.leastBytes)
          bucket.open = kNone;
    flat.body.push_back(std::move(instruction));
  }

  /// Adds a collective to the open bucket of its stream, moving the bucket to this place, or opens a new bucket.
  void add(FlatInstruction instruction) {
    const package::Value &operand = flat.values[size_t(instruction.operands[0])];
    int result = instruction.results[0];
    bool late = reducesGradients(*instruction.source) || leaves[size_t(result)];
    auto batches = instruction.source->attrs.find(package::kBatches);
    std::string limits = batches == instruction.source->attrs.end() ? "" : batches->dump();
    OpenBucket &bucket = buckets[{requestedStream(*instruction.source) + limits, late}];
    if (bucket.open == kNone) {
      flush(bucket);
      bucket.bytes = 0;
      bucket.leastBytes = late ? bucketBytes : 0;
    } else {
      FlatInstruction &before = flat.body[bucket.open];
      before.others.push_back({instruction.source, instruction.origin, instruction.microbatch});
      before.operands.push_back(instruction.operands[0]);
      before.results.push_back(result);
      instruction = std::exchange(before, {});
    }
    bucket.bytes += elementsOf(operand.shape) * bytesOf(operand.dtype);
    bucket.open = flat.body.size();
    pendingIn[size_t(result)] = &bucket;
    flat.body.push_back(std::move(instruction));
  }

  /// Closes the bucket and appends the delayed instructions.
  void flush(OpenBucket &bucket) {
    bucket.open = kNone;
    for (FlatInstruction &instruction : bucket.delayed) {
      for (const std::vector<int> *values : {&instruction.operands, &instruction.results})
        for (int value : *values)
          pendingIn[size_t(value)] = nullptr;
      flat.body.push_back(std::move(instruction));
    }
    bucket.delayed.clear();
  }

  FlatProgram &flat;
  int64_t bucketBytes;
  std::map<std::pair<std::string, bool>, OpenBucket> buckets; // by stream and batches, and whether it collects bytes
  std::vector<OpenBucket *> pendingIn; // for each value: the bucket that computes or delays it; null: none
  std::vector<bool> leaves;            // for each value: whether it leaves the step
};
} // namespace

int64_t fillBuckets(package::FlatProgram &flat, int64_t bucketBytes) { return BucketFiller(flat, bucketBytes).run(); }

} // namespace kerf::steps
