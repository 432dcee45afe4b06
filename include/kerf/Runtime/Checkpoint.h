// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what a program keeps between steps, written in pieces by the ranks that hold it and read by the ranks of
// any other plan of the same model (docs/checkpoints.md).
//
//   DIR/step-000020/index.json               of every tensor its shapes, type and which box of it lies in which file
//   DIR/step-000020/rank-00003.safetensors   the boxes that rank 3 wrote, under the tensors' names
//   DIR/latest                               "step-000020"
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Communicator.h"
#include <functional>

namespace kerf::runtime {

/// A box of a tensor, in the shape that the program which wrote it saw; in its file it is a dense tensor of `count`.
struct SavedBox {
  int file = 0; // index into CheckpointIndex::files
  Shape begin, count;
  uint32_t checksum = 0; // CRC-32 of its bytes
  bool operator==(const SavedBox &) const = default;
};

struct SavedTensor {
  package::ArgKind kind = package::ArgKind::Parameter; // parameter, buffer or state
  DType dtype = DType::F32;
  Shape shape, exportedShape;  // as package::Arg has them
  std::vector<SavedBox> boxes; // disjoint, together the whole tensor
  bool operator==(const SavedTensor &) const = default;
};

struct SavedFile {
  int64_t rank = 0; // that wrote it; its name follows from it
  int64_t bytes = 0;
  bool operator==(const SavedFile &) const = default;
};

struct CheckpointIndex {
  int64_t nextStep = 0; // the first that is not in it
  uint64_t seed = 0;    // all that random numbers depend on
  int64_t dataSteps = 1;
  int64_t skippedSteps = 0; // of those before `nextStep`, steps that changed nothing (OnNan::Skip)
  std::vector<SavedFile> files;
  std::map<std::string, SavedTensor> tensors;
  nlohmann::ordered_json info = nlohmann::ordered_json::object(); // of who wrote it: the model, the plan, the options
  bool operator==(const CheckpointIndex &) const = default;
  int64_t bytes() const; // of all files
};

inline constexpr const char *kIndexFile = "index.json";
inline constexpr const char *kLatestFile = "latest";
std::string fileName(const SavedFile &file);  // "rank-00003.safetensors"
std::string checkpointName(int64_t nextStep); // "step-000020"

std::string writeIndex(const CheckpointIndex &index); // the bytes of index.json, with a checksum of its own
/// Counts, shapes, boxes and the checksum are checked.
Result<CheckpointIndex> readIndex(std::string_view json);

/// Who writes what: of every tensor that stays between steps the boxes of its sharding, each of the lowest rank that
/// holds it. Without checksums; the sizes of the files are right.
Result<CheckpointIndex> planCheckpoint(const package::Program &program);

/// A whole one on disk.
struct Checkpoint {
  std::string folder; // DIR/step-000020
  CheckpointIndex index;
};
/// `path` is the folder of one, or of several: then the one that `latest` names, or the one of the most steps where no
/// `latest` is there. Reads the index alone.
Result<Checkpoint> openCheckpoint(const std::string &path);
/// It holds what the program keeps between steps, and nothing else; exported shapes are the same.
Status checkCheckpoint(const Checkpoint &checkpoint, const package::Program &program);
/// Sizes, headers and checksums of every `parts`-th file from file `part` on: together, the ranks read each once.
Status verifyFiles(const Checkpoint &checkpoint, int64_t part, int64_t parts);

/// What a run writes.
struct CheckpointOptions {
  std::string folder;  // DIR; empty: nothing is written
  int64_t every = 100; // steps from one to the next; the last step of a run has one too
  int64_t keep = 2;    // newest that stay
  nlohmann::ordered_json info = nlohmann::ordered_json::object(); // CheckpointIndex::info
  std::function<void(int64_t nextStep, double seconds)> onSaved;  // on rank 0
  std::function<void(const std::string &text)> onNote;            // on rank 0: what a user should know of the folder
};

} // namespace kerf::runtime
