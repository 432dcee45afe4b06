// SPDX-License-Identifier: Apache-2.0
// Writes checkpoint folders such that a crash at any moment leaves the last complete checkpoint intact. A checkpoint's
// files are on disk before its folder gets its final name, the folder has its name before `latest` points to it, and
// `latest` points to it before older folders are removed.
#pragma once

#include "kerf/Runtime/Checkpoint.h"
#include <span>

namespace kerf::runtime {

/// A file that is written once, from beginning to end.
class NewFile {
public:
  /// Creates the file. Fails if a file of that name exists.
  static Result<NewFile> create(const std::string &path);
  NewFile(NewFile &&other) noexcept : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)) {}
  ~NewFile();
  /// Writes bytes at the end of the file.
  Status append(std::span<const std::byte> bytes);
  /// Closes the file after its content has reached the disk (fsync).
  Status finish();

private:
  NewFile(std::string path, int descriptor) : path(std::move(path)), descriptor(descriptor) {}
  std::string path;
  int descriptor;
};

/// Returns the step numbers of the complete checkpoints in a folder, in ascending order.
std::vector<int64_t> savedSteps(const std::string &folder);
/// Returns the step number of the checkpoint that the file `latest` names, or nothing if there is no such file. Fails
/// if the file does not hold a checkpoint's name.
Result<std::optional<int64_t>> latestStep(const std::string &folder);

/// Creates an empty folder, unfinishedPath(folder, nextStep), in which the ranks write the checkpoint. An earlier
/// folder of that name is removed.
Status beginCheckpoint(const std::string &folder, int64_t nextStep);
/// Returns the path of the folder of a checkpoint that is being written. The path is the same on all ranks.
std::string unfinishedPath(const std::string &folder, int64_t nextStep);
/// Completes a checkpoint whose other files are written: writes its index, gives its folder the final name, and lets
/// `latest` point to it. Then removes all checkpoints up to this one but the `keep` newest.
Status publishCheckpoint(const std::string &folder, const CheckpointIndex &index, int64_t keep);
/// Removes what interrupted checkpoints have left in the folder.
void discardUnfinished(const std::string &folder);

} // namespace kerf::runtime
