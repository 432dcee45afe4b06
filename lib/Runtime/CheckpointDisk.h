// SPDX-License-Identifier: Apache-2.0
// Folders of checkpoints such that an end at any moment leaves the last whole one: new files are on disk before their
// folder has its name, which it has before `latest` says so, which it does before old folders go.
#pragma once

#include "kerf/Runtime/Checkpoint.h"
#include <span>

namespace kerf::runtime {

/// A file that is written from beginning to end.
class NewFile {
public:
  static Result<NewFile> create(const std::string &path);
  NewFile(NewFile &&other) noexcept : path(std::move(other.path)), descriptor(std::exchange(other.descriptor, -1)) {}
  ~NewFile();
  Status append(std::span<const std::byte> bytes);
  /// It is on disk when this has returned.
  Status finish();

private:
  NewFile(std::string path, int descriptor) : path(std::move(path)), descriptor(descriptor) {}
  std::string path;
  int descriptor;
};

/// Steps of the whole checkpoints in a folder, ascending.
std::vector<int64_t> savedSteps(const std::string &folder);
/// What `latest` says, if it is there.
Result<std::optional<int64_t>> latestStep(const std::string &folder);

/// A new, empty folder to write the checkpoint of `nextStep` in. Its name does not depend on the rank.
Status beginCheckpoint(const std::string &folder, int64_t nextStep);
std::string unfinishedPath(const std::string &folder, int64_t nextStep);
/// Its index last; then its name, then `latest`; then all but the `keep` newest up to it go.
Status publishCheckpoint(const std::string &folder, const CheckpointIndex &index, int64_t keep);
void discardUnfinished(const std::string &folder);

} // namespace kerf::runtime
