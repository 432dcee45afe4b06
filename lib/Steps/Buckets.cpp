// SPDX-License-Identifier: Apache-2.0
#include "Buckets.h"
#include "Unroll.h"
#include "kerf/Package/Batches.h"

#include <algorithm>
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
  int64_t number = 0;     // of the bucket among those of the stream
  int64_t bytes = 0;      // of its members
  int64_t leastBytes = 0; // bytes at which it starts
  struct Delayed {
    FlatInstruction instruction;
    int64_t number; // of the last bucket of the stream that the instruction needs
  };
  std::vector<Delayed> delayed; // waits for members, views of their results, and sums over microbatches
};

/// The bucket of a stream that computes or delays a value; `stream` is null where none does.
struct PendingIn {
  OpenBucket *stream = nullptr;
  int64_t number = 0;
};

/// Rebuilds the body of a flat program with its collectives in buckets.
class BucketFiller {
public:
  BucketFiller(FlatProgram &flat, int64_t bucketBytes)
      : flat(flat), bucketBytes(bucketBytes), pendingIn(flat.values.size()), leaves(flat.values.size(), true) {}

  int64_t run() {
    std::vector<FlatInstruction> before = std::move(flat.body);
    flat.body.clear();
    findLeavingValues(before);
    for (FlatInstruction &instruction : before)
      place(std::move(instruction));
    for (auto &[key, bucket] : buckets)
      flush(bucket, bucket.number);
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
    PendingIn needed;
    for (int operand : instruction.operands) {
      const PendingIn in = pendingIn[size_t(operand)];
      if (!in.stream)
        continue;
      if (light && (!needed.stream || needed.stream == in.stream))
        needed = {in.stream, std::max(needed.number, in.number)};
      else
        flush(*in.stream, in.number);
    }
    if (light && needed.stream) {
      for (int result : instruction.results)
        pendingIn[size_t(result)] = needed;
      needed.stream->delayed.push_back({std::move(instruction), needed.number});
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

  /// Returns the bytes by which a collective fills a bucket: those of its operand, and for a payload those of the
  /// gradient that it stands for.
  int64_t bytesFilledBy(const FlatInstruction &collective) const {
    auto given = collective.source->attrs.find(package::kGradientBytes);
    if (given != collective.source->attrs.end() && given->is_number_integer())
      return given->get<int64_t>();
    const package::Value &operand = flat.values[size_t(collective.operands[0])];
    return elementsOf(operand.shape) * bytesOf(operand.dtype);
  }

  /// Adds a collective to the open bucket of its stream, moving the bucket to this place, or opens a new bucket.
  void add(FlatInstruction instruction) {
    const int64_t bytes = bytesFilledBy(instruction);
    const int result = instruction.results[0];
    bool late = reducesGradients(*instruction.source) || leaves[size_t(result)];
    auto batches = instruction.source->attrs.find(package::kBatches);
    std::string limits = batches == instruction.source->attrs.end() ? "" : batches->dump();
    OpenBucket &bucket = buckets[{requestedStream(*instruction.source) + limits, late}];
    if (bucket.open == kNone) {
      flush(bucket, bucket.number);
      ++bucket.number;
      bucket.bytes = 0;
      bucket.leastBytes = late ? bucketBytes : 0;
    } else {
      FlatInstruction &before = flat.body[bucket.open];
      before.others.push_back({instruction.source, instruction.origin, instruction.microbatch});
      before.operands.push_back(instruction.operands[0]);
      before.results.push_back(result);
      instruction = std::exchange(before, {});
    }
    bucket.bytes += bytes;
    bucket.open = flat.body.size();
    pendingIn[size_t(result)] = {&bucket, bucket.number};
    flat.body.push_back(std::move(instruction));
  }

  /// Appends the delayed instructions that need no later bucket of the stream than the one with this number, and closes
  /// this bucket. A later one stays open.
  void flush(OpenBucket &bucket, int64_t number) {
    if (number == bucket.number)
      bucket.open = kNone;
    auto later = std::stable_partition(bucket.delayed.begin(), bucket.delayed.end(),
                                       [&](const OpenBucket::Delayed &delayed) { return delayed.number <= number; });
    for (auto delayed = bucket.delayed.begin(); delayed != later; ++delayed) {
      FlatInstruction &instruction = delayed->instruction;
      for (const std::vector<int> *values : {&instruction.operands, &instruction.results})
        for (int value : *values)
          pendingIn[size_t(value)] = {};
      flat.body.push_back(std::move(instruction));
    }
    bucket.delayed.erase(bucket.delayed.begin(), later);
  }

  FlatProgram &flat;
  int64_t bucketBytes;
  std::map<std::pair<std::string, bool>, OpenBucket> buckets; // by stream and batches, and whether it collects bytes
  std::vector<PendingIn> pendingIn;                           // for each value
  std::vector<bool> leaves;                                   // for each value: whether it leaves the step
};
} // namespace

int64_t fillBuckets(package::FlatProgram &flat, int64_t bucketBytes) { return BucketFiller(flat, bucketBytes).run(); }

} // namespace kerf::steps
