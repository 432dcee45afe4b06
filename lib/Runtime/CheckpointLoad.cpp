// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint that any plan wrote into the shards of any other plan. If both plans give a tensor the same shape,
// intersections of boxes are copied. Otherwise, ranges of elements are copied that are contiguous in the row-major
// global tensor and that both boxes contain.
#include "CheckpointDisk.h"
#include "CheckpointFiles.h"
#include "kerf/Package/CompressionState.h"
#include "kerf/Support/File.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

namespace kerf::runtime {

namespace {
namespace fs = std::filesystem;
using package::Arg;

/// Returns the first few of the names, quoted, and the number of the others.
std::string namesText(const std::vector<std::string> &names) {
  constexpr size_t kMost = 4;
  std::vector<std::string> few(names.begin(), names.begin() + std::ptrdiff_t(std::min(names.size(), kMost)));
  std::string out = fmt::format("'{}'", fmt::join(few, "', '"));
  return names.size() > kMost ? fmt::format("{} and {} more", out, names.size() - kMost) : out;
}

bool isFloatingType(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

std::string pathOf(const Checkpoint &checkpoint, int file) {
  return (fs::path(checkpoint.folder) / fileName(checkpoint.index.files[size_t(file)])).string();
}

Result<TensorMap> openFile(const Checkpoint &checkpoint, int file) {
  std::string path = pathOf(checkpoint, file);
  auto mapped = mapFile(path);
  if (!mapped)
    return Error{fmt::format("checkpoint: {}", mapped.error().message)};
  int64_t written = checkpoint.index.files[size_t(file)].bytes, there = int64_t((*mapped)->bytes);
  if (there != written)
    return Error{fmt::format("checkpoint: '{}' has {} bytes, {} were written: {}; give another checkpoint", path, there,
                             written, there < written ? "truncated" : "the file is of another checkpoint")};
  auto tensors = readTensors(path);
  if (!tensors)
    return Error{fmt::format("checkpoint: {}", tensors.error().message)};
  return tensors;
}

/// Returns a box's data from the tensors of its file. Fails if the file does not match the index.
Result<Tensor> tensorOf(const Checkpoint &checkpoint, const TensorMap &tensors, const std::string &name,
                        const SavedTensor &saved, const SavedBox &box) {
  auto found = tensors.find(name);
  if (found == tensors.end())
    return Error{fmt::format("checkpoint: '{}' lacks '{}': the file is of another checkpoint; give another checkpoint",
                             pathOf(checkpoint, box.file), name)};
  const Tensor &tensor = found->second;
  if (tensor.dtype != saved.dtype || tensor.shape != box.count)
    return Error{
        fmt::format("checkpoint: '{}' of '{}' is {} {}, the index says {} {}: the file is of another checkpoint; "
                    "give another checkpoint",
                    name, pathOf(checkpoint, box.file), toString(tensor.dtype), shapeText(tensor.shape),
                    toString(saved.dtype), shapeText(box.count))};
  return tensor;
}

/// Iterates over the runs of a box: its pieces that are contiguous both in a row-major global tensor and in memory, in
/// ascending order. In memory, the box lies at the origin of a dense tensor of shape `memory`.
class Runs {
public:
  Runs(const Shape &whole, const Shape &begin, const Shape &count, const Shape &memory) : count(count) {
    strides.resize(whole.size()), memoryStrides.resize(whole.size());
    int64_t stride = 1, memoryStride = 1;
    outer = whole.size();
    bool extends = true; // whether the box covers all inner dimensions, both of the global tensor and in memory
    for (size_t d = whole.size(); d-- > 0;) {
      if (extends)
        length *= count[d], outer = d;
      extends = extends && count[d] == whole[d] && count[d] == memory[d];
      strides[d] = stride, memoryStrides[d] = memoryStride;
      first += begin[d] * stride;
      stride *= whole[d], memoryStride *= memory[d];
    }
    index.assign(outer, 0);
    done = elementsOf(count) == 0;
  }

  bool atEnd() const { return done; }
  /// Returns the first element of the present run, and the one behind its last, in the global tensor.
  int64_t begin() const { return first + offset; }
  int64_t end() const { return begin() + length; }
  /// Returns the first element of the present run in memory.
  int64_t at() const { return memoryOffset; }
  void next() {
    for (size_t d = outer; d-- > 0;) {
      offset += strides[d], memoryOffset += memoryStrides[d];
      if (++index[d] < count[d])
        return;
      offset -= count[d] * strides[d], memoryOffset -= count[d] * memoryStrides[d];
      index[d] = 0;
    }
    done = true;
  }

private:
  Shape count, strides, memoryStrides, index;
  size_t outer = 0; // number of outer dimensions that a run does not extend over
  int64_t first = 0, length = 1, offset = 0, memoryOffset = 0;
  bool done = false;
};

void copyRuns(Runs from, const std::byte *source, Runs to, std::byte *target, int64_t elementBytes) {
  while (!from.atEnd() && !to.atEnd()) {
    int64_t begin = std::max(from.begin(), to.begin()), end = std::min(from.end(), to.end());
    if (begin < end)
      std::memcpy(target + (to.at() + begin - to.begin()) * elementBytes,
                  source + (from.at() + begin - from.begin()) * elementBytes, size_t((end - begin) * elementBytes));
    bool sourceEnds = from.end() <= to.end(), targetEnds = to.end() <= from.end();
    if (sourceEnds)
      from.next();
    if (targetEnds)
      to.next();
  }
}

/// Returns the copy of the elements that a saved box and a shard have in common, or nothing if there are none.
std::optional<BoxCopy> copyOverlap(const SavedBox &box, const Shard &shard, int64_t elementBytes) {
  Shape from, to, counts;
  for (size_t d = 0; d < box.begin.size(); ++d) {
    int64_t begin = std::max(box.begin[d], shard.begin[d]);
    int64_t end = std::min(box.begin[d] + box.count[d], shard.begin[d] + shard.count[d]);
    if (begin >= end)
      return std::nullopt;
    from.push_back(begin - box.begin[d]), to.push_back(begin - shard.begin[d]), counts.push_back(end - begin);
  }
  return BoxCopy(box.count, from, shard.local, to, counts, elementBytes);
}

/// Returns the positions of a box's first and last element in the row-major global tensor. Boxes whose ranges of
/// positions do not overlap have no element in common.
std::pair<int64_t, int64_t> flatRange(const Shape &whole, const Shape &begin, const Shape &count) {
  int64_t first = 0, last = 0;
  for (size_t d = 0; d < whole.size(); ++d)
    first = first * whole[d] + begin[d], last = last * whole[d] + begin[d] + count[d] - 1;
  return {first, last};
}
} // namespace

Result<Checkpoint> openCheckpoint(const std::string &path) {
  std::error_code code;
  if (!fs::is_directory(path, code))
    return Error{fmt::format("checkpoint: '{}' {}; give the folder of a checkpoint", path,
                             fs::exists(path, code) ? "is not a folder" : "does not exist: nothing to resume")};
  std::string folder = path;
  if (!fs::exists(fs::path(path) / kIndexFile, code)) {
    auto latest = latestStep(path);
    if (!latest)
      return Error{fmt::format("checkpoint: {}", latest.error().message)};
    std::vector<int64_t> steps = savedSteps(path);
    if (!*latest && steps.empty())
      return Error{fmt::format("checkpoint: '{}' holds none: neither {} nor folders like {}; give the folder of a "
                               "checkpoint",
                               path, kIndexFile, checkpointName(20))};
    int64_t step = *latest ? **latest : steps.back();
    folder = (fs::path(path) / checkpointName(step)).string();
    if (!fs::exists(fs::path(folder) / kIndexFile, code)) {
      std::vector<std::string> others;
      for (int64_t other : steps)
        if (other != step)
          others.push_back(checkpointName(other));
      return Error{fmt::format("checkpoint: '{}' has no {}; there {}", folder, kIndexFile,
                               others.empty() ? "is no other in its folder, so give another folder"
                                              : fmt::format("are also {}: name one of them", namesText(others)))};
    }
  }
  std::string indexPath = (fs::path(folder) / kIndexFile).string();
  auto bytes = readFile(indexPath);
  if (!bytes)
    return Error{fmt::format("checkpoint: {}", bytes.error().message)};
  auto index = readIndex(*bytes);
  if (!index)
    return Error{fmt::format("checkpoint '{}': {}; give another checkpoint", indexPath, index.error().message)};
  return Checkpoint{folder, std::move(*index)};
}

Status checkCheckpoint(const Checkpoint &checkpoint, const package::Program &program) {
  auto failed = [&](const std::string &what) {
    return Error{fmt::format("checkpoint '{}': {}; give a checkpoint of this model", checkpoint.folder, what)};
  };
  std::vector<std::string> missing, unknown;
  std::map<std::string_view, const Arg *> known;
  bool anyFound = false;
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg &arg = program.args[i];
    if (!staysBetweenSteps(arg))
      continue;
    known.emplace(arg.name, &arg);
    if (checkpoint.index.tensors.count(arg.name))
      anyFound = true;
    else if (arg.kind != package::ArgKind::Buffer &&
             !package::isCompressionState(arg)) // checkpoints do not hold buffers that no instruction uses
      missing.push_back(arg.name);
  }
  for (const auto &[name, saved] : checkpoint.index.tensors)
    if (!known.count(name) && !name.starts_with(package::kCompressionPrefix))
      unknown.push_back(name);
  if (!missing.empty() && !anyFound)
    return failed(
        fmt::format("it is of another model: it holds {}, this one has {}", namesText(unknown), namesText(missing)));
  if (!missing.empty() || !unknown.empty())
    return failed(
        fmt::format("it is of another model or optimizer: {}{}{}",
                    missing.empty() ? "" : fmt::format("it lacks {}", namesText(missing)),
                    missing.empty() || unknown.empty() ? "" : "; ",
                    unknown.empty() ? "" : fmt::format("it holds {}, which this program lacks", namesText(unknown))));
  for (const auto &[name, saved] : checkpoint.index.tensors) {
    auto found = known.find(name);
    if (found == known.end() || package::isCompressionState(*found->second)) // these start anew (resetStates)
      continue;
    const Arg *arg = found->second;
    if (saved.exportedShape != arg->exportedShape)
      return failed(fmt::format("'{}' has shape {} there, {} in the model", name, shapeText(saved.exportedShape),
                                shapeText(arg->exportedShape)));
    if (isFloatingType(saved.dtype) != isFloatingType(arg->dtype))
      return failed(
          fmt::format("'{}' is {} there, {} in the model", name, toString(saved.dtype), toString(arg->dtype)));
  }
  return ok();
}

std::vector<std::string> resetStates(const Checkpoint &checkpoint, const package::Program &program) {
  std::vector<std::string> names;
  for (const Arg &arg : program.args) {
    auto saved = checkpoint.index.tensors.find(arg.name);
    if (package::isCompressionState(arg) &&
        (saved == checkpoint.index.tensors.end() || saved->second.shape != arg.shape))
      names.push_back(arg.name);
  }
  return names;
}

Status verifyFiles(const Checkpoint &checkpoint, int64_t part, int64_t parts) {
  int files = int(checkpoint.index.files.size());
  std::vector<TensorMap> opened(checkpoint.index.files.size());
  for (int file = int(part); file < files; file += int(parts)) {
    auto tensors = openFile(checkpoint, file);
    if (!tensors)
      return tensors.error();
    opened[size_t(file)] = std::move(*tensors);
  }
  for (const auto &[name, saved] : checkpoint.index.tensors)
    for (const SavedBox &box : saved.boxes) {
      if (box.file % parts != part)
        continue;
      auto tensor = tensorOf(checkpoint, opened[size_t(box.file)], name, saved, box);
      if (!tensor)
        return tensor.error();
      auto checksum = crc32_z(0, reinterpret_cast<const Bytef *>(tensor->data), size_t(tensor->bytes()));
      if (checksum != box.checksum)
        return Error{fmt::format("checkpoint: '{}' of '{}' has the checksum {}, {} was written: damaged; give another "
                                 "checkpoint",
                                 name, pathOf(checkpoint, box.file), checksum, box.checksum)};
    }
  return ok();
}

Result<Tensor> ShardReader::box(const std::string &name, const SavedTensor &saved, const SavedBox &box) {
  auto file = files.find(box.file);
  if (file == files.end()) {
    auto tensors = openFile(checkpoint, box.file);
    if (!tensors)
      return tensors.error();
    file = files.emplace(box.file, std::move(*tensors)).first;
  }
  return tensorOf(checkpoint, file->second, name, saved, box);
}

Status ShardReader::read(const Arg &arg, const Shard &shard, std::byte *local) {
  auto found = checkpoint.index.tensors.find(arg.name);
  if (package::isCompressionState(arg) && (found == checkpoint.index.tensors.end() || found->second.shape != arg.shape))
    return ok(); // the state stays zero
  const SavedTensor &saved = found->second;
  if (shard.elements() == 0)
    return ok();
  std::optional<Tensor> piece; // the local tensor in the file's element type, if that differs from the program's
  std::byte *target = local;
  if (saved.dtype != arg.dtype) {
    auto [tensor, bytes] = allocateTensor(saved.dtype, shard.local);
    piece = tensor, target = bytes;
  }
  int64_t elementBytes = bytesOf(saved.dtype);
  auto [first, last] = flatRange(arg.shape, shard.begin, shard.count);
  for (const SavedBox &candidate : saved.boxes) {
    auto [begin, end] = flatRange(saved.shape, candidate.begin, candidate.count);
    if (end < first || last < begin)
      continue;
    std::optional<BoxCopy> copy;
    if (saved.shape == arg.shape && !(copy = copyOverlap(candidate, shard, elementBytes)))
      continue;
    auto source = box(arg.name, saved, candidate);
    if (!source)
      return source.error();
    if (copy)
      copy->run(source->data, target);
    else
      copyRuns(Runs(saved.shape, candidate.begin, candidate.count, candidate.count), source->data,
               Runs(arg.shape, shard.begin, shard.count, shard.local), target, elementBytes);
  }
  if (!piece)
    return ok();
  auto converted = convertTensor(*piece, arg.dtype);
  if (!converted)
    return converted.error();
  std::memcpy(local, converted->data, size_t(converted->bytes()));
  return ok();
}

} // namespace kerf::runtime
