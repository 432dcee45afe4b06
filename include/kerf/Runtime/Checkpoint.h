// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a training run: the parameters, buffers and optimizer states of a program between two steps.
// Each rank writes the pieces of tensors that it holds, and the ranks of any other plan of the same model can
// read them (docs/checkpoints.md).
//
//   DIR/step-000020/index.json               each tensor's shapes, element type, and which box of it lies in which file
//   DIR/step-000020/rank-00003.safetensors   the boxes that rank 3 wrote, each under its tensor's name
//   DIR/latest                               the name of the newest checkpoint: "step-000020"
#pragma once

#include "kerf/Package/TensorFile.h"
#include "kerf/Runtime/Communicator.h"
#include <functional>

namespace kerf::runtime {

/// A rectangular part (box) of a tensor in one file of a checkpoint. The file holds the box as a dense, row-major
/// tensor of shape `count`.
struct SavedBox {
  int file = 0;          // index into CheckpointIndex::files of the file that holds the box
  Shape begin;           // the first index of the box in each dimension of SavedTensor::shape
  Shape count;           // elements of the box in each dimension; each at least 1
  uint32_t checksum = 0; // CRC-32 of the box's bytes
  bool operator==(const SavedBox &) const = default;
};

/// The entry of one tensor in a checkpoint's index.
struct SavedTensor {
  package::ArgKind kind = package::ArgKind::Parameter; // parameter, buffer or (optimizer) state; no other kind is saved
  DType dtype = DType::F32;                            // element type in the files
  Shape shape;                                         // global shape in the program that wrote the checkpoint
  Shape exportedShape;         // shape in the exported model: the same elements in the same row-major order
  std::vector<SavedBox> boxes; // boxes that do not overlap and together cover the whole tensor
  bool operator==(const SavedTensor &) const = default;
};

/// One file of tensor data in a checkpoint's folder.
struct SavedFile {
  int64_t rank = 0;  // the rank that wrote the file; the file's name is fileName(*this)
  int64_t bytes = 0; // size of the file in bytes, its header included
  bool operator==(const SavedFile &) const = default;
};

/// The content of a checkpoint's index.json: the position in the training, and where each tensor's data lies.
struct CheckpointIndex {
  int64_t nextStep = 0;         // the number of the first step that the checkpoint does not contain, counted from 0
  uint64_t seed = 0;            // the run's seed, on which dropout and initial values depend
  int64_t dataSteps = 1;        // batches in one pass through the run's training data
  int64_t skippedSteps = 0;     // steps before `nextStep` that updated nothing because of OnNan::Skip
  std::vector<SavedFile> files; // files of tensor data, in ascending order of rank
  std::map<std::string, SavedTensor> tensors; // tensors, by exported name
  /// A description of the run that wrote the checkpoint: its model, plan, learning rate schedule and
  /// data order (checkpointInfo).
  nlohmann::ordered_json info = nlohmann::ordered_json::object();
  bool operator==(const CheckpointIndex &) const = default;
  /// Returns the total size of all files of tensor data, in bytes.
  int64_t bytes() const;
};

/// Name of the index file in a checkpoint's folder.
inline constexpr const char *kIndexFile = "index.json";
/// Name of the file, beside the checkpoints' folders, that holds the name of the newest checkpoint's folder.
inline constexpr const char *kLatestFile = "latest";
/// Returns the name of a file of tensor data, for example "rank-00003.safetensors".
std::string fileName(const SavedFile &file);
/// Returns the name of the folder of the checkpoint that is taken before step `nextStep`, for example "step-000020".
std::string checkpointName(int64_t nextStep);

/// Returns the text of index.json for an index, with a checksum over the text itself.
std::string writeIndex(const CheckpointIndex &index);
/// Parses the text of index.json. Fails if the checksum does not match, or if counts, shapes or boxes
/// contradict each other.
Result<CheckpointIndex> readIndex(std::string_view json);

/// Computes which rank writes which boxes in a checkpoint of the program. The boxes of a tensor are those of its
/// sharding, and the lowest rank that holds a box writes that box. File sizes are set; checksums are left 0.
Result<CheckpointIndex> planCheckpoint(const package::Program &program);

/// A complete checkpoint on disk.
struct Checkpoint {
  std::string folder;    // the checkpoint's own folder, for example DIR/step-000020
  CheckpointIndex index; // the parsed index.json of that folder
};
/// Opens a checkpoint by reading its index only. `path` is either the folder of one checkpoint, or a folder of several.
/// In a folder of several, the checkpoint named by the file `latest` is opened, or the one with the most steps where no
/// `latest` exists. Fails if the folder, the index or the named checkpoint is missing or damaged.
Result<Checkpoint> openCheckpoint(const std::string &path);
/// Checks that the checkpoint holds exactly the tensors that the program keeps between steps, with the same exported
/// shapes and compatible element types. Fails with a message that names the differing tensors.
Status checkCheckpoint(const Checkpoint &checkpoint, const package::Program &program);
/// Returns the names of the program's states of compressed gradients that the checkpoint has for another number of
/// ranks or does not have, so that they start as zeros.
std::vector<std::string> resetStates(const Checkpoint &checkpoint, const package::Program &program);
/// Checks the sizes, headers and checksums of the checkpoint's files whose indices in CheckpointIndex::files are
/// `part`, `part + parts`, `part + 2 * parts`, and so on. If each of `parts` ranks calls this function with its own
/// `part`, each file is read once.
Status verifyFiles(const Checkpoint &checkpoint, int64_t part, int64_t parts);

/// Where, how often and how many checkpoints a run writes.
struct CheckpointOptions {
  std::string folder;  // the folder DIR that holds the checkpoints' folders; empty: no checkpoint is written
  int64_t every = 100; // steps from one checkpoint to the next; the last step of a run is followed by one in any case
  int64_t keep = 2;    // number of newest checkpoints to keep; older ones are removed
  nlohmann::ordered_json info = nlohmann::ordered_json::object(); // the description to store as CheckpointIndex::info
  /// Called on rank 0 after each checkpoint, with the seconds that writing it took.
  std::function<void(int64_t nextStep, double seconds)> onSaved;
  /// Called on rank 0 with a note for the user about the folder, such as that the lock of a dead process
  /// was taken over.
  std::function<void(const std::string &text)> onNote;
};

} // namespace kerf::runtime
