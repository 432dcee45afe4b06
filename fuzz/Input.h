// SPDX-License-Identifier: Apache-2.0
// What the targets share. A target is one function over bytes, LLVMFuzzerTestOneInput, with libFuzzer around it or the
// plain loop of Replay.cpp. It ends the process where a reader breaks its promise.
#pragma once

#include "kerf/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace kerf::fuzz {

/// A folder of this process; it goes with it.
inline const std::filesystem::path &folder() {
  static const struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("kerf-fuzz-" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  return folder.path;
}

/// A file with that content; the next call with the same name replaces it.
inline std::string fileOf(std::string_view content, const std::string &name) {
  std::string path = (folder() / name).string();
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// A broken promise: what a sanitizer can't see.
inline void demand(bool kept, const std::string &promise) {
  if (kept)
    return;
  std::cerr << "broken: " << promise << std::endl;
  std::abort();
}

/// What is read is good, or refused with words and as the input's fault.
template <typename T> void judge(const Result<T> &result) {
  if (result)
    return;
  demand(!result.error().message.empty(), "a refusal says why");
  demand(result.error().status != ExitStatus::InternalCheck,
         "no input fails a check of Kerf's own: " + result.error().message);
}

} // namespace kerf::fuzz
