// SPDX-License-Identifier: Apache-2.0
#include "kerf/Optimizer/CodedMean.h"

namespace kerf {

SumBatches codedFrom(int64_t first) {
  SumBatches found{{}, {{{.begin = first}}}, {{BatchRange{}}}};
  if (first > 0)
    found.plain.ranges.push_back({0, first});
  return found;
}

SumBatches sumsAt(const GrowingDistances &distances) {
  SumBatches found;
  int64_t begin = 0;
  for (int64_t every = 1; begin < distances.freeze; every *= 2) {
    const int64_t left = distances.freeze - begin;
    const int64_t end = distances.plainSums > left / every ? distances.freeze : begin + distances.plainSums * every;
    found.plain.ranges.push_back({begin, end, every, 1});
    if (every > 1 && begin + 1 < end)
      found.coded.ranges.push_back({begin + 1, end, every, every - 1});
    begin = end;
  }
  const size_t local = found.coded.ranges.size();
  for (int64_t every = 1; every < distances.longest; every *= 2) {
    const int64_t intervals = (distances.localSteps + every - 1) / every, end = begin + intervals * every;
    found.coded.ranges.push_back({begin + every - 1, end, every, 1});
    begin = end;
  }
  found.coded.ranges.push_back({.begin = begin + distances.longest - 1, .every = distances.longest});
  if (distances.longest == 1) {
    found.sums.ranges.push_back({});
    return found;
  }
  found.sums.ranges.push_back({0, distances.freeze});
  found.sums.ranges.insert(found.sums.ranges.end(), found.coded.ranges.begin() + std::ptrdiff_t(local),
                           found.coded.ranges.end());
  return found;
}

Term countBefore(const BatchSet &batches, const Term &batch) {
  Term count = 0;
  for (const BatchRange &range : batches.ranges) {
    Term passed = max(min(batch, double(range.end)) - double(range.begin), 0);
    if (range.run == range.every) {
      count = count + passed;
      continue;
    }
    Term periods = floor(passed / double(range.every));
    Term rest = min(passed - periods * double(range.every), double(range.run));
    count = count + periods * double(range.run) + rest;
  }
  return count;
}

} // namespace kerf
