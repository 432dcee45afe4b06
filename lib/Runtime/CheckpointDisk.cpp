// SPDX-License-Identifier: Apache-2.0
#include "CheckpointDisk.h"
#include "CheckpointFiles.h"
#include "kerf/Support/File.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace kerf::runtime {

namespace {
namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kUnfinishedPrefix = ".step-", kUnfinishedSuffix = ".tmp";

Error cannot(const char *verb, const std::string &path, int code) {
  return {fmt::format("cannot {} '{}': {}", verb, path, std::strerror(code))};
}

std::string under(const std::string &folder, const std::string &name) { return (fs::path(folder) / name).string(); }

/// Returns the step number in a name that checkpointName returned, or nothing for any other name.
std::optional<int64_t> stepOf(std::string_view name) {
  int64_t step = 0;
  if (!name.starts_with(kPrefix))
    return std::nullopt;
  std::string_view digits = name.substr(kPrefix.size());
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (code != std::errc() || step < 0 || checkpointName(step) != name)
    return std::nullopt;
  return step;
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    names.push_back(entry->path().filename().string());
  return names;
}

/// Waits until the names of the files in a folder are on disk.
Status syncFolder(const std::string &folder) {
  int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return cannot("open", folder, errno);
  int failed = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // Some network file systems have no such call for folders; their renames are durable by themselves.
  return failed && failed != EINVAL ? Status(cannot("write", folder, failed)) : ok();
}

Status rename(const std::string &from, const std::string &to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return cannot("write", to, errno);
  return syncFolder(fs::path(to).parent_path().string());
}

Status writeNewFile(const std::string &path, std::string_view text) {
  auto file = NewFile::create(path);
  if (!file)
    return file.error();
  if (Status status = file->append(std::as_bytes(std::span(text))); !status)
    return status;
  return file->finish();
}

/// Removes a checkpoint. Its folder is renamed first, so that a half-removed checkpoint does not have
/// a checkpoint's name.
Status discard(const std::string &folder, int64_t step) {
  std::string name = checkpointName(step), aside = under(folder, fmt::format(".{}.old{}", name, kUnfinishedSuffix));
  std::error_code code;
  fs::remove_all(aside, code);
  if (Status status = rename(under(folder, name), aside); !status)
    return status;
  fs::remove_all(aside, code);
  return code ? Status(cannot("remove", aside, code.value())) : ok();
}
} // namespace

Result<NewFile> NewFile::create(const std::string &path) {
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0)
    return cannot("write", path, errno);
  return NewFile(path, descriptor);
}

NewFile::~NewFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Status NewFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return cannot("write", path, errno);
    bytes = bytes.subspan(size_t(count));
  }
  return ok();
}

Status NewFile::finish() {
  int failed = fsync(descriptor) == 0 ? 0 : errno;
  if (close(std::exchange(descriptor, -1)) != 0 && !failed)
    failed = errno;
  return failed ? Status(cannot("write", path, failed)) : ok();
}

std::vector<int64_t> savedSteps(const std::string &folder) {
  std::vector<int64_t> steps;
  for (const std::string &name : namesIn(folder))
    if (auto step = stepOf(name))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::optional<int64_t>> latestStep(const std::string &folder) {
  std::string path = under(folder, kLatestFile);
  std::error_code code;
  if (!fs::exists(path, code))
    return std::optional<int64_t>();
  auto text = readFile(path);
  if (!text)
    return text.error();
  std::string_view name = *text;
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r'))
    name.remove_suffix(1);
  if (auto step = stepOf(name))
    return step;
  constexpr size_t kShown = 40;
  return Error{fmt::format("'{}' names no checkpoint: it is '{}', not as '{}'; write the name of a checkpoint into it",
                           path, name.substr(0, kShown), checkpointName(20))};
}

std::string unfinishedPath(const std::string &folder, int64_t nextStep) {
  return under(folder, fmt::format(".{}{}", checkpointName(nextStep), kUnfinishedSuffix));
}

void discardUnfinished(const std::string &folder) {
  std::error_code code;
  for (const std::string &name : namesIn(folder))
    if (name.starts_with(kUnfinishedPrefix) && name.ends_with(kUnfinishedSuffix))
      fs::remove_all(under(folder, name), code);
}

Status beginCheckpoint(const std::string &folder, int64_t nextStep) {
  std::string path = unfinishedPath(folder, nextStep);
  std::error_code code;
  fs::remove_all(path, code);
  if (!fs::create_directory(path, code))
    return cannot("write", path, code ? code.value() : EEXIST);
  return ok();
}

Status publishCheckpoint(const std::string &folder, const CheckpointIndex &index, int64_t keep) {
  std::string unfinished = unfinishedPath(folder, index.nextStep), name = checkpointName(index.nextStep);
  if (Status status = writeNewFile(under(unfinished, kIndexFile), writeIndex(index)); !status)
    return status;
  if (Status status = syncFolder(unfinished); !status)
    return status;
  std::error_code code;
  if (fs::exists(under(folder, name), code)) // left by a run that ended before it could update `latest`
    if (Status status = discard(folder, index.nextStep); !status)
      return status;
  if (Status status = rename(unfinished, under(folder, name)); !status)
    return status;
  std::string newLatest = under(folder, fmt::format(".{}{}", kLatestFile, kUnfinishedSuffix));
  fs::remove(newLatest, code);
  if (Status status = writeNewFile(newLatest, name + "\n"); !status) {
    fs::remove(newLatest, code);
    return status;
  }
  if (Status status = rename(newLatest, under(folder, kLatestFile)); !status)
    return status;
  std::vector<int64_t> steps = savedSteps(folder);
  steps.erase(std::upper_bound(steps.begin(), steps.end(), index.nextStep), steps.end());
  for (size_t i = 0; i + size_t(keep) < steps.size(); ++i)
    if (!discard(folder, steps[i])) // the new checkpoint is complete; removing is tried again after the next one
      break;
  return ok();
}

Result<FolderLock> prepareFolder(const CheckpointOptions &options, const package::Program &program, int64_t firstStep,
                                 int64_t endStep) {
  if (options.every < 1 || options.keep < 1)
    return Error{fmt::format("checkpoints: one every {} steps, of which {} stay; both have to be at least 1",
                             options.every, options.keep)};
  auto planned = planCheckpoint(program);
  if (!planned)
    return planned.error();
  const std::string &folder = options.folder;
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    return cannot("make the checkpoint folder", folder, code.value());
  auto lock = FolderLock::take(folder);
  if (!lock)
    return lock;
  discardUnfinished(folder); // the lock ensures that no other run is writing them
  auto latest = latestStep(folder);
  if (!latest)
    return latest.error();
  std::vector<int64_t> steps = savedSteps(folder);
  int64_t newest = *latest ? **latest : steps.empty() ? firstStep : steps.back();
  if (newest > firstStep)
    return Error{fmt::format("'{}' has checkpoints up to step {}, and this run begins at step {}; go on from them with "
                             "<resume>, or give <checkpoint> another folder",
                             folder, newest, firstStep)};
  if (Status status = beginCheckpoint(folder, firstStep); !status) // tests whether this user can write here
    return status.error();
  discardUnfinished(folder);

  int64_t due = endStep / options.every - firstStep / options.every + (endStep % options.every != 0);
  int64_t missing = options.keep - std::min<int64_t>(options.keep, int64_t(steps.size()));
  int64_t more = std::min(due, missing + 1); // an old checkpoint is removed only after the new one is complete
  fs::space_info space = fs::space(folder, code);
  if (code || endStep <= firstStep || double(more) * double(planned->bytes()) <= double(space.available))
    return lock;
  constexpr double kMegabyte = 1e6;
  return Error{fmt::format("checkpoints need {} x {:.1f} MB more in '{}', where {:.1f} MB are free; make room, keep "
                           "fewer (<keep>), or give <checkpoint> another folder",
                           more, double(planned->bytes()) / kMegabyte, folder, double(space.available) / kMegabyte)};
}

} // namespace kerf::runtime
