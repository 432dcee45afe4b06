// SPDX-License-Identifier: Apache-2.0
#include "BoxParts.h"

#include <algorithm>

namespace kerf::runtime {

namespace {
/// Cuts a range out of a box, loop by loop from the outermost one.
class Cutter {
public:
  explicit Cutter(std::vector<BoxCopy::Loop> given) : loops(std::move(given)), inner(loops.size(), 1) {
    for (size_t l = loops.size(); l-- > 1;)
      inner[l - 1] = inner[l] * loops[l].count;
  }

  std::vector<BoxPart> parts;

  /// Adds the parts for the bytes `range` of what loop number `l` and those inside of it copy.
  void cut(size_t l, ByteRange range, int64_t from, int64_t to) {
    if (range.empty())
      return;
    const BoxCopy::Loop &loop = loops[l];
    int64_t first = range.begin / inner[l], last = range.end / inner[l]; // iterations; `last` is behind the whole ones
    if (int64_t skipped = range.begin % inner[l]; skipped != 0) {
      ByteRange head{skipped, std::min(inner[l], range.end - first * inner[l])};
      cut(l + 1, head, from + first * loop.fromStride, to + first * loop.toStride);
      ++first;
    }
    if (first < last) {
      BoxPart &part = parts.emplace_back(BoxPart{
          from + first * loop.fromStride, to + first * loop.toStride, {loops.begin() + int64_t(l), loops.end()}});
      part.loops.front().count = last - first;
    }
    if (int64_t rest = range.end % inner[l]; rest != 0 && first <= last)
      cut(l + 1, {0, rest}, from + last * loop.fromStride, to + last * loop.toStride);
  }

private:
  std::vector<BoxCopy::Loop> loops;
  std::vector<int64_t> inner; // for each loop: bytes of one iteration
};
} // namespace

std::vector<BoxPart> partsOf(const BoxCopy &box, ByteRange range, DenseSide dense) {
  Cutter cutter(box.allLoops());
  cutter.cut(0, range, box.fromOffset(), box.toOffset());
  for (BoxPart &part : cutter.parts) {
    part.fromOffset -= dense == DenseSide::Source ? range.begin : 0;
    part.toOffset -= dense == DenseSide::Target ? range.begin : 0;
  }
  return std::move(cutter.parts);
}

int64_t widestUnit(const BoxPart &part) {
  const std::vector<BoxCopy::Loop> &loops = part.loops;
  int64_t unit = 8;
  auto divides = [&](int64_t number) { return number % unit == 0; };
  while (unit > 1 && !(divides(part.fromOffset) && divides(part.toOffset) && divides(loops.back().count) &&
                       std::all_of(loops.begin(), loops.end() - 1, [&](const BoxCopy::Loop &loop) {
                         return divides(loop.fromStride) && divides(loop.toStride);
                       })))
    unit /= 2;
  return unit;
}

bool packAlike(const BoxCopy &a, const BoxCopy &b) {
  return a.fromOffset() == b.fromOffset() && a.allLoops() == b.allLoops();
}

} // namespace kerf::runtime
