// SPDX-License-Identifier: Apache-2.0
// Every rank computes by itself which rank writes which boxes, and then writes its own boxes, one shard at a time. Rank
// 0 gathers the checksums, writes the index and gives the folder its final name.
#include "CheckpointDisk.h"
#include "CheckpointFiles.h"
#include "kerf/Package/FlatProgram.h"
#include "kerf/Package/SafetensorsHeader.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <zlib.h>

namespace kerf::runtime {

namespace {
using package::Arg;

constexpr int64_t kChecksumTag = 2;

/// Returns, for each pipeline stage, whether it has the argument.
std::vector<bool> holdersOf(const package::Program &program, size_t arg) {
  std::vector<bool> holders(size_t(package::stagesOf(program)));
  for (size_t stage = 0; stage < holders.size(); ++stage)
    holders[stage] = package::hasArg(program, arg, int64_t(stage));
  return holders;
}

Shard shardOn(const package::Program &program, const Arg &arg, int64_t rank) {
  return shardOf(program.mesh, arg.shape, arg.sharding, package::virtualRank(program, rank, 0));
}

/// A box of a tensor, with the tensor's name and type.
struct NamedBox {
  const std::string *name = nullptr;
  DType dtype = DType::F32;
  SavedBox *box = nullptr;
};

/// Returns the boxes of each file, in their order in the file.
std::vector<std::vector<NamedBox>> boxesByFile(CheckpointIndex &index) {
  std::vector<std::vector<NamedBox>> boxes(index.files.size());
  for (auto &[name, tensor] : index.tensors)
    for (SavedBox &box : tensor.boxes)
      boxes[size_t(box.file)].push_back({&name, tensor.dtype, &box});
  return boxes;
}

Result<std::string> headerOf(const std::vector<NamedBox> &boxes) {
  std::vector<TensorEntry> entries;
  for (const NamedBox &box : boxes)
    entries.push_back({*box.name, box.dtype, box.box->count});
  return safetensorsHeader(entries);
}
} // namespace

bool isSaved(const package::Program &program, size_t arg) {
  std::vector<bool> holders;
  if (staysBetweenSteps(program.args[arg]))
    holders = holdersOf(program, arg);
  return std::find(holders.begin(), holders.end(), true) != holders.end();
}

Result<CheckpointIndex> planCheckpoint(const package::Program &program) {
  CheckpointIndex index;
  std::map<std::string, std::map<Shape, int64_t>> owners; // by tensor and first index of a box: the rank that writes it
  std::set<int64_t> writers;
  int64_t ranks = package::ranksOf(program);
  for (size_t number = 0; number < program.args.size(); ++number) {
    const Arg &arg = program.args[number];
    if (!isSaved(program, number))
      continue;
    if (!index.tensors.emplace(arg.name, SavedTensor{arg.kind, arg.dtype, arg.shape, arg.exportedShape, {}}).second)
      return Error{
          fmt::format("checkpoints: two of the program's tensors are named '{}'; rename one in the model", arg.name)};
    auto &boxes = owners[arg.name];
    std::vector<bool> holders = holdersOf(program, number);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Shard shard = shardOn(program, arg, rank);
      if (holders[size_t(package::stageOf(program, rank))] && shard.elements() > 0 &&
          boxes.emplace(shard.begin, rank).second)
        index.tensors[arg.name].boxes.push_back({int(rank), shard.begin, shard.count, 0}), writers.insert(rank);
    }
  }
  // Until here SavedBox::file is a rank. Not every rank writes a file, so the files are numbered now.
  std::map<int64_t, int> fileOf;
  for (int64_t rank : writers) {
    fileOf.emplace(rank, int(index.files.size()));
    index.files.push_back({rank, 0});
  }
  for (auto &[name, tensor] : index.tensors)
    for (SavedBox &box : tensor.boxes)
      box.file = fileOf[box.file];
  auto boxes = boxesByFile(index);
  for (size_t file = 0; file < index.files.size(); ++file) {
    auto header = headerOf(boxes[file]);
    if (!header)
      return Error{fmt::format("checkpoints: {}", header.error().message)};
    index.files[file].bytes = int64_t(header->size());
    for (const NamedBox &box : boxes[file])
      index.files[file].bytes += elementsOf(box.box->count) * bytesOf(box.dtype);
  }
  return index;
}

Result<CheckpointWriter> CheckpointWriter::create(const package::Program &program, const CheckpointOptions &options,
                                                  Communicator &communicator, int64_t endStep) {
  auto planned = planCheckpoint(program);
  if (!planned)
    return planned.error();
  std::error_code code;
  if (!std::filesystem::is_directory(options.folder, code))
    return Error{fmt::format("the checkpoint folder '{}' does not exist on this rank's machine; give <checkpoint> a "
                             "folder that all ranks share",
                             options.folder)};
  return CheckpointWriter(program, options, communicator, endStep, std::move(*planned));
}

Status CheckpointWriter::writeShards(const std::string &folder,
                                     const std::function<Status(size_t arg, std::byte *local)> &read) {
  auto own = std::find_if(planned.files.begin(), planned.files.end(),
                          [&](const SavedFile &file) { return file.rank == communicator->rank(); });
  if (own == planned.files.end())
    return ok();
  std::vector<NamedBox> boxes = boxesByFile(planned)[size_t(own - planned.files.begin())];
  auto file = NewFile::create((std::filesystem::path(folder) / fileName(*own)).string());
  if (!file)
    return file.error();
  auto header = headerOf(boxes);
  if (!header)
    return header.error();
  if (Status status = file->append(std::as_bytes(std::span(*header))); !status)
    return status;
  std::map<std::string_view, size_t> args;
  for (size_t i = 0; i < program->args.size(); ++i)
    if (staysBetweenSteps(program->args[i]))
      args.emplace(program->args[i].name, i);
  for (const NamedBox &box : boxes) {
    size_t number = args.find(*box.name)->second;
    const Arg &arg = program->args[number];
    Shard shard = shardOn(*program, arg, communicator->rank());
    std::vector<std::byte> local(size_t(elementsOf(shard.local) * bytesOf(arg.dtype))), packed;
    if (Status status = read(number, local.data()); !status)
      return status;
    BoxCopy pack = packBox(shard.local, Shape(shard.local.size(), 0), shard.count, bytesOf(arg.dtype));
    std::span<const std::byte> bytes(local.data(), size_t(pack.bytes()));
    if (!pack.contiguous()) { // padding lies between the shard's elements
      packed.resize(size_t(pack.bytes()));
      pack.run(local.data(), packed.data());
      bytes = packed;
    }
    box.box->checksum = uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
    if (Status status = file->append(bytes); !status)
      return status;
  }
  return file->finish();
}

Status CheckpointWriter::gatherChecksums() {
  auto boxes = boxesByFile(planned);
  for (size_t file = 0; file < planned.files.size(); ++file) {
    int64_t writer = planned.files[file].rank;
    if (writer == 0 || (communicator->rank() != 0 && communicator->rank() != writer))
      continue;
    std::vector<uint32_t> checksums;
    for (const NamedBox &box : boxes[file])
      checksums.push_back(box.box->checksum);
    if (communicator->rank() != 0) {
      if (Status sent = communicator->startSend(std::as_bytes(std::span(checksums)), 0, kChecksumTag); !sent)
        return sent;
      return communicator->finishSends(kChecksumTag);
    }
    std::span<std::byte> bytes = std::as_writable_bytes(std::span(checksums));
    if (Status received = communicator->receive(bytes, writer, kChecksumTag); !received)
      return received;
    for (size_t i = 0; i < checksums.size(); ++i)
      boxes[file][i].box->checksum = checksums[i];
  }
  return ok();
}

Status CheckpointWriter::save(const TrainingPosition &at,
                              const std::function<Status(size_t arg, std::byte *local)> &read) {
  bool isFirst = communicator->rank() == 0;
  const std::string &folder = options->folder;
  Status saved = agree(*communicator, isFirst ? beginCheckpoint(folder, at.nextStep) : ok());
  if (saved)
    saved = agree(*communicator, writeShards(unfinishedPath(folder, at.nextStep), read));
  if (saved)
    saved = gatherChecksums();
  if (saved) {
    planned.nextStep = at.nextStep;
    planned.seed = at.seed;
    planned.dataSteps = at.dataSteps;
    planned.skippedSteps = at.skippedSteps;
    planned.info = options->info;
    saved = agree(*communicator, isFirst ? publishCheckpoint(folder, planned, options->keep) : ok());
  }
  if (!saved && isFirst)
    discardUnfinished(folder);
  return saved ? saved
               : Status(Error{fmt::format("checkpoint before step {}: {}", at.nextStep, saved.error().message),
                              saved.error().status});
}

} // namespace kerf::runtime
