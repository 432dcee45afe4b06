// SPDX-License-Identifier: Apache-2.0
#include "BoxParts.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

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

Status addPartCopy(std::vector<Call> &calls, const BoxPart &part, const std::byte *from, std::byte *to) {
  const std::vector<BoxCopy::Loop> &loops = part.loops;
  if (loops.size() > size_t(kMostDims))
    return Error{fmt::format("the GPU's kernels walk over up to {} dimensions that cannot be merged, and a collective "
                             "asks for {}; reshape the tensor in the model",
                             kMostDims, loops.size())};
  int64_t unit = 8, bytes = 1;
  for (const BoxCopy::Loop &loop : loops)
    bytes *= loop.count;
  auto divides = [&](int64_t number) { return number % unit == 0; };
  while (unit > 1 && !(divides(part.fromOffset) && divides(part.toOffset) && divides(loops.back().count) &&
                       std::all_of(loops.begin(), loops.end() - 1, [&](const BoxCopy::Loop &loop) {
                         return divides(loop.fromStride) && divides(loop.toStride);
                       })))
    unit /= 2;
  CopyParameters p{from, to, part.fromOffset / unit, part.toOffset / unit, bytes / unit, int32_t(unit), 0, {}, {}, {}};
  for (size_t l = 0; l < loops.size(); ++l, ++p.rank) {
    bool isRun = l + 1 == loops.size();
    p.sizes[l] = isRun ? loops[l].count / unit : loops[l].count;
    p.fromStrides[l] = isRun ? 1 : loops[l].fromStride / unit;
    p.toStrides[l] = isRun ? 1 : loops[l].toStride / unit;
  }
  calls.push_back(elementCall("Shape", DType::I64, "copy", p.n, p));
  return ok();
}
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

Status addBoxCopy(std::vector<Call> &calls, const BoxCopy &box, ByteRange range, DenseSide dense, const std::byte *from,
                  std::byte *to) {
  for (const BoxPart &part : partsOf(box, range, dense))
    if (Status status = addPartCopy(calls, part, from, to); !status)
      return status;
  return ok();
}

bool packAlike(const BoxCopy &a, const BoxCopy &b) {
  return a.fromOffset() == b.fromOffset() && a.allLoops() == b.allLoops();
}

} // namespace kerf::runtime::cuda
