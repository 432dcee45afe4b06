// SPDX-License-Identifier: Apache-2.0
#include "Buckets.h"
#include "Unroll.h"

#include <map>
#include <utility>

namespace kerf::steps {

namespace {
using package::FlatInstruction;
using package::FlatProgram;
constexpr size_t kNone = SIZE_MAX;

/// The bucket that fills on a stream, and what waits for its predecessor or for itself.
struct Filling {
  size_t open = kNone; // in the body
  int64_t bytes = 0, leastBytes = 0;
  std::vector<FlatInstruction> later; // put off: waits, views of what they give, sums of microbatches
};

class Filler {
public:
  Filler(FlatProgram &flat, int64_t bucketBytes)
      : flat(flat), bucketBytes(bucketBytes), from(flat.values.size(), nullptr), leaves(flat.values.size(), true) {}

  int64_t run() {
    std::vector<FlatInstruction> before = std::move(flat.body);
    flat.body.clear();
    findWhatLeaves(before);
    for (FlatInstruction &instruction : before)
      place(std::move(instruction));
    for (auto &[key, bucket] : buckets)
      flush(bucket);
    return int64_t(std::erase_if(flat.body, [](const FlatInstruction &instruction) { return !instruction.source; }));
  }

private:
  /// What only views use, and the caller when the step is done.
  void findWhatLeaves(const std::vector<FlatInstruction> &body) {
    for (size_t i = body.size(); i-- > 0;)
      for (int operand : body[i].operands)
        if (!package::isView(flat, body[i]) || !leaves[size_t(body[i].results[0])])
          leaves[size_t(operand)] = false;
  }

  void place(FlatInstruction instruction) {
    bool light = instruction.source->op == package::kAccumulate || package::isView(flat, instruction);
    Filling *needed = nullptr;
    for (int operand : instruction.operands) {
      Filling *bucket = from[size_t(operand)];
      if (!bucket || bucket == needed)
        continue;
      if (needed || !light)
        flush(*bucket);
      else
        needed = bucket;
    }
    if (light && needed) {
      for (int result : instruction.results)
        from[size_t(result)] = needed;
      needed->later.push_back(std::move(instruction));
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

  /// To the open bucket of its stream, which moves here, or to a new one.
  void add(FlatInstruction instruction) {
    const package::Value &operand = flat.values[size_t(instruction.operands[0])];
    int result = instruction.results[0];
    bool late = reducesGradients(*instruction.source) || leaves[size_t(result)];
    Filling &bucket = buckets[{streamNamed(*instruction.source), late}];
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
    from[size_t(result)] = &bucket;
    flat.body.push_back(std::move(instruction));
  }

  /// What was put off comes here, behind its bucket, which is closed.
  void flush(Filling &bucket) {
    bucket.open = kNone;
    for (FlatInstruction &instruction : bucket.later) {
      for (const std::vector<int> *values : {&instruction.operands, &instruction.results})
        for (int value : *values)
          from[size_t(value)] = nullptr;
      flat.body.push_back(std::move(instruction));
    }
    bucket.later.clear();
  }

  FlatProgram &flat;
  int64_t bucketBytes;
  std::map<std::pair<std::string, bool>, Filling> buckets; // by stream, and whether they wait for more
  std::vector<Filling *> from; // of each value: the bucket that makes it, or that it was put off with; null: it is there
  std::vector<bool> leaves;   // of each value
};
} // namespace

int64_t fillBuckets(package::FlatProgram &flat, int64_t bucketBytes) { return Filler(flat, bucketBytes).run(); }

} // namespace kerf::steps
